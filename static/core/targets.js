// What a target is about, and what it is called.

import { percent } from "./dom.js";
import { named } from "./search.js";

/** @import { Abstention, Target } from "./schemas.js" */

/**
 * The class, group (`any:dog`) or prompt that a target is about, whatever is asked of it: what to send to ask for it
 * again.
 * @param {{label: string, of?: string}} target
 * @returns {string}
 */
export const classOf = (target) => target.of ?? target.label;

/**
 * Kinds of targets that set a class against others that nobody names.
 * @type {Record<string, string>}
 */
export const CONTRASTIVE = {
  clrp: "the class over all others (CLRP)",
  sglrp: "the class over all others (SGLRP)",
  finer: "the class against its nearest kinds (FinerCAM)",
};

/**
 * The class that a target is about, without the kind of a contrastive target.
 * @param {{label: string, of?: string}} target
 */
export const aloneOf = (target) => classOf(target).replace(/^(clrp|sglrp|finer):/, "");

/**
 * A target in words; of a kind that a package adds, its own.
 * @param {{label: string, of?: string, against?: string, kind?: string}} target
 * @returns {string}
 */
export function targetInWords(target) {
  if (target.kind) return target.label;
  return target.against ? `${named(classOf(target))} rather than ${named(target.against)}` : named(classOf(target));
}

/**
 * The meaning of the two ends of a map's colours where one class is set against another: what its negative and its
 * positive scores speak for. Undefined for any other question, and for several.
 * @param {{label: string, of?: string, against?: string, kind?: string}[]} targets
 * @returns {string[] | undefined}
 */
export const endsOf = ([target, ...others]) =>
  target?.against && !target.kind && !others.length
    ? [`for ${named(target.against)}`, `for ${named(classOf(target))}`]
    : undefined;

/**
 * The model's confidence in a target, in brief: its abstention where it cannot know, in place of a share, which then
 * means nothing; null where it gives none. `abstention` is that of the whole input.
 * @param {Target} target
 * @param {Abstention | undefined} [abstention]
 * @returns {string | null}
 */
export function sureness(target, abstention) {
  const { says } = target.abstention ?? abstention ?? {};
  if (says) return `“${says}”`;
  return target.probability === undefined || target.probability === null ? null : percent(target.probability);
}

/**
 * Return whether the map of a prompt can be read: the model found the prompt, perhaps at least, and can read its words.
 * @param {{abstention?: Abstention | null}} target
 * @returns {boolean}
 */
export const isFound = ({ abstention }) => !abstention || abstention.kind === "perhaps_in_picture";

/**
 * Several targets in words, for between quotation marks; no longer than a heading may be.
 * @param {{label: string, of?: string, against?: string}[]} targets
 * @returns {string}
 */
export const spokenAll = (targets) =>
  targets.length > 2
    ? `${targetInWords(targets[0])} … and ${targets.length - 1} more`
    : targets.map(targetInWords).join("”, “");
