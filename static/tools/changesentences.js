// What would change the answer, in sentences.

import { count, percent, whole } from "../core/dom.js";

/** @import { Counterfactual } from "../core/schemas.js" */

const NEAR_PARTS = 0.5; // a way that hides more of the parts than this share is not near: hardly anything is left

/**
 * What was found, in a sentence, what else there is to know of it, and what it does not show; `parts` are the names of
 * one part and of several.
 * @param {Pick<Counterfactual, "answer" | "to" | "reached" | "leader" | "parts" | "hidden" | "before" | "after" | "asked">} found
 * @param {string[]} parts
 * @returns {{says: string, more: string, honest: string}}
 */
export function sentencesOf({ answer, to, reached, leader, parts: all, hidden, before, after, asked }, [one, several]) {
  const some = hidden.length;
  const these =
    some === 1 ? `this one of ${whole(all)} ${several}` : `these ${whole(some)} of ${whole(all)} ${several}`;
  const [was, is] = [percent(before[to]), percent(after[to])];
  const tried = `the search asked the model ${count(asked, "time")}`;
  if (reached) {
    const falls = `“${answer}” goes from ${percent(before[answer])} to ${percent(after[answer])}.`;
    const needed = some > 1 ? ` With any one of these ${several} back, “${to}” does not come first.` : "";
    const fewer =
      some > 1
        ? `Fewer ${several} may be enough, in a combination that was not tried: ${tried}.`
        : `No smaller change is possible; hiding another ${one} may do the same.`;
    return {
      says: `Hide ${these}, and “${to}” comes first: ${is}, before ${was}.`,
      more: falls + needed,
      honest: `A hidden ${one} is one that the model no longer sees: what is left need not speak for “${to}”. ${fewer}`,
    };
  }
  const risen = is === was ? `“${to}” stays at ${is}` : `“${to}” has ${is} then, before ${was}`;
  const then = `${risen}, and “${leader}” comes first with ${percent(after[leader])}.`;
  const isNear = is !== was && some <= NEAR_PARTS * all;
  const nearest = !some
    ? `Hiding any ${one} takes it further away from “${to}”, which has ${was}.`
    : isNear
      ? `Nearest came hiding ${these}: ${then}`
      : `Nothing that was tried brings it near. The most was with ${these} hidden: ${then}`;
  return {
    says: `Hiding ${several} did not make the answer “${to}”.`,
    more: nearest,
    honest: `Not every combination of ${several} was tried: ${tried}.`,
  };
}
