// The value and the rank of what is in focus, in the corner of a map.

import { strengths } from "../core/colour.js";
import { el } from "../core/dom.js";

/**
 * The rank of every value by strength: 1 for the strongest; equal ones share the better rank.
 * @param {number[]} values
 * @param {boolean} [sided] see `strengths`
 * @returns {number[]}
 */
export function ranksByStrength(values, sided) {
  const sizes = strengths(values, sided);
  const first = new Map();
  Float64Array.from(sizes)
    .sort()
    .reverse()
    .forEach((size, i) => first.has(size) || first.set(size, i + 1));
  return sizes.map((size) => first.get(size));
}

/**
 * "1 of 196".
 * @param {number} rank
 * @param {number} count
 * @returns {string}
 */
export const rankName = (rank, count) => `${rank} of ${count}`;

/** A value and its rank, in the corner of a map. */
export class ValueTag {
  constructor() {
    this.value = el("span", { class: "value" });
    this.rank = el("span", { class: "rank" });
    this.node = el("span", { class: "value-tag", "aria-hidden": "true", hidden: true }, this.value, this.rank);
  }
  /**
   * Show `text`, followed by the rank; without text nothing.
   * @param {string} [text]
   * @param {string} [rank]
   */
  show(text = "", rank = "") {
    this.node.hidden = !text;
    this.value.textContent = text;
    this.rank.textContent = rank;
  }
}
