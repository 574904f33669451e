// Class against class: methods by classes or prompts, with what each method gives one of them rather than the other,
// and how alike the two maps are. Of two prompts, a map that already compares them is drawn once.

import { el } from "../core/dom.js";
import { isRelative } from "../core/registry.js";
import { correlation, onOneUnit, SAME_FROM, unitName } from "../core/stats.js";
import { term, withTerms } from "../help/terms.js";
import { Matrix } from "./matrix.js";
import { unitScore } from "./content.js";

/**
 * @import { ScoreMap, Variant } from "../core/types.js"
 * @import { MapPlate } from "../maps/types.js"
 * @import { PlateSetOptions } from "./types.js"
 */

const MEANING = ["second more", "first more"];

/**
 * Describe the correlation of two maps of a row: words where they are the same, and the number, always.
 * @param {number | null} r
 * @param {number} maps how many the row has; of more than two, those are meant whose difference is drawn
 * @returns {string}
 */
export function likeness(r, maps) {
  if (r === null) return "no correlation: one map is the same everywhere";
  const shown = `r\u00a0=\u00a0${r < 0 ? "\u2212" : ""}${Math.abs(r).toFixed(2)}`;
  const which = maps > 2 ? "the two maps of the difference" : "its two maps";
  return `${which} ${r > SAME_FROM ? "are nearly the same" : "correlate"}: ${shown}`;
}

/**
 * The difference of map `a` and map `b`, as a map: see `onOneUnit` for the unit. `content` marks patches and words
 * among the tokens.
 * @param {ScoreMap} a
 * @param {ScoreMap} b
 * @param {boolean[] | null} [content]
 * @returns {ScoreMap}
 */
export function difference(a, b, content = null) {
  const [left, right] = [a, b].map((map) => onOneUnit(map.scores, map.signed, content));
  const scores = left.map((score, i) => score - right[i]);
  const shown = content ? scores.filter((_, i) => content[i]) : scores;
  const { grid, signed, method, readout } = a;
  return {
    method,
    readout,
    grid,
    scores,
    signed: true,
    notes: [],
    target: `${a.target} rather than ${b.target}`,
    range: [shown.reduce((x, y) => Math.min(x, y), Infinity), shown.reduce((x, y) => Math.max(x, y), -Infinity)],
    // of an unsigned map a word has its largest piece
    unitScore: (unit) => unitScore(left, unit, signed) - unitScore(right, unit, signed),
  };
}

/** A set of plates with a column a class, and one for the difference of two of them. */
export class Versus extends Matrix {
  differences = new Map(); // spec -> plate
  badges = new Map(); // spec -> node
  /** @type {boolean[] | null} */
  content = null; // which scores stand for patches or words; null: all
  read = "logit"; // the number of each class that is explained

