// One explanation at a time: a newer one drops the older, and what arrives late for the older is not heard.

import { abandon, createExplanation, explanationPath, follow } from "../core/api.js";

const LAST = ["done", "failed", "cancelled"];

/** The explanation that is followed. */
export class Job {
  #lastTicket = 0;
  #live = null;
  #sending = null;

  /**
   * `on` has queued({position}), started(info, job), method(map, job), done({seconds}, job), failed(problem, job),
   * lost(problem).
   * @param {{[event: string]: (data: any, job?: any) => void}} on
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
      const fields = await prepare();
      if (isOld()) return null;
      const accepted = await createExplanation(fields, sending.signal);
      if (isOld()) {
        abandon(accepted.id);
        return null;
      }
      this.follow(Object.assign(job, { id: accepted.id, isOver: false }));
      return job;
    } catch (problem) {
      if (isOld() || problem.name === "AbortError") return null;
      throw problem;
    }
  }

  /**
   * Follow an explanation from its beginning; `job` is {id, state?}.
   * @param {{[name: string]: any}} job
   */
  follow(job) {
    this.#leave();
    const live = { job };
    if (job.state === "done") job.isOver = true;
    const here = (run) => (data) => live === this.#live && run(data);
    const end = (run) =>
      here((data) => {
        job.isOver = true;
        run(data, job);
      });
    const { queued, started, method, done, failed, lost } = this.on;
    live.stop = follow(
      `${explanationPath(job.id)}/events`,
      {
        queued: here(queued),
        started: here((info) => started(info, job)),
        method: here((map) => method(map, job)),
        done: end(done),
        failed: end((data) => failed(data.problem ?? data, job)),
        cancelled: end(() =>
          failed({ title: "Cancelled", detail: "This explanation was stopped before it was finished." }, job),
        ),
      },
      LAST,
      here(lost),
    );
    this.#live = live;
  }

  /** Want nothing more. */
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
