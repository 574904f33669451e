// Two maps of one method held against each other: how alike they are, and what one has more of than the other.

/** The correlation from which on two maps are called the same; the correlation itself is shown. */
export const SAME_FROM = 0.99;

/**
 * Pearson's correlation of two lists of the same length; null where one of them is the same everywhere, so that none is
 * defined.
 * @param {number[]} a
 * @param {number[]} b
 * @returns {number | null}
 */
export function correlation(a, b) {
  /** @param {number[]} list */
  const mean = (list) => list.reduce((sum, value) => sum + value, 0) / list.length;
  const [ma, mb] = [mean(a), mean(b)];
  let [ab, aa, bb] = [0, 0, 0];
  for (let i = 0; i < a.length; i++) {
    const [x, y] = [a[i] - ma, b[i] - mb];
    ab += x * y;
    aa += x * x;
    bb += y * y;
  }
  // what a mean leaves of equal numbers is rounding, not a map
  /**
   * @param {number} squares
   * @param {number[]} list
   */
  const flat = (squares, list) => squares <= list.length * (1e-12 * Math.max(...list.map(Math.abs))) ** 2;
  if (!a.length || flat(aa, a) || flat(bb, b)) return null;
  return Math.min(1, Math.max(-1, ab / Math.sqrt(aa * bb)));
}

/**
 * Ranks from 0, the smallest value first; equal values share the mean of their ranks.
 * @param {number[]} values
 * @returns {number[]}
 */
export function meanRanks(values) {
  const order = values.map((_, i) => i).sort((a, b) => values[a] - values[b]);
  const ranks = new Array(values.length);
  for (let i = 0; i < order.length;) {
    let j = i;
    while (j < order.length && values[order[j]] === values[order[i]]) j++;
    for (let k = i; k < j; k++) ranks[order[k]] = (i + j - 1) / 2;
    i = j;
  }
  return ranks;
}

/**
 * Spearman's rank correlation; null where one of the lists is the same everywhere.
 * @param {number[]} a
 * @param {number[]} b
 * @returns {number | null}
 */
export const spearman = (a, b) => correlation(meanRanks(a), meanRanks(b));

/**
 * Convert scores to a unit that the maps of one method share, whatever they explain. Those of a signed method stay as
 * they are: they share out the logit or the probability that is explained. Those of an unsigned one, whose size means
 * nothing across maps, become shares of the map: each is divided by the sum of all absolute values. `content` tells
 * which scores stand for patches or words; the others count in no sum.
 * @param {number[]} scores
 * @param {boolean} signed
 * @param {boolean[] | null} [content]
 * @returns {number[]}
 */
export function onOneUnit(scores, signed, content = null) {
  if (signed) return scores;
  const sum = scores.reduce((all, score, i) => (content && !content[i] ? all : all + Math.abs(score)), 0);
  return sum > 0 ? scores.map((score) => score / sum) : scores;
}

/**
 * The unit of `onOneUnit`, in words.
 * @param {boolean} signed
 * @param {string} [read]
 * @returns {string}
 */
export const unitName = (signed, read = "logit") => (signed ? `in the unit of the ${read}` : "as shares of each map");
