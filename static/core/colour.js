// From raw scores to colours. Signed maps: blue against, red for, nothing at zero. Unsigned maps: one perceptual
// sequence.

/**
 * The values at the two ends of the colours, the lower first.
 * @typedef {number[]} Ends
 */

/**
 * Perceptual sequences for unsigned maps, dark to bright: seventeen stops of matplotlib's maps of these names (magma
 * from 0.04 to 0.97).
 * @type {{[name: string]: number[][]}}
 */
export const SEQUENCES = {
  magma: [
    [5, 4, 22],
    [20, 14, 54],
    [41, 17, 90],
    [64, 15, 116],
    [89, 21, 126],
    [112, 31, 129],
    [136, 39, 129],
    [160, 47, 127],
    [184, 55, 121],
    [208, 65, 111],
    [229, 80, 100],
    [243, 101, 92],
    [250, 129, 95],
    [254, 157, 108],
    [254, 185, 127],
    [254, 213, 151],
    [252, 240, 178],
  ],
  viridis: [
    [68, 1, 84],
    [72, 24, 106],
    [71, 45, 123],
    [66, 64, 134],
    [59, 82, 139],
    [51, 99, 141],
    [44, 114, 142],
    [38, 130, 142],
    [33, 145, 140],
    [31, 160, 136],
    [40, 174, 128],
    [63, 188, 115],
    [94, 201, 98],
    [132, 212, 75],
    [173, 220, 48],
    [216, 226, 25],
    [253, 231, 37],
  ],
  cividis: [
    [0, 34, 78],
    [0, 46, 106],
    [26, 56, 111],
    [50, 67, 109],
    [67, 78, 108],
    [83, 90, 109],
    [97, 101, 111],
    [111, 112, 115],
    [125, 124, 120],
    [140, 136, 120],
    [155, 148, 118],
    [171, 160, 114],
    [188, 174, 108],
    [205, 187, 99],
    [222, 201, 88],
    [240, 216, 70],
    [254, 232, 56],
  ],
};

/**
 * The colours of signed maps: from faint to full evidence for and against, both growing darker alike.
 * @type {{[name: string]: {for: number[][], against: number[][]}}}
 */
export const DIVERGING = {
  "red-blue": {
    for: [
      [232, 130, 108],
      [205, 62, 38],
      [168, 35, 19],
    ],
    against: [
      [111, 163, 221],
      [46, 104, 178],
      [28, 69, 135],
    ],
  },
  "orange-purple": {
    for: [
      [225, 150, 60],
      [180, 100, 15],
      [125, 66, 5],
    ],
    against: [
      [170, 148, 210],
      [118, 84, 172],
      [75, 45, 128],
    ],
  },
};

/**
 * The colours that a view asks for, of signed or unsigned maps.
 * @param {{sequence?: string, diverging?: string}} view
 * @param {boolean} signed
 * @returns {string}
 */
export const coloursOf = (view, signed) => (signed ? (view.diverging ?? "red-blue") : (view.sequence ?? "magma"));

/**
 * @param {number[][]} stops
 * @param {number} t
 */
function along(stops, t) {
  const place = Math.min(1, Math.max(0, t)) * (stops.length - 1);
  const i = Math.min(stops.length - 2, Math.floor(place));
  return stops[i].map((channel, k) => channel + (stops[i + 1][k] - channel) * (place - i));
}

/**
 * The value below which the fraction `q` of `values` lies, with linear interpolation between neighbours.
 * @param {ArrayLike<number>} values
 * @param {number} q
 * @returns {number}
 */
export function quantile(values, q) {
  const sorted = Float64Array.from(values).sort();
  const place = q * (sorted.length - 1);
  const i = Math.floor(place);
  return i + 1 < sorted.length ? sorted[i] + (sorted[i + 1] - sorted[i]) * (place - i) : sorted[i];
}

const FEW = 10; // fewer scores, as of a short text, may well all lie on one side and mean it
const FLOOR = 0.25; // of the largest size: where all are larger, little but their common sign would be seen

/**
 * The common sign, 1 or -1, of scores that all lie far from zero: as for and against they would be a slab of one
 * colour. 0 where some are near zero or on the other side, and where they are few.
 * @param {number[]} scores
 * @returns {number}
 */
export function oneSign(scores) {
  if (scores.length < FEW) return 0;
  const sign = Math.sign(scores[0]);
  if (!sign || scores.some((score) => score * sign <= 0)) return 0;
  const sizes = scores.map(Math.abs);
  return quantile(sizes, 0.01) >= FLOOR * quantile(sizes, 0.99) ? sign : 0;
}

/**
 * The strength of each score: its size. For scores that all lie far below zero, where sizes are the order turned round,
 * it is the score, unless they are `sided`: drawn as for and against whatever their signs.
 * @param {number[]} scores
 * @param {boolean} [sided]
 * @returns {number[]}
 */
export const strengths = (scores, sided = false) => (!sided && oneSign(scores) < 0 ? scores : scores.map(Math.abs));

