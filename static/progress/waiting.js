// A line that says how long an answer takes and how far it is, and stops it; and that waits where the server is away.

import { followJSON, isLost, serverIsBack } from "../core/api.js";
import { el } from "../core/dom.js";

/** Seconds of which nothing is said. */
export const SOON = 2;
const TICK = 1000; // milliseconds

/** What is said while the server is away. */
export const LOST = "Connection lost, trying again";

/**
 * "about 40 s", "about 3 minutes": no more exact than it is known.
 * @param {number} seconds
 * @returns {string}
 */
export function about(seconds) {
  if (seconds < 1.5) return "about a second";
  if (seconds < 10) return `about ${Math.round(seconds)} s`;
  if (seconds < 90) return `about ${5 * Math.round(seconds / 5)} s`;
  return `about ${Math.round(seconds / 60)} minutes`;
}

/**
 * How long it will take still, in words: from how far it is, else from what was expected, else what it has taken so
 * far. Empty where it is done soon.
 * @param {{elapsed: number, expected?: number | null, done?: number, all?: number}} state seconds and counts
 * @returns {string}
 */
export function remaining({ elapsed, expected = null, done = 0, all = 0 }) {
  const byCount = done > 0 && all > done ? (elapsed / done) * (all - done) : null;
  const left = byCount ?? (expected === null ? null : expected - elapsed);
  if (Math.max(elapsed, expected ?? 0, elapsed + (left ?? 0)) < SOON) return "";
  if (left !== null && left > 0) return `${about(left)} left`;
  const so = `${Math.round(elapsed)} s so far`;
  return left === null ? so : `longer than expected, ${so}`;
}

/**
 * The seconds of a clock that is not set.
 * @returns {number}
 */
export const now = () => performance.now() / 1000;

/** The line itself: a text and a button. It is empty while there is nothing to say. */
export class WaitingLine {
  #timer = 0;
  #says = null;
  #button = null;

  constructor() {
    this.text = el("span");
    this.action = el("button", { type: "button", class: "act plain", on: { click: () => this.#button?.() } });
    // no live region: it changes every second
    const line = el("p", { role: "group", "aria-label": "Waiting for the model" }, this.text, this.action);
    this.node = el("div", { class: "waits", hidden: true }, line);
  }

  /**
   * Say what `says()` gives from now on, every second anew; nothing while that is empty. With a button of this name.
   * @param {() => string} says
   * @param {string} [name]
   * @param {() => void} [press]
   */
  begin(says, name = "", press = () => {}) {
    this.#says = says;
    this.#button = press;
    this.action.textContent = name;
    this.action.hidden = !name;
    clearInterval(this.#timer);
    this.#timer = setInterval(() => this.draw(), TICK);
    this.draw();
  }

  /** Say it as it is now. */
  draw() {
    const text = this.#says?.() ?? "";
    this.node.hidden = !text;
    if (this.text.textContent !== text) this.text.textContent = text;
  }

  /** There is nothing to wait for. */
  end() {
    clearInterval(this.#timer);
    this.#says = null;
    this.draw();
  }
}

/** The questions of a tool that wait for their answers, and the line that says so. */
export class Waiting {
  #asked = new Set();
  #stopped = new Set(); // what goes on when one asks again

  constructor() {
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
    const question = {
      onProgress,
      isOver: new AbortController(),
      began: now(),
      expected: null,
      done: 0,
      all: 0,
      isGone: false,
    };
    const over = () => question.isOver.abort();
    signal?.addEventListener("abort", over, { once: true });
    this.#asked.add(question);
    try {
      for (;;) {
        try {
          return await this.#once(question, path, body);
        } catch (problem) {
          question.isOver.signal.throwIfAborted();
          if (problem.name === "AbortError") await this.#pressed(question);
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

  /** Nobody wants to know any more. */
  drop() {
    for (const question of this.#asked) question.isOver.abort();
  }

  #once(question, path, body) {
    Object.assign(question, { sending: new AbortController(), began: now(), expected: null, done: 0, all: 0 });
    const over = () => question.sending.abort();
    question.isOver.signal.addEventListener("abort", over, { once: true });
    this.#draw();
    const on = {
      expected: ({ seconds }) => {
        Object.assign(question, { began: now(), expected: seconds });
        this.#draw();
      },
      progress: (progress) => {
        const { asked, total } = progress;
        if (!question.all) question.began = now(); // before, it waited for its turn
        Object.assign(question, { done: asked, all: total });
        question.onProgress(progress);
      },
    };
    return followJSON(path, body, on, question.sending.signal);
  }

  /** Once somebody asks again what was stopped. */
  #pressed(question) {
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
      () => [...this.#asked].forEach(({ sending, isGone, isOver }) => (isGone ? isOver : sending).abort()),
    );
  }

  #says() {
    const questions = [...this.#asked];
    if (questions.some(({ isGone }) => isGone)) return LOST;
    const longest = ({ began, expected, done, all }) => remaining({ elapsed: now() - began, expected, done, all });
    const times = questions.map(longest).filter(Boolean);
    if (!times.length) return "";
    const counted = questions.find(({ all }) => all > 1);
    return [counted ? `${counted.done} of ${counted.all}` : "The model is asked", times.at(-1)].join(" · ");
  }
}
