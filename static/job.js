// One explanation at a time: a newer one drops the older, and what arrives late for the older is not heard.

import { abandon, createExplanation, explanationPath, follow } from "./api.js";

const LAST = ["done", "failed", "cancelled"];

export class Job {
  #asked = 0;
  #live = null;
  #sending = null;

  /** `on` has queued({position}), started(info, job), method(map, job), done({seconds}, job), failed(problem, job), lost(problem). */
  constructor(on) {
    this.on = on;
  }

  /**
   * Ask for an explanation and follow it. Resolves to {id, ...} once the server took it, or null when a newer one was asked for
   * in between; rejects with the Problem, and then the one before goes on undisturbed.
   */
  async start(fields) {
    const ticket = ++this.#asked;
    this.#sending?.abort();
    const sending = (this.#sending = new AbortController());
    let job;
    try {
      job = await createExplanation(fields, sending.signal);
    } catch (error) {
      if (error.name === "AbortError") return null;
      throw error;
    }
    if (ticket !== this.#asked) return null;
    this.follow(job);
    return job;
  }

  /** Follow an explanation from its beginning; `job` is {id, state?}. */
  follow(job) {
    this.#leave();
    const live = { id: job.id, over: job.state === "done" };
    const here = (run) => (data) => live === this.#live && run(data);
    const end = (run) => here((data) => {
      live.over = true;
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
        cancelled: end(() => failed({ title: "Cancelled", detail: "This explanation was stopped before it was finished." }, job)),
      },
      LAST,
      here(lost),
    );
    this.#live = live;
  }

  /** Want nothing more. */
  drop() {
    this.#asked++;
    this.#sending?.abort();
    this.#leave();
  }

  #leave() {
    if (!this.#live) return;
    this.#live.stop();
    if (!this.#live.over) abandon(this.#live.id);
    this.#live = null;
  }
}
