// A map in one or two sentences, from its raw scores: where the evidence lies, and what is strongest.

import { oneSign } from "../core/colour.js";
import { el, number, percent, signedNumber } from "../core/dom.js";
import { patchName, shownScore, strongest } from "./mapcanvas.js";

/**
 * @import { Store } from "../core/state.js"
 * @import { Grid, View } from "../core/types.js"
 * @import { ContactSheet } from "./contactsheet.js"
 * @import { Drawable } from "./types.js"
 */

/** @type {string[]} */
export const NINTHS = [
  "in the upper left",
  "at the top",
  "in the upper right",
  "at the left",
  "in the centre",
  "at the right",
  "in the lower left",
  "at the bottom",
  "in the lower right",
];
const SPREAD = 0.2; // a ninth of the picture with less than this share is no place to point at
const MOSTLY = 0.5; // the share of a whole that lies mostly at a place
const AGAINST = 0.1; // evidence against is told from this share of all evidence on
const NAMED = 3; // words named on each side

/**
 * The share of `weights` (rows x columns, none negative) in each ninth of the picture, of a clip in each ninth of its
 * frames, 0 to 1; null where there is nothing to share.
 * @param {number[]} weights
 * @param {Grid} grid
 * @param {number} [frames]
 * @returns {number[] | null}
 */
export function ninths(weights, [rows, columns], frames = 1) {
  const sums = new Float64Array(9);
  const tall = rows / frames;
  weights.forEach((weight, i) => {
    const row = Math.floor((3 * ((Math.floor(i / columns) % tall) + 0.5)) / tall);
    const column = Math.floor((3 * ((i % columns) + 0.5)) / columns);
    sums[3 * row + column] += weight;
  });
  const all = sums.reduce((a, b) => a + b, 0);
  return all > 0 ? [...sums].map((sum) => sum / all) : null;
}

/**
 * The number of largest weights that make up half of their sum.
 * @param {number[]} weights
 * @returns {number}
 */
export function half(weights) {
  const sorted = Float64Array.from(weights).sort().reverse();
  const all = sorted.reduce((a, b) => a + b, 0);
  let sum = 0;
  return sorted.findIndex((weight) => (sum += weight) >= all / 2) + 1;
}

/**
 * @param {number[]} weights
 * @param {Grid} grid
 * @param {number} [frames]
 */
function place(weights, grid, frames) {
  const shares = ninths(weights, grid, frames);
  if (!shares) return null;
  const best = shares.indexOf(Math.max(...shares));
  return { share: shares[best], name: NINTHS[best] };
}

/**
 * A map over a picture in words. `map` is {scores, grid, signed, target}.
 * @param {Drawable & {target: string}} map
 * @param {ContactSheet | null} [sheet]
 * @returns {string}
 */
export function pictureInWords(map, sheet) {
  const { scores, grid, signed, target } = map;
  if (scores.every((score) => score === scores[0])) return "All patches have the same score.";
  const best = strongest(scores);
  const last = `The strongest patch is ${patchName(best, grid, sheet)}, ${shownScore(map, best)}.`;
  const weights = scores.map((score) => Math.max(0, score));
  const densest = place(weights, grid, sheet?.frames);
  const what = signed ? `evidence for ${target}` : "strength";
  if (signed && oneSign(scores) < 0)
    return `Every patch speaks against ${target}, so only the order counts. The highest is ${patchName(best, grid, sheet)}, ${shownScore(map, best)}.`;
  if (!densest) return `Nothing speaks for ${target}. ${last}`;
  const where =
    densest.share < SPREAD
      ? `The ${what} is spread over the picture`
      : `${percent(densest.share)} of the ${what} lies ${densest.name}`;
  const parts = [`${where}; half of it in ${half(weights)} of ${scores.length} patches.`];
  if (sheet) parts.push(sheet.densest(weights));
  const against = scores.map((score) => Math.max(0, -score));
  const share = sum(against) / (sum(against) + sum(weights));
  if (signed && share >= AGAINST) {
    const most = place(against, grid, sheet?.frames);
    const there = most && most.share >= MOSTLY ? `, mostly ${most.name}` : "";
    parts.push(`${percent(share)} of all evidence speaks against it${there}.`);
  }
  return [...parts, last].join(" ");
}

/** @param {number[]} values */
const sum = (values) => values.reduce((a, b) => a + b, 0);

/**
 * A map over a text in words. `units` are {text, value}: what the plate colours, with their scores.
 * @param {{text: string, value: number}[]} units
 * @param {{signed: boolean, target: string}} map
 * @returns {string}
 */
export function textInWords(units, { signed, target }) {
  if (units.length && units.every(({ value }) => value === units[0].value)) return "All words have the same score.";
  const shown = signed ? signedNumber : number;
  /** @param {number} sign */
  const side = (sign) => {
    const ordered = units.filter(({ value }) => sign * value > 0).sort((a, b) => sign * (b.value - a.value));
    const names = new Map(); // a word that stands there twice is named once, with what it has at each place
    for (const { text, value } of ordered.slice(0, NAMED))
      names.set(text.toLowerCase(), [...(names.get(text.toLowerCase()) ?? [`“${text}”`]), shown(value)]);
    return [...names.values()].map(([name, ...values]) => `${name} ${values.join(" and ")}`);
  };
  /** @param {string[]} names */
  const list = (names) => (names.length ? names.join(", ") : "nothing");
  if (!signed) return `Strongest: ${list(side(1))}.`;
  return `Strongest for ${target}: ${list(side(1))}. Against: ${list(side(-1))}.`;
}

/**
 * Which of several pictures in a text the answer came from most, by the sum of each one's patches, or the largest where
 * scores have no sign.
 * @param {{name: string, value: number}[]} pictures
 * @param {{signed: boolean, target: string}} map
 * @returns {string}
 */
export function picturesInWords(pictures, { signed, target }) {
  const [best, next] = pictures.toSorted((a, b) => b.value - a.value);
  if (!next) return "";
  const [first, second] = [best, next].map(({ value }) => (signed ? signedNumber(value) : number(value)));
  if (first === second) return `${best.name} and ${next.name.toLowerCase()} count alike: ${first} each.`;
  const then = `Next is ${next.name.toLowerCase()} with ${second}.`;
  const several = best.name.startsWith("Frames");
  if (!signed) return `${best.name} ${several ? "have" : "has"} the largest patch: ${first}. ${then}`;
  if (best.value <= 0) return `No picture speaks for ${target}. The highest is ${best.name.toLowerCase()}: ${first}.`;
  return `${best.name} ${several ? "speak" : "speaks"} most for ${target}: ${several ? "their" : "its"} patches add up to ${first}. ${then}`;
}

let count = 0;

/**
 * The sentence under a plate, and what a screen reader hears of its map. It is shown where the page shows maps in
 * words.
 */
export class MapSentence {
  /**
   * `node` is what the sentence describes.
   * @param {HTMLElement} node
   */
  constructor(node) {
    this.node = el("p", { class: "told", id: `told-${++count}` });
    node.setAttribute("aria-describedby", this.node.id);
  }

  /**
   * Say `text` of the map.
   * @param {string} text
   */
  show(text) {
    this.node.textContent = text;
  }
}

/**
 * Show the sentences of the plates under `root`, or not, as the view has it.
 * @param {HTMLElement} root
 * @param {Store<View>} view
 */
export function showSentences(root, view) {
  const tell = () => root.classList.toggle("in-words", view.value.words === "shown");
  view.follow(tell);
  tell();
}
