// What would change the answer, in sentences.

import { percent, whole } from "../core/dom.js";

/** @import { Counterfactual } from "../core/schemas.js" */

/**
 * What was found, in a sentence, and what else there is to know of it; `parts` are the names of one part and of
 * several.
 * @param {Pick<Counterfactual, "answer" | "to" | "reached" | "leader" | "parts" | "hidden" | "before" | "after">} found
 * @param {string[]} parts
 * @returns {{says: string, more: string}}
 */
export function sentencesOf({ answer, to, reached, leader, parts: all, hidden, before, after }, [one, several]) {
  const some = hidden.length;
  const these =
    some === 1 ? `this one of ${whole(all)} ${several}` : `these ${whole(some)} of ${whole(all)} ${several}`;
  const [was, is] = [percent(before[to]), percent(after[to])];
  if (reached) {
    const falls = `“${answer}” goes from ${percent(before[answer])} to ${percent(after[answer])}.`;
    const needed = some > 1 ? ` With any one of these ${several} back, “${to}” does not come first.` : "";
    return { says: `Hide ${these}, and “${to}” comes first: ${is}, before ${was}.`, more: falls + needed };
  }
  const nearest = some
    ? `Nearest came hiding ${these}: “${to}” then has ${is}, before ${was}, and “${leader}” comes first with ${percent(after[leader])}.`
    : `Hiding any ${one} takes it further away from “${to}”, which has ${was}.`;
  return { says: `No hiding that was tried makes the answer “${to}”.`, more: nearest };
}
