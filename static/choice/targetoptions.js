// What is asked of a class or prompt: against which other one, and which of its numbers is explained.

import { el } from "../core/dom.js";
import { CONTRASTIVE } from "../core/targets.js";
import { term } from "../help/terms.js";

/**
 * @import { Target } from "../core/schemas.js"
 * @import { Wish } from "../core/types.js"
 */

/**
 * The value of the control that says what is explained of a target.
 * @param {Target | undefined} target
 */
export const readOf = (target) => (target?.kind && target.kind in CONTRASTIVE ? target.kind : target?.read);

/**
 * Build the fields of a request for these classes and what is asked of them.
 * @template {string | null} Label
 * @param {Label[]} labels
 * @param {Wish} wish
 * @returns {[(Label | string)[], Wish]}
 */
export const sent = (labels, wish) =>
  wish.read && wish.read in CONTRASTIVE
    ? [labels.map((label) => label && `${wish.read}:${label}`), { ...wish, read: null }]
    : [labels, wish];

/**
 * Build the wish that sets `target` against another class, or against none.
 * @param {Target} target
 * @param {string | null} label
 * @returns {Wish}
 */
export const setAgainst = (target, label) => ({ against: label, read: label === null ? readOf(target) : null });

/**
 * Build the wish that asks the same of `label` as of `target`.
 * @param {Target | undefined} target
 * @param {string} [label]
 * @returns {Wish}
 */
export const sameKindOfTarget = (target, label) => ({
  against: target?.against === label ? null : target?.against,
  read: readOf(target),
});

/**
 * Make the control of which number of a target is explained, `ofClasses` also a class over all others.
 * @param {(read: string) => void} onRead
 * @param {boolean} [ofClasses]
 * @returns {{select: HTMLSelectElement, node: HTMLElement}}
 */
export function readChoice(onRead, ofClasses = false) {
  const names = { logit: "the logit", probability: "the probability", ...(ofClasses ? CONTRASTIVE : {}) };
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
