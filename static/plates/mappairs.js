// Which two of several maps are most alike, and which two least.

import { spearman } from "../core/stats.js";

/**
 * Two maps and their rank correlation.
 * @template T
 * @typedef {{pair: [T, T], value: number}} MapPair
 */

/**
 * The pair with the highest rank correlation and the one with the lowest; the same one where there are two maps, null
 * where no two can be compared. `scoresOf(map)` are those of patches or words.
 * @template T
 * @param {T[]} maps
 * @param {(map: T) => number[]} scoresOf
 * @returns {{most: MapPair<T>, least: MapPair<T>} | null}
 */
export function extremePairs(maps, scoresOf) {
  const scores = maps.map(scoresOf);
  const pairs = maps
    .flatMap((map, i) =>
      maps
        .slice(0, i)
        .map((other, k) => ({ pair: /** @type {[T, T]} */ ([other, map]), value: spearman(scores[k], scores[i]) })),
    )
    .filter(({ value }) => value !== null);
  if (!pairs.length) return null;
  pairs.sort((a, b) => b.value - a.value);
  return { most: pairs[0], least: pairs.at(-1) };
}
