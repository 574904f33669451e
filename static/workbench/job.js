// One explanation at a time: a newer one drops the older, and what arrives late for the older is not heard.

import { abandon, askAgain, createExplanation, explanationPath, follow, isLost, serverIsBack } from "../core/api.js";

/** @import { ProblemDocument } from "../core/schemas.js" */

const LAST = ["done", "failed", "cancelled"];

/** The explanation that is followed. */
export class Job {
  #lastTicket = 0;
  /** @type {{job: {[name: string]: any}, stop: () => void} | null} */
  #live = null;
  /** @type {AbortController | null} */
  #sending = null;

  /**
   * `on` has queued({position}, job), started(info, job), method(map, job), done({seconds}, job), failed(problem, job),
   * lost(problem); busy(seconds) where the server takes no more questions for so long; away() and back() where it goes
   * away and is there again, renewed(job) where it then makes again, under another id, what it had not finished.
   * @param {{[event: string]: (data?: any, job?: any) => void}} on
   */
  constructor(on) {
    this.on = on;
  }

  /**
   * Ask for an explanation and follow it. `prepare()` resolves to the fields of the form; `job` is what the listeners
   * are given, with the id from then on. Resolves to it once the server took it, or to null when a newer one was asked
   * for in between; rejects with the Problem, and then the one before goes on undisturbed.
   * @param {() => any} prepare
   * @param {{[name: string]: any}} [job]
   * @returns {Promise<any>}
   */
  async start(prepare, job = {}) {
    const ticket = ++this.#lastTicket;
    const isOld = () => ticket !== this.#lastTicket;
    this.#sending?.abort();
    const sending = (this.#sending = new AbortController());
    try {
      const accepted = await this.#persist(async () => {
        const fields = await prepare();
        return isOld() ? null : createExplanation(fields, sending.signal);
      }, sending.signal);
      if (isOld() || !accepted) {
        if (accepted) abandon(accepted.id);
        return null;
      }
      this.follow(Object.assign(job, { id: accepted.id, isOver: false, stored: accepted.stored }));
      return job;
    } catch (problem) {
      if (isOld() || problem.name === "AbortError") return null;
      throw problem;
    }
  }

  /**
   * Ask exactly what a job was asked that was not finished, and follow it under its new id.
   * @param {{[name: string]: any}} job
   * @returns {Promise<any>} as `start`
   */
  async again(job) {
    const { id } = job;
    const ticket = ++this.#lastTicket;
    this.#sending?.abort();
    const { signal } = (this.#sending = new AbortController());
    const accepted = await this.#persist(() => askAgain(id), signal);
    if (ticket !== this.#lastTicket) {
      abandon(accepted.id);
      return null;
    }
    if (this.#live?.job === job) {
      this.#live.stop(); // what it was before is over
      this.#live = null;
    }
    this.follow(Object.assign(job, { id: accepted.id, isOver: false, state: null }));
    return job;
  }

  /** Do not ask again a question that the server has not taken. */
  giveUp() {
    this.#sending?.abort();
  }

  /**
   * Send a request again until it succeeds, while the server is away or busy.
   * @template T
   * @param {() => Promise<T>} ask
   * @param {AbortSignal} signal
   * @returns {Promise<T>}
   */
  async #persist(ask, signal) {
    for (;;) {
      try {
        return await ask();
      } catch (problem) {
        if (problem.retryAfter) {
          const { patiently } = await import("../core/patience.js");
          return patiently(ask, this.on.busy ?? (() => {}), signal, problem);
        }
        if (!isLost(problem)) throw problem;
        this.on.away?.();
        await serverIsBack(signal);
        this.on.back?.();
      }
    }
  }

  /**
   * Follow the explanation that the server makes again, after it stopped before it was done.
   * @param {{[name: string]: any}} job
   * @param {ProblemDocument} problem
   */
  async #renew(job, problem) {
    this.on.away?.();
    try {
      if (await this.again(job)) this.on.renewed?.(job);
    } catch (refusal) {
      if (refusal.name !== "AbortError") this.on.failed(refusal.isOf?.("no-question") ? problem : refusal, job);
    }
  }

  /**
   * Follow an explanation from its beginning; `job` is {id, state?}. One that is known to have failed is not made again.
   * @param {{[name: string]: any}} job
   */
  follow(job) {
    this.#leave();
    const live = { job, stop: () => {} };
    if (job.state === "done") job.isOver = true;
    /** @param {(data: any) => void} run */
    const here = (run) => (/** @type {any} */ data) => live === this.#live && run(data);
    /** @param {(data: any, job: any) => void} run */
    const end = (run) =>
      here((data) => {
        job.isOver = true;
        run(data, job);
      });
    const { queued, started, method, done, failed, lost, away = () => {}, back = () => {} } = this.on;
    const wasOver = job.state === "failed";
    live.stop = follow(
      `${explanationPath(job.id)}/events`,
      {
        queued: here((data) => queued(data, job)),
        started: here((info) => started(info, job)),
        method: here((map) => method(map, job)),
        done: end(done),
        failed: here((data) => {
          const problem = data.problem ?? data;
          job.isOver = true;
          if (isLost(problem) && !wasOver) this.#renew(job, problem);
          else failed(problem, job);
        }),
        lost: here(away),
        back: here(back),
        cancelled: end(() =>
          failed({ title: "Cancelled", detail: "This explanation was stopped before the end." }, job),
        ),
      },
      LAST,
      here(lost),
    );
    this.#live = live;
  }

  /** Stop following. */
  drop() {
    this.#lastTicket++;
    this.#sending?.abort();
    this.#leave();
  }

  #leave() {
    if (!this.#live) return;
    const { stop, job } = this.#live;
    stop();
    if (!job.isOver) abandon(job.id);
    this.#live = null;
  }
}
