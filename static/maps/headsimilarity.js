// Why the heads of a block look alike, where they do: from the numbers of their maps.

import { correlation } from "../core/stats.js";

const EVEN = 1.5; // a largest score below so many times the mean: spread evenly
const ALIKE = 0.95; // from this smallest correlation of any two heads on

/** @param {number[]} values */
const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;
/** @param {number[][]} rows */
const lowest = (rows) =>
  Math.min(...rows.flatMap((row, i) => rows.slice(0, i).map((other) => correlation(row, other) ?? 1)));

/**
 * A sentence on a block whose heads look alike; "" where they do not, or where there is one head. `maps` are the scores
 * of patches or words of every head; `isAttention` where they are weights, all from 0 up.
 * @param {number[][]} maps
 * @param {boolean} isAttention
 * @returns {string}
 */
export function whyHeadsAreSimilar(maps, isAttention) {
  if (maps.length < 2) return "";
  const sizes = maps.map((scores) => scores.map(Math.abs));
  if (sizes.every((scores) => Math.max(...scores) === 0))
    return "All heads of this block are empty: nothing that they do here reaches the answer.";
  if (isAttention && sizes.every((scores) => Math.max(...scores) < EVEN * mean(scores)))
    return "All heads of this block look alike, because each looks nearly evenly at everything. Later blocks tell places apart.";
  const least = lowest(maps);
  if (least < ALIKE) return "";
  return `All heads of this block look at the same places (any two correlate by ${least.toFixed(2)} or more). One head would be enough here.`;
}
