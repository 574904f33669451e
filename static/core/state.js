// The address bar is the state: which explanation, and how it is looked at.

import { DIVERGING, SEQUENCES } from "./colour.js";

/** @import { Address, Subject } from "./types.js" */

/** The default view; what is as in the default is left out of the address. */
const VIEW = {
  evidence: "both",
  grid: "smooth",
  level: "patches",
  scale: "own",
  opacity: 80,
  sequence: "magma",
  diverging: "red-blue",
  lens: "on",
  sink: "off",
  grain: "words",
  shown: "seen",
  words: "hidden",
  numbers: "hidden",
  more: "folded",
  pair: "",
  first: "",
  regions: "",
  threshold: 5,
  order: "most",
  removed: 0,
};
const CHOICES = {
  evidence: ["both", "for", "against"],
  grid: ["smooth", "bicubic", "patches"],
  level: ["patches", "pixels"],
  scale: ["own", "shared"],
  sequence: Object.keys(SEQUENCES),
  diverging: Object.keys(DIVERGING),
  lens: ["on", "off"],
  sink: ["on", "off"],
  grain: ["pieces", "words", "sentences"],
  shown: ["seen", "original"],
  words: ["hidden", "shown"],
  numbers: ["hidden", "shown"],
  more: ["folded", "shown"],
  order: ["most", "least"],
};
/** The pattern of the values in the address that are not one of a few choices. */
const SPEC = /^[\w:?=&.,+-]+$/;
const FREE = { pair: /^\d-\d$/, first: SPEC, regions: SPEC };
/** The keys of the view that are a percentage, with the largest value of each; the smallest is 0. */
const PERCENT = { opacity: 100, threshold: 50, removed: 100 };

/**
 * A value that tells its followers when it changes.
 * @template T
 */
export class Store {
  #followers = new Set();
  /** @param {T} value */
  constructor(value) {
    this.value = value;
  }
  /**
   * Change these parts of the value; followers are called where that makes a difference.
   * @param {Partial<T>} patch
   */
  set(patch) {
    const next = { ...this.value, ...patch };
    const keys = /** @type {(keyof T)[]} */ (Object.keys(next));
    if (keys.every((key) => Object.is(next[key], this.value[key]))) return;
    const before = this.value;
    this.value = next;
    for (const run of this.#followers) run(next, before);
  }
  /**
   * Call `run` at every change; returns a function that ends that.
   * @param {(now: T, before: T) => void} run
   * @returns {() => boolean}
   */
  follow(run) {
    this.#followers.add(run);
    return () => this.#followers.delete(run);
  }
}

/**
 * The empty subject: no explanation is on show.
 * @type {Subject}
 */
export const NOTHING = { id: null, model: null, info: null, done: false };

/**
 * Parse the address: {id, source, model, targets, prompts, compare, sample, side, methods, view, focus}.
 * @param {string} [search]
 * @returns {Address}
 */
export function readAddress(search = location.search) {
  const query = new URLSearchParams(search);
  const view = /** @type {any} */ ({ ...VIEW });
  for (const [name, choices] of Object.entries(CHOICES))
    if (choices.includes(query.get(name) ?? "")) view[name] = query.get(name);
  for (const [name, form] of Object.entries(FREE)) if (form.test(query.get(name) ?? "")) view[name] = query.get(name);
  for (const [name, most] of Object.entries(PERCENT)) {
    const value = Number(query.get(name));
    if (query.has(name) && value >= 0 && value <= most) view[name] = value;
  }
  const focus = Number(query.get("focus") ?? -1);
  return {
    id: query.get("id"),
    source: query.get("source"),
    model: query.get("model"),
    targets: query.getAll("target"),
    prompts: query.getAll("prompt"),
    compare: query.get("compare"),
    sample: query.get("sample"),
    side: query.get("side") === "text" ? "text" : "image",
    methods: query.getAll("methods"),
    view,
    focus: Number.isInteger(focus) ? focus : -1,
  };
}

/**
 * Write the state into the address: `question` is {id} or what was asked for while there is no id yet; `more` are further
 * [name, value]; `isStep` makes it a new step of the browser's history. Gives what stands in the address after the
 * path.
 * @param {{[name: string]: any}} question
 * @param {{[name: string]: any}} view
 * @param {number} focus
 * @param {string[][]} [more]
 * @param {boolean} [isStep]
 * @returns {string}
 */
export function writeAddress(question, view, focus, more = [], isStep = false) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(question)) {
    for (const item of Array.isArray(value) ? value : [value])
      if (item !== null && item !== undefined) query.append(name, item);
  }
  for (const [name, begin] of Object.entries(VIEW)) if (view[name] !== begin) query.set(name, view[name]);
  if (focus >= 0) query.set("focus", String(focus));
  for (const [name, value] of more) query.append(name, value);
  const text = query.toString();
  history[isStep ? "pushState" : "replaceState"](null, "", location.pathname + (text ? `?${text}` : ""));
  return location.search;
}
