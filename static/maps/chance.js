// What chance gives in a deletion test, and which maps are no better.

import { number } from "../core/dom.js";

/** @typedef {{method: string, rank: number, gap?: number | null, control?: boolean | null}} Ranked */
/** @typedef {{ranking: Ranked[], chance_gap: number}} Judged */

/**
 * The largest gap that chance gave on this input: between two random orders of removal, or of a map of random numbers.
 * A map fails where its gap is no larger.
 * @param {Judged} answer
 * @returns {number}
 */
export const chanceGap = ({ ranking, chance_gap: ofOrders }) =>
  Math.max(ofOrders, ...ranking.filter(({ rank }) => rank === 0).map(({ gap }) => Number(gap)));

/**
 * Return whether a map fails the test: its gap is no larger than the largest by chance.
 * @param {Judged} answer
 * @param {Ranked} row
 * @returns {boolean}
 */
export const isFailing = (answer, { gap }) => Number(gap) <= chanceGap(answer);

/**
 * What it means to fail, with the threshold.
 * @param {Judged & {random: {seeds: number}}} answer
 * @returns {string}
 */
export const failureRule = (answer) => {
  const isMapDrawn = answer.ranking.some(({ rank, control }) => rank === 0 && !control);
  const chance = `${answer.random.seeds} random orders${isMapDrawn ? " and a random map" : ""}`;
  return `A map fails if the gap between its two areas is ${number(chanceGap(answer), 2)} or less: as large as chance gave on this input (${chance}).`;
};
