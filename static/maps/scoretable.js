// The cells of a table of scores: each row on the scale of its own largest score.

import { limits, place, twoSided } from "../core/colour.js";

const MINUS = "\u2212";

/**
 * A row of scores as cells: the `text` of each, with as many decimals as give the largest two digits, and where on the
 * scale of the row it lies, from 0 to 1, or from -1 where `isSigned`.
 * @param {number[]} scores
 * @param {boolean} signed
 * @returns {{text: string, t: number, isSigned: boolean}[]}
 */
export function cellsOf(scores, signed) {
  const ends = limits([scores], signed);
  const isSigned = twoSided(ends, signed);
  const largest = Math.max(...scores.map(Math.abs));
  const decimals = largest > 0 ? Math.min(20, Math.max(0, 1 - Math.floor(Math.log10(largest)))) : 0;
  return scores.map((score) => {
    const size = Math.abs(score).toFixed(decimals);
    const sign = Number(size) === 0 ? "" : score < 0 ? MINUS : signed ? "+" : "";
    return { text: Number(size) === 0 ? "0" : sign + size, t: place(score, ends, signed), isSigned };
  });
}
