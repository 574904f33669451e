// What is asked of a class or prompt: against which other one, and which of its numbers is explained.

import { el } from "../core/dom.js";
import { term } from "../help/terms.js";

/**
 * @import { Target } from "../core/schemas.js"
 * @import { Wish } from "../core/types.js"
 */

/**
 * What to send to have `target` set against another class, or against none.
 * @param {Target} target
 * @param {string | null} label
 * @returns {Wish}
 */
export const setAgainst = (target, label) => ({ against: label, read: label === null ? target.read : null });

/**
 * What to send to have the same asked of `label` as of `target`.
 * @param {Target | undefined} target
 * @param {string} [label]
 * @returns {Wish}
 */
export const likewise = (target, label) => ({
  against: target?.against === label ? null : target?.against,
  read: target?.read,
});

/**
 * Which number of a target is explained; `onRead` is told "logit" or "probability".
 * @param {(read: string) => void} onRead
 * @returns {{select: HTMLSelectElement, node: HTMLElement}}
 */
export function readChoice(onRead) {
  const names = { logit: "the logit", probability: "the probability" };
  const select = el(
    "select",
    { id: "read", on: { change: () => onRead(select.value) } },
    Object.entries(names).map(([value, name]) => el("option", { value }, name)),
  );
  return {
    select,
    node: el("div", { class: "pick" }, el("label", { for: "read" }, "What is explained"), select, term("logit", "?")),
  };
}