  /**
   * @param {HTMLElement} root
   * @param {{same?: string} & PlateSetOptions} options
   */
  constructor(root, options) {
    super(root, options);
    /**
     * @param {number} at
     * @param {string} name
     */
    const pick = (at, name) => el("select", { "aria-label": name, on: { change: () => this.#pick(at) } });
    this.picks = [pick(0, "Difference: this one"), pick(1, "rather than this one")];
    this.head = el("span", { class: "name" });
    this.strip = el(
      "div",
      { class: "pairing" },
      el("span", {}, "Difference:"),
      this.picks[0],
      el("span", { "aria-hidden": "true" }, "rather than"),
      this.picks[1],
    );
    this.view.follow((now, before) => now.pair !== before.pair && this.#turn());
  }

  /**
   * True where there are two columns to subtract.
   * @returns {boolean}
   */
  get isPaired() {
    return this.targets.length > 1;
  }

  /**
   * The indices of the two columns whose difference is shown.
   * @returns {number[]}
   */
  get pair() {
    const [a, b] = (this.view.value.pair || "0-1").split("-").map(Number);
    return a !== b && Math.max(a, b) < this.targets.length ? [a, b] : [0, 1];
  }

  /** @returns {MapPlate[]} */
  get everyPlate() {
    return [...this.all, ...this.differences.values()];
  }

  leave() {
    super.leave();
    this.differences = new Map();
  }

  lay() {
    this.differences = new Map();
    this.badges = new Map();
    for (const select of this.picks)
      select.replaceChildren(...this.targets.map((target, i) => el("option", { value: i }, target)));
    this.#showPair();
    super.lay();
    if (this.targets.length > 2) this.root.prepend(this.strip); // of two there is one pair
  }

  /** @returns {HTMLElement[]} */
  heads() {
    const unit = el("span", { class: "num" }, term("difference"), " of the two maps");
    return [...super.heads(), ...(this.isPaired ? [el("div", {}, this.head, unit)] : [])];
  }

  /**
   * @param {Variant} variant
   * @returns {HTMLElement}
   */
  row(variant) {
    const line = super.row(variant);
    if (!this.isPaired) return line;
    if (isRelative(variant.spec)) return this.#relativeRow(variant, line);
    const badge = this.badges.get(variant.spec);
    line.querySelector(".row-caption .num")?.after(badge);
    line.append(this.differences.get(variant.spec).node);
    return line;
  }

  /**
   * The row of a method whose maps depend on the other prompts: two prompts have one such map and its negative, so it
   * is drawn once, as what the first has rather than the second; of more prompts each is drawn rather than the others.
   * @param {Variant} variant
   * @param {HTMLElement} line
   */
  #relativeRow(variant, line) {
    if (this.targets.length > 2) {
      const says = "Each map: this prompt rather than the others.";
      line.querySelector(".row-caption")?.append(el("p", { class: "quiet" }, says));
      return line;
    }
    for (const target of this.targets) this.at(variant.spec, target)?.node.remove();
    const says = "This method compares the two prompts: its only map is the last one.";
    line.append(el("p", { class: "quiet compares" }, says), this.differences.get(variant.spec).node);
    return line;
  }

  /** @param {Variant} variant */
  say(variant) {
    super.say(variant);
    if (!this.isPaired) return;
    if (!this.differences.has(variant.spec)) this.#make(variant);
    this.#differ(variant.spec);
  }

  #names() {
    return this.pair.map((i) => this.targets[i]);
  }

  #title() {
    return this.#names().join(" rather than ");
  }

  /** @param {Variant} variant */
  #make(variant) {
    const name = this.#title();
    const differenceVariant = {
      ...variant,
      signed: true,
      readout: `${variant.readout} difference`,
      meaning: MEANING,
    };
    const plate = this.makePlate(differenceVariant, this.stores, name);
    plate.node.classList.add("difference");
    plate.deletion.node.remove(); // it has no order in which tokens could go
    // it is made here: there is nothing to take
    plate.actions.node.replaceChildren(el("span", {}, unitName(variant.signed, this.read)));
    plate.setBase(this.baseOf(name));
    this.differences.set(variant.spec, plate);
    if (!this.badges.has(variant.spec)) this.badges.set(variant.spec, el("p", { class: "badge num" }, "\u00a0"));
  }

  /** @param {string} spec */
  #differ(spec) {
    const pair = this.#names().map((target) => this.at(spec, target));
    const plate = this.differences.get(spec);
    const badge = this.badges.get(spec);
    const [a, b] = pair.map((member) => member?.map);
    if (!a || !b) {
      if (plate.map) plate.show(null);
      badge.textContent = "\u00a0";
      badge.classList.remove("same");
      return;
    }
    this.take(plate, difference(a, b, this.content));
    /** @param {ScoreMap} map */
    const keep = (map) => map.scores.filter((_, i) => this.content?.[i] ?? true);
    const r = correlation(keep(a), keep(b));
    const [says, shown] = likeness(r, this.targets.length).split(/(?=r\u00a0=)/);
    badge.replaceChildren(says, el("span", { class: "nb" }, withTerms(shown ?? "")));
    badge.classList.toggle("same", r !== null && r > SAME_FROM);
    plate.state = pair.every((member) => member?.node.dataset.state === "done") ? "done" : "stale";
  }

  /** @param {number} at */
  #pick(at) {
    const places = this.picks.map((select) => Number(select.value));
    if (places[0] === places[1]) places[1 - at] = this.pair[at]; // the other one takes the place that this one leaves
    this.view.set({ pair: places.join("-") === "0-1" ? "" : places.join("-") });
  }

  /** Update the difference plates for another pair; all others stay. */
  #turn() {
    if (!this.isPaired || !this.differences.size) return;
    this.#showPair();
    for (const variant of this.variants) {
      const before = this.differences.get(variant.spec).node;
      this.#make(variant);
      before.replaceWith(this.differences.get(variant.spec).node);
      this.#differ(variant.spec);
    }
  }

  #showPair() {
    this.pair.forEach((place, i) => (this.picks[i].value = String(place)));
    this.head.textContent = this.isPaired ? this.#title() : "";
  }
}
