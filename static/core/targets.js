// What a target is about, and what it is called.

import { percent } from "./dom.js";
import { named } from "./search.js";

/** @import { Abstention, OutputPlace, PromptInput, Target } from "./schemas.js" */

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
 * The model's confidence in a target, one of `count`, in brief: its abstention where it cannot know, in place of a
 * share, which then means nothing; null where it gives none. Prompts share 100 % among them, so that a single one has
 * no share. `abstention` is that of the whole input.
 * @param {Target} target
 * @param {Abstention | undefined} abstention
 * @param {number} count
 * @returns {string | null}
 */
export function sureness(target, abstention, count) {
  const { says } = target.abstention ?? abstention ?? {};
  if (says) return `“${says}”`;
  const { probability, prompt } = target;
  if (probability === undefined || probability === null) return null;
  if (prompt === undefined || prompt === null) return percent(probability);
  return count > 1 ? amongPrompts(probability) : null;
}

/**
 * The share of a prompt, with what it is a share of: alone it reads as how sure the model is.
 * @param {number} probability
 * @returns {string}
 */
export const amongPrompts = (probability) => `${percent(probability)} among the prompts`;

/**
 * Return whether the map of a prompt can be read: the model found the prompt, perhaps at least, and can read its words.
 * @param {{abstention?: Abstention | null}} target
 * @returns {boolean}
 */
export const isFound = ({ abstention }) => !abstention || abstention.kind === "perhaps_in_picture";

/**
 * Return whether an abstention is a doubt next to the answer, and does not replace it.
 * @param {Abstention} abstention
 * @returns {boolean}
 */
export const isDoubt = ({ kind }) => kind === "something_else";

/**
 * The targets that a heading names: of prompts those that were found, else those that may have been, else all.
 * @template {{abstention?: Abstention | null}} Named
 * @param {Named[]} targets
 * @returns {Named[]}
 */
export function headingTargets(targets) {
  const found = targets.filter(({ abstention }) => !abstention);
  const perhaps = targets.filter(isFound);
  return [found, perhaps, targets].find(({ length }) => length) ?? targets;
}

/**
 * The words before the answer in quotation marks: only what the model says is called an answer. Of prompts they say
 * whether these were found, where the model can tell.
 * @param {{abstention?: Abstention, place?: OutputPlace, output?: string, prompts?: PromptInput[], targets: Target[],
 *   top?: Target[]}} options
 * @param {boolean} isClip
 * @param {string} [who] the model, or several: "it" or "them"
 * @param {boolean} [isFinding] whether the model tells prompts that it found from others
 * @returns {string}
 */
export function askingLine(
  { abstention, place, output, prompts, targets, top = [] },
  isClip,
  who = "it",
  isFinding = true,
) {
  if (!isClip) {
    if (place && output === "regression") return "What speaks for";
    const isFirst = targets.length === 1 && !targets[0].against && aloneOf(targets[0]) === top[0]?.label;
    if (!isFirst) return "What speaks for";
    return abstention && !isDoubt(abstention) ? "What speaks for its nearest guess," : `What made ${who} say`;
  }
  if (prompts) return "Which words counted in";
  const they = who === "it" ? who : "they";
  if (!isFinding) return "What speaks for";
  if (targets.every((target) => !target.abstention)) return `Where ${they} found`;
  if (targets.every(isFound)) return `Where ${they} may have found`;
  if (targets.some(isFound)) return `Where ${they} looked for`; // some were found, and some were not
  return targets.every((target) => target.abstention?.kind === "not_in_picture") ? "Not found:" : "No finding for";
}

/** The tasks of models that write an answer. */
export const WRITING_TASKS = ["text-generation", "text2text-generation", "image-text-to-text"];

/**
 * The name of a model where people read it: of one that lies in a folder of the server, the folder's own name.
 * @param {string} model
 * @returns {string}
 */
export const ownName = (model) => model.replace(/^\/.*\//, "");

/**
 * An explanation as if the target called `label` were its only one; as it is where none is called so.
 * @template {{targets: {label: string}[]}} Told
 * @param {Told} explanation
 * @param {string | null | undefined} label
 * @returns {Told}
 */
export function aboutOne(explanation, label) {
  const targets = explanation.targets.filter((target) => target.label === label);
  return targets.length ? { ...explanation, targets } : explanation;
}

/**
 * Several targets in words, for between quotation marks; no longer than a heading may be.
 * @param {{label: string, of?: string, against?: string}[]} targets
 * @returns {string}
 */
export const spokenAll = (targets) =>
  targets.length > 2
    ? `${targetInWords(targets[0])} … and ${targets.length - 1} more`
    : targets.map(targetInWords).join("”, “");

/**
 * What the page says of a prompt that was judged and not found, by its kind.
 * @type {{[kind: string]: string}}
 */
export const VERDICTS = { not_in_picture: "not found", perhaps_in_picture: "perhaps" };
