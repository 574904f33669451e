// What a claim says, in words short enough for a plate.

import { count } from "../core/dom.js";

/** @import { MapClaim } from "../core/schemas.js" */

/**
 * The result of a claim, what it is compared with, and the whole sentence with the population that the error refers
 * to; `parts` are the names of one part of the input and of several.
 * @param {MapClaim} found
 * @param {string[]} parts
 */
export function claimInWords(found, [one, many]) {
  if (!found.holds) return { says: "No such claim.", more: found.why, whole: "" };
  const fall = (Math.floor(100 * (found.fall ?? 0)) / 100).toFixed(2); // no more than was shown
  const percent = (/** @type {number} */ share) => `${Number((100 * share).toPrecision(3))}\u00a0%`;
  return {
    says: `Replace these ${count(found.hidden.length, one, many)}, and the probability falls by ${fall} or more.`,
    more: `${count(found.hidden.length, one, many)} drawn at random do less in at least ${percent(found.share_beaten)} of draws. Error: at most ${percent(found.error)}.`,
    whole: found.sentence,
  };
}
