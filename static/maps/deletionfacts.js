// What the deletion test says of one map, in the two lines under it.

import { el } from "../core/dom.js";

function line(name, title) {
  const term = el("dt", {}, name);
  const value = el("dd", {}, "–");
  return { term, value, node: el("div", { title }, term, value) };
}

/** The answer with tokens gone, and the rank among the methods; dashes until the test has said so. */
export class DeletionFacts {
  constructor() {
    this.then = line("says then", "What the model says of the class or prompt when these tokens are gone");
    this.rank = line(
      "rank here",
      "Rank in the deletion test on this input: by the gap between the areas of least and most relevant first",
    );
    this.node = el("dl", { class: "facts after" }, this.then.node, this.rank.node);
  }
}
