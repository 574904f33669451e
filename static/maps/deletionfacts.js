// What the deletion test says of one map, in the two lines under it.

import { el } from "../core/dom.js";

/**
 * Which tokens a test removes first, by the map it tests.
 * @type {{[order: string]: string}}
 */
export const ORDER_NAMES = { most: "most relevant", least: "least relevant" };

/** The text for an answer that the model has not given yet. */
export const NOT_ASKED = "not asked yet";

/** The text for the rank of the control. */
export const NOT_RANKED = "the control";

/**
 * @param {string} name
 * @param {string} title
 */
function line(name, title) {
  const term = el("dt", {}, name);
  const value = el("dd", {}, NOT_ASKED);
  return { term, value, node: el("div", { title }, term, value) };
}

/** The answer with tokens removed, and the rank among the methods; which it has only once the test has said so. */
export class DeletionFacts {
  constructor() {
    this.then = line("without these parts", "What the model says of the class or prompt when these tokens are removed");
    this.rank = line(
      "rank on this input",
      "Rank in the deletion test on this input, by the gap between the areas of least and most relevant first; a map fails where a random order has as large a gap",
    );
    this.node = el("dl", { class: "facts after" }, this.then.node, this.rank.node);
  }
}
