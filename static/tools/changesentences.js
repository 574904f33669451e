// What would change the answer, in sentences.

import { count, percent, whole } from "../core/dom.js";

/** @import { Counterfactual } from "../core/schemas.js" */

const NEAR_PARTS = 0.5; // a way that hides more of the parts than this share is not near: hardly anything is left

/**
 * Return whether a way that was found is a small change: it hides no more than half of the parts.
 * @param {Pick<Counterfactual, "hidden" | "parts">} found
 */
const isSmall = ({ hidden, parts }) => hidden.length <= NEAR_PARTS * parts;

/**
 * Return whether a small change makes the answer what it was to become.
 * @param {Pick<Counterfactual, "reached" | "hidden" | "parts">} found
 */
export const isNear = (found) => found.reached && isSmall(found);

/**
 * What was found, in a sentence, what else there is to know of it, and what it does not show; `parts` are the names of
 * one part and of several.
 * @param {Pick<Counterfactual, "answer" | "to" | "reached" | "leader" | "parts" | "hidden" | "before" | "after" | "asked">} found
 * @param {string[]} parts
 * @returns {{says: string, more: string, honest: string}}
 */
export function sentencesOf(found, [one, several]) {
  const { answer, to, reached, leader, parts: all, hidden, before, after, asked } = found;
  const some = hidden.length;
  const these =
    some === 1 ? `this one of ${whole(all)} ${several}` : `these ${whole(some)} of ${whole(all)} ${several}`;
  const [was, is] = [percent(before[to]), percent(after[to])];
  const tried = `the search asked the model ${count(asked, "time")}`;
  const falls = `“${answer}” goes from ${percent(before[answer])} to ${percent(after[answer])}.`;
  const fewer = `Fewer ${several} may be enough, in a combination that was not tried: ${tried}.`;
  if (reached && !isSmall(found))
    return {
      says: `No small change was found that makes the answer “${to}”.`,
      more: `It came first, with ${is}, only when ${whole(some)} of ${whole(all)} ${several} were hidden. So little is left then that it says hardly anything of your input.`,
      honest: fewer,
    };
  if (reached) {
    const needed = some > 1 ? ` With any one of these ${several} back, “${to}” does not come first.` : "";
    const other = some > 1 ? fewer : `No smaller change is possible; hiding another ${one} may do the same.`;
    return {
      says: `Hide ${these}, and “${to}” comes first: it goes from ${was} to ${is}.`,
      more: falls + needed,
      honest: `A hidden ${one} is one that the model no longer sees: what is left need not speak for “${to}”. ${other}`,
    };
  }
  const risen = is === was ? `“${to}” stays at ${is}` : `“${to}” goes from ${was} to ${is}`;
  const then = `${risen}, and “${leader}” comes first with ${percent(after[leader])}.`;
  const nearest = !some
    ? `Hiding any ${one} takes it further away from “${to}”, which has ${was}.`
    : is !== was && isSmall(found)
      ? `Nearest came hiding ${these}: ${then}`
      : `Nothing that was tried brings it near. The most was with ${these} hidden: ${then}`;
  return {
    says: `Hiding ${several} did not make the answer “${to}”.`,
    more: nearest,
    honest: `Not every combination of ${several} was tried: ${tried}.`,
  };
}

/**
 * Say whether the next answer can be reached, where the one that was wanted cannot.
 * @param {Pick<Counterfactual, "to" | "reached" | "parts" | "hidden">} found for the next answer
 * @param {string} several the name of parts
 * @returns {string}
 */
export const nextAnswerLine = (found, several) =>
  isNear(found)
    ? `“${found.to}”, the next answer, can be reached: hide ${whole(found.hidden.length)} of ${whole(found.parts)} ${several}.`
    : `No small change was found that makes it “${found.to}”, the next answer, either.`;
