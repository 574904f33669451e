// The questions of a tool: they wait for their answers, say how long it takes, can be stopped, and wait where the
// server is away.

import { isLost, serverIsBack } from "../core/api.js";
import { patiently } from "../core/patience.js";
import { followJSON } from "../core/studyanswer.js";
import { LOST, now, remaining, WaitingLine } from "./waitingline.js";

/** @import { ExpectedData, ProgressData } from "../core/schemas.js" */

/**
 * A question that waits for its answer. Of what is sent again, `sending` is the newest.
 * @typedef {{onProgress: (progress: ProgressData) => void, isOver: AbortController, sending?: AbortController,
 *   began: number, expected: number | null, done: number, all: number, isGone: boolean, busyUntil: number}} Question
 */

/**
 * Say how often the model was asked, and how often it will be; `bound` is "at least" where that may still grow.
 * @param {number} done
 * @param {number} all
 * @param {"" | "at least"} [bound]
 * @returns {string}
 */
export const askedLine = (done, all, bound = "") =>
  `The model was asked ${[done, "of", bound, all].filter((part) => part !== "").join(" ")} times`;

/** The questions of a tool that wait for their answers, and the line that says so. */
export class Waiting {
  /** @type {Set<Question>} */
  #asked = new Set();
  #stopped = new Set(); // what goes on when one asks again

  /**
   * `bound` is "at least" where the total that is told may still grow; how long it takes is then not known.
   * @param {"" | "at least"} [bound]
   */
  constructor(bound = "") {
    this.bound = bound;
    this.line = new WaitingLine();
    this.node = this.line.node;
  }

  /**
   * Ask a call that may be told as it goes. Who presses Stop lets it wait until it is asked again; a server that is
   * away is waited for. `onProgress` is given how far it is. Rejects with the Problem, and with an AbortError where
   * `signal` says so or all is dropped.
   * @param {string} path
   * @param {any} body
   * @param {AbortSignal} [signal]
   * @param {(progress: {asked: number, total: number}) => void} [onProgress]
   * @returns {Promise<any>}
   */
  async ask(path, body, signal, onProgress = () => {}) {
    signal?.throwIfAborted();
    /** @type {Question} */
    const question = {
      onProgress,
      isOver: new AbortController(),
      began: now(),
      expected: null,
      done: 0,
      all: 0,
      isGone: false,
      busyUntil: 0,
    };
    const over = () => question.isOver.abort();
    signal?.addEventListener("abort", over, { once: true });
    this.#asked.add(question);
    try {
      for (;;) {
        try {
          return await this.#sendUntilTaken(question, path, body);
        } catch (problem) {
          question.isOver.signal.throwIfAborted();
          if (problem.name === "AbortError") await this.#askedAgain(question);
          else if (isLost(problem)) await this.#back(question);
          else throw problem;
        }
      }
    } finally {
      signal?.removeEventListener("abort", over);
      this.#asked.delete(question);
      this.#draw();
    }
  }

  /** Drop all questions: nobody waits for them any more. */
  drop() {
    for (const question of this.#asked) question.isOver.abort();
  }

  /**
   * Send a question again as often as the server is busy, and show how long it says to wait.
   * @param {Question} question
   * @param {string} path
   * @param {any} body
   */
  #sendUntilTaken(question, path, body) {
    const sending = new AbortController();
    question.sending = sending;
    question.isOver.signal.addEventListener("abort", () => sending.abort(), { once: true });
    const onPause = (/** @type {number} */ seconds) => {
      question.busyUntil = now() + seconds;
      this.#draw();
    };
    return patiently(() => this.#once(question, path, body, sending.signal), onPause, sending.signal);
  }

  /**
   * @param {Question} question
   * @param {string} path
   * @param {any} body
   * @param {AbortSignal} signal
   */
  #once(question, path, body, signal) {
    Object.assign(question, { began: now(), expected: null, done: 0, all: 0, busyUntil: 0 });
    this.#draw();
    const on = {
      expected: (/** @type {ExpectedData} */ { seconds }) => {
        Object.assign(question, { began: now(), expected: seconds });
        this.#draw();
      },
      progress: (/** @type {ProgressData} */ progress) => {
        const { asked, total } = progress;
        if (!question.all) question.began = now(); // before, it waited for its turn
        Object.assign(question, { done: asked, all: total });
        question.onProgress(progress);
      },
    };
    return followJSON(path, body, on, signal);
  }

  /**
   * Resolves when somebody asks again what was stopped.
   * @param {Question} question
   * @returns {Promise<void>}
   */
  #askedAgain(question) {
    return new Promise((resolve, reject) => {
      const go = () => {
        this.#stopped.delete(go);
        resolve();
      };
      this.#stopped.add(go);
      question.isOver.signal.addEventListener("abort", () => {
        this.#stopped.delete(go);
        reject(question.isOver.signal.reason);
      });
      this.#draw();
    });
  }

  /** @param {Question} question */
  async #back(question) {
    question.isGone = true;
    this.#draw();
    await serverIsBack(question.isOver.signal);
    question.isGone = false;
  }

  #draw() {
    if (this.#stopped.size)
      return this.line.begin(
        () => "Stopped",
        "Ask again",
        () => [...this.#stopped].forEach((go) => go()),
      );
    if (!this.#asked.size) return this.line.end();
    this.line.begin(
      () => this.#says(),
      "Stop",
      () => [...this.#asked].forEach(({ sending, isGone, isOver }) => (isGone ? isOver : sending)?.abort()),
    );
  }

  #says() {
    const questions = [...this.#asked];
    if (questions.some(({ isGone }) => isGone)) return LOST;
    const busy = Math.max(...questions.map(({ busyUntil }) => busyUntil));
    if (busy) return `The server has many questions: asking again in ${Math.max(1, Math.ceil(busy - now()))} s`;
    /** @param {Question} question */
    const longest = ({ began, expected, done, all }) =>
      remaining({ elapsed: now() - began, expected, ...(this.bound ? {} : { done, all }) });
    const times = questions.map(longest).filter(Boolean);
    if (!times.length) return "";
    const counted = questions.find(({ all }) => all > 1);
    return [counted ? askedLine(counted.done, counted.all, this.bound) : "The model is asked", times.at(-1)].join(
      " · ",
    );
  }
}
