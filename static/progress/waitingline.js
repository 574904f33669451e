// A line that says how long an answer takes and how far it is, and stops it.

import { el } from "../core/dom.js";

/** Seconds of waiting during which nothing is shown. */
export const SOON = 2;
const TICK = 1000; // milliseconds

/** The text while the server is away. */
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
 * Say how long it will still take: by its progress, else by what was expected, else what it has taken so far. Empty
 * where it is done soon.
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
  #says = () => "";
  #button = () => {};

  constructor() {
    this.text = el("span");
    this.action = el("button", { type: "button", class: "act plain", on: { click: () => this.#button() } });
    // no live region: it changes every second
    const line = el("p", { role: "group", "aria-label": "Waiting for the model" }, this.text, this.action);
    this.node = el("div", { class: "waits", hidden: true }, line);
  }

  /**
   * Show the text that `says()` returns, updated every second; nothing while that is empty. With a button of this name.
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

  /** Update the text. */
  draw() {
    const text = this.#says();
    this.node.hidden = !text;
    if (this.text.textContent !== text) this.text.textContent = text;
  }

  /** Clear the line: there is nothing to wait for. */
  end() {
    clearInterval(this.#timer);
    this.#says = () => "";
    this.draw();
  }
}
