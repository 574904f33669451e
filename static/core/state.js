// The address bar is the state: which explanation, and how it is looked at.

import { DIVERGING, SEQUENCES } from "./colour.js";

/** @import { Started } from "./types.js" */

/**
 * How maps are looked at; the address has what is not as it begins.
 * @typedef {object} View
 * @property {string} evidence "both", "for" or "against"
 * @property {string} grid "smooth", "bicubic" or "patches"
 * @property {string} level "patches" or "pixels"
 * @property {string} scale "own" or "shared"
 * @property {number} opacity in percent
 * @property {string} sequence colours of unsigned maps
 * @property {string} diverging colours of signed maps
 * @property {string} lens "on" or "off"
 * @property {string} grain "pieces", "words" or "sentences"
 * @property {string} shown "seen" or "original"
 * @property {string} words "hidden" or "shown"
 * @property {string} numbers "hidden" or "shown"
 * @property {string} more "folded" or "shown"
 * @property {string} pair the columns whose difference is shown, "0-1"
 * @property {string} regions the spec by whose maps the regions are drawn, or ""
 * @property {number} threshold percent below which a patch belongs to no prompt
 * @property {string} order which tokens the deletion test removes first, "most" or "least"
 * @property {number} removed percent of the tokens that are removed
 */

/**
 * What the address asks for.
 * @typedef {object} Address
 * @property {string | null} id of an explanation
 * @property {string | null} source the explanation whose input is asked about
 * @property {string | null} model
 * @property {string[]} targets
 * @property {string[]} prompts
 * @property {string | null} compare the explanation by another model that stands beside it
 * @property {string | null} sample
 * @property {string} side whose tokens get the scores, "image" or "text"
 * @property {string[]} methods specs
 * @property {View} view
 * @property {number} focus
 */

/**
 * The patch or unit that is pointed at, -1 for none, and whether it is held.
 * @typedef {{at: number, locked: boolean}} Focus
 */

/**
 * An explanation on show: its model, and what that said; `done` once all maps are there.
 * @typedef {{id: string | null, model: string | null, info: Started | null, done: boolean}} Subject
 */

/** How a view begins; what is as it begins is left out of the address. */
const VIEW = {
  evidence: "both",
  grid: "smooth",
  level: "patches",
  scale: "own",
  opacity: 80,
  sequence: "magma",
  diverging: "red-blue",
  lens: "on",
  grain: "words",
  shown: "seen",
  words: "hidden",
  numbers: "hidden",
  more: "folded",
  pair: "",
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
  grain: ["pieces", "words", "sentences"],
  shown: ["seen", "original"],
  words: ["hidden", "shown"],
  numbers: ["hidden", "shown"],
  more: ["folded", "shown"],
  order: ["most", "least"],
};
/** What may stand in the address for the others. */
const FREE = { pair: /^\d-\d$/, regions: /^[\w:?=&.,+-]+$/ };
/** The largest of those that are a number of percent, from 0. */
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
   * Change these parts of the value; the followers are told where that makes a difference.
   * @param {Partial<T>} patch
   */
  set(patch) {
    const next = { ...this.value, ...patch };
    if (Object.keys(next).every((key) => Object.is(next[key], this.value[key]))) return;
    const before = this.value;
    this.value = next;
    for (const run of this.#followers) run(next, before);
  }
  /**
   * Have `run` told of every change; gives what ends that.
   * @param {(now: T, before: T) => void} run
   * @returns {() => boolean}
   */
  follow(run) {
    this.#followers.add(run);
    return () => this.#followers.delete(run);
  }
}

/**
 * No explanation on show.
 * @type {Subject}
 */
export const NOTHING = { id: null, model: null, info: null, done: false };

/**
 * The parameters of links of before 0.2, which are read for one release more.
 * @type {{[name: string]: string}}
 */
const FORMER_NAMES = { order: "first", removed: "gone", regions: "paint", threshold: "none" };

/**
 * What the address asks for: {id, source, model, targets, prompts, compare, sample, side, methods, view, focus}.
 * @param {string} [search]
 * @returns {Address}
 */
export function readAddress(search = location.search) {
  const query = new URLSearchParams(search);
  for (const [name, former] of Object.entries(FORMER_NAMES))
    if (query.has(former) && !query.has(name)) query.set(name, query.get(former));
  const view = { ...VIEW };
  for (const [name, choices] of Object.entries(CHOICES))
    if (choices.includes(query.get(name))) view[name] = query.get(name);
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
