// What the model says, as it was and now that a part of its input is removed: a table of its top classes, and the cover
// of the part.

import { answered, context2d, formatChange, el } from "../core/dom.js";
import { targetInWords } from "../core/targets.js";

/**
 * @import { Target } from "../core/schemas.js"
 * @import { PatchLayout } from "../maps/types.js"
 */

const CELL = 4; // pixels of a patch on the cover of a picture

/**
 * Cover the hidden patches of a picture with hatching in the colours of the page.
 * @param {HTMLCanvasElement} cover
 * @param {Iterable<number>} hidden
 * @param {PatchLayout} layout
 */
export function hatch(cover, hidden, { rows, columns, place }) {
  Object.assign(cover, { width: columns * CELL, height: rows * CELL }); // which clears it
  const context = context2d(cover);
  const style = getComputedStyle(cover);
  for (const patch of hidden) {
    const [y, x] = place(patch).map((side) => CELL * side);
    context.fillStyle = style.getPropertyValue("--paper");
    context.fillRect(x, y, CELL, CELL);
    context.fillStyle = style.getPropertyValue("--rule");
    for (let i = 0; i < CELL; i++) context.fillRect(x + i, y + CELL - 1 - i, 1, 1);
  }
}

/** The table of what the model says, before and after. */
export class ChangeTable {
  /** @param {string} [name] of what the model says: a class or a prompt */
  constructor(name = "class") {
    this.rows = el("tbody");
    const head = el(
      "thead",
      {},
      el(
        "tr",
        {},
        [name, "as it was", "now", "change"].map((title) => el("th", { scope: "col" }, title)),
      ),
    );
    this.node = el(
      "div",
      { class: "ranks" },
      el("table", {}, el("caption", { class: "hidden" }, "What the model says, as it was and now"), head, this.rows),
    );
  }

  /**
   * `before` and `now` are lists of {label, probability, logit}, the largest first. The answer as it was has a row also
   * where it is no longer among the first.
   * @param {Target[]} before
   * @param {Target[]} now
   */
  show(before, now) {
    const rows = changeRows(before, now).map(([name, ...cells]) =>
      el(
        "tr",
        {},
        el("th", { scope: "row" }, name),
        cells.map((text) => el("td", { class: "num" }, text)),
      ),
    );
    this.rows.replaceChildren(...rows);
  }
}

/**
 * The rows of the table: name, as it was, now, change. Of an answer that was not among the first, or fell behind them,
 * it is known that it has less than the last of them.
 * @param {Target[]} before
 * @param {Target[]} now
 * @returns {string[][]}
 */
export function changeRows(before, now) {
  const known = new Map(before.map((answer) => [answer.label, answer]));
  const rows = now.map((is) => {
    const was = known.get(is.label);
    return [is.label, was ? answered(was) : lessThan(before.at(-1)), answered(is), was ? formatChange(was, is) : "–"];
  });
  const [first] = before;
  if (first && now.length && !now.some(({ label }) => label === first.label))
    rows.push([first.label, answered(first), lessThan(now.at(-1)), "–"]);
  return rows;
}

/**
 * Less than this answer has; "–" where there is none.
 * @param {Target | undefined} last
 */
const lessThan = (last) => (last ? `<${answered(last).replace("<", "")}` : "–");

/**
 * An answer of the model: its probability, or the value of a regression, which has none.
 * @typedef {{probability?: number | null, logit: number}} Answered
 */

/**
 * What the answer becomes without a word, as the end of a sentence: another class, "yes" or "no" of a label on its own,
 * or the same as before. Empty for a value, which is no answer that could become another.
 * @param {{target: Target, first?: Target, output?: string}} was
 * @param {Answered & {first?: Target}} is
 */
function becomes({ target, first, output }, { probability, first: now }) {
  if (output === "regression" || !first || !now) return "";
  if (output === "sigmoid") {
    const [before, after] = [target.probability, probability].map((p) => (Number(p) >= 0.5 ? "yes" : "no"));
    return before === after ? `, still ${after}` : `: ${before} becomes ${after}`;
  }
  if (first.label !== now.label) return `, and the answer becomes “${now.label}”, ${answered(now)}`;
  return first.label === target.label ? " and stays the answer" : `, and the answer stays “${first.label}”`;
}

/**
 * Say what removing a word does to what is explained, and to the answer: a word may have the largest score, and the
 * answer hold without it.
 * @param {string} word
 * @param {{target: Target, first?: Target, output?: string}} was for the whole text: what is explained, the answer,
 *   and what the numbers mean
 * @param {Answered & {first?: Target}} is without the word: what is explained, and the answer
 * @returns {string}
 */
export function removalLine(word, was, is) {
  const { target, first } = was;
  const named = `“${targetInWords(target)}”`;
  const [before, after] = [target, is].map(answered);
  const end = becomes(was, is);
  if (before !== after || end.includes("becomes"))
    return `Without “${word}”, the word on top, ${named} goes from ${before} to ${after}${end}.`;
  const change = formatChange(target, is);
  const hardly = /^0( |$)/.test(change) ? "does not change" : "hardly changes";
  const what = first?.label === target.label ? "The answer" : named;
  return `${what} does not need “${word}”, the word on top: without it, it ${hardly} (${after}).`;
}