const SINK = 0.5; // of all evidence: a first word with more of it is a likely attention sink

/**
 * Return whether the first score of a text's words dwarfs all others together, as where a model attends to its first
 * token whatever it says.
 * @param {number[]} scores
 * @returns {boolean}
 */
export const hasSink = (scores) =>
  scores.length >= FEW && Math.abs(scores[0]) > SINK * scores.reduce((sum, score) => sum + Math.abs(score), 0);

/**
 * @param {number[]} scores
 * @param {boolean} signed
 */
function endsOf(scores, signed) {
  const all = signed ? scores.map(Math.abs) : scores;
  if (all.length === 0) return [0, 0];
  const low = signed ? 0 : quantile(all, 0.01);
  const usual = quantile(all, 0.99);
  const high = usual > low ? usual : all.reduce((most, score) => Math.max(most, score));
  return [signed ? -high : low, high];
}

/**
 * The values at the two ends of a map's colours: [-limit, limit] for a signed map with limit the 99th percentile of
 * |score|, from the 1st to the 99th percentile for an unsigned one, and for a signed one whose scores all lie
 * far on one side of zero: it is drawn as strength. Where so few scores differ from the rest that this leaves
 * nothing, the largest score takes the place of the percentile. `lists` holds the scores of every map that shares the
 * scale.
 * @param {number[][]} lists
 * @param {boolean} signed
 * @returns {Ends}
 */
export const limits = (lists, signed) => endsOf(lists.flat(), signed && !oneSign(lists.flat()));

/**
 * The ends of the colours of scores that are drawn as for and against, whatever their signs.
 * @param {number[][]} lists
 * @returns {Ends}
 */
export const signedLimits = (lists) => endsOf(lists.flat(), true);

/**
 * Return whether a scale has two sides, for and against: that of a signed map, unless its scores all lie far on one
 * side of zero.
 * @param {Ends} ends
 * @param {boolean} signed
 * @returns {boolean}
 */
export const twoSided = ([low, high], signed) => signed && low === -high;

/**
 * A score after the choice of evidence: unsigned maps have none against, so the choice leaves them alone.
 * @param {number} score
 * @param {boolean} signed
 * @param {string} evidence
 * @returns {number}
 */
export const chosen = (score, signed, evidence) =>
  signed && ((evidence === "for" && score < 0) || (evidence === "against" && score > 0)) ? 0 : score;

/**
 * The position of a score between the ends of the scale: -1 to 1 where that has two sides, else 0 to 1.
 * @param {number} score
 * @param {Ends} ends
 * @param {boolean} signed
 * @returns {number}
 */
export function place(score, [low, high], signed) {
  if (high <= low) return 0;
  const two = twoSided([low, high], signed);
  const t = two ? score / high : (score - low) / (high - low);
  return Math.min(1, Math.max(two ? -1 : 0, t));
}

/**
 * Colour [red, green, blue] and cover (0 to 1) at a place on the scale of these colours. What counts for nothing lets
 * the picture through.
 * @param {number} t
 * @param {boolean} signed
 * @param {string} [name]
 * @returns {[number[], number]}
 */
export function colourAt(t, signed, name = coloursOf({}, signed)) {
  if (!signed) return [along(SEQUENCES[name], t), 0.12 + 0.88 * t ** 0.7];
  const size = Math.abs(t);
  return [along(DIVERGING[name][t > 0 ? "for" : "against"], size), size ** 0.85];
}

const STEPS = 512;
const tables = new Map();

/**
 * The colours of one scale as a table of RGBA bytes, from its low end to its high end; made once.
 * @param {boolean} signed
 * @param {string} [name]
 * @returns {Uint8ClampedArray}
 */
export function table(signed, name = coloursOf({}, signed)) {
  if (!tables.has(name)) {
    const bytes = new Uint8ClampedArray(4 * (STEPS + 1));
    for (let i = 0; i <= STEPS; i++) {
      const [colour, cover] = colourAt(signed ? (2 * i) / STEPS - 1 : i / STEPS, signed, name);
      bytes.set([...colour, 255 * cover], 4 * i);
    }
    tables.set(name, bytes);
  }
  return tables.get(name);
}

/**
 * Index of the table's entry for a place on the scale.
 * @param {number} t
 * @param {boolean} signed
 * @returns {number}
 */
export const entry = (t, signed) => 4 * Math.round(STEPS * (signed ? (t + 1) / 2 : t));

const NOTHING = [196, 193, 187]; // at zero of the bar of a signed map, where the map itself shows the picture

/**
 * The colours of a bar from its low end to its high end, [red, green, blue] each, evenly spaced.
 * @param {boolean} signed
 * @param {string} [name]
 * @returns {number[][]}
 */
export function ramp(signed, name = coloursOf({}, signed)) {
  if (!signed) return SEQUENCES[name];
  const { for: pro, against } = DIVERGING[name];
  return [against[2], against[1], against[0], NOTHING, pro[0], pro[1], pro[2]];
}
