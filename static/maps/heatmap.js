// One map over one picture, drawn from raw floats.

import { context2d } from "../core/dom.js";
import { chosen, coloursOf, entry, place, table, twoSided } from "../core/colour.js";

/**
 * @import { Ends } from "../core/colour.js"
 * @import { Grid, View } from "../core/types.js"
 * @import { Drawable, GreyBase } from "./types.js"
 */

/**
 * The picture in calm grey, as a canvas of the given size: colours above it stay readable and keep their meaning.
 * Enlarged pixels stay squares.
 * @param {CanvasImageSource & {naturalWidth?: number}} image
 * @param {number} width
 * @param {number} height
 * @returns {OffscreenCanvas}
 */
export function greyBase(image, width, height) {
  const canvas = new OffscreenCanvas(width, height);
  const context = context2d(canvas, { willReadFrequently: true });
  context.imageSmoothingEnabled = width < (image.naturalWidth ?? 0); // what the model could not see is not made up
  context.imageSmoothingQuality = "high";
  context.drawImage(image, 0, 0, width, height);
  const pixels = context.getImageData(0, 0, width, height);
  const { data } = pixels;
  for (let i = 0; i < data.length; i += 4) {
    data[i] = data[i + 1] = data[i + 2] = 46 + 0.74 * (0.2126 * data[i] + 0.7152 * data[i + 1] + 0.0722 * data[i + 2]);
  }
  context.putImageData(pixels, 0, 0);
  return canvas;
}

/**
 * The weights of the four neighbours of a place that lies `u` (0 to 1) from the second to the third; the cubic is
 * Catmull and Rom's.
 * @type {{[smoothing: string]: (u: number) => number[]}}
 */
const KERNELS = {
  smooth: (u) => [0, 1 - u, u, 0],
  bicubic: (u) => [
    -0.5 * u + u * u - 0.5 * u ** 3,
    1 - 2.5 * u * u + 1.5 * u ** 3,
    0.5 * u + 2 * u * u - 1.5 * u ** 3,
    -0.5 * u * u + 0.5 * u ** 3,
  ],
};

/**
 * For `fine` places in each of `count` along one axis: the four nearest values, and their weights.
 * @param {number} count
 * @param {number} fine
 * @param {(u: number) => number[]} kernel
 */
function stencil(count, fine, kernel) {
  const near = [];
  const weights = [];
  for (let i = 0; i < count * fine; i++) {
    const place = (i + 0.5) / fine - 0.5;
    const first = Math.floor(place);
    weights.push(...kernel(place - first));
    for (let k = -1; k < 3; k++) near.push(Math.min(count - 1, Math.max(0, first + k)));
  }
  return { near, weights };
}

/**
 * Interpolate values along one axis with a stencil: from `from` in `values` to `to` in `put`, `step` apart. The result
 * never leaves the range of the neighbours.
 * @param {number[] | Float64Array<ArrayBuffer>} values
 * @param {number} from
 * @param {Float64Array<ArrayBuffer>} put
 * @param {number} to
 * @param {number} step
 * @param {{near: number[], weights: number[]}} rest
 */
function refine(values, from, put, to, step, { near, weights }) {
  for (let i = 0; i < near.length; i += 4) {
    let [value, least, most] = [0, Infinity, -Infinity];
    for (let k = i; k < i + 4; k++) {
      const score = values[from + near[k] * step];
      value += score * weights[k];
      if (score < least) least = score;
      if (score > most) most = score;
    }
    put[to + (i / 4) * step] = Math.min(most, Math.max(least, value));
  }
}

/**
 * Interpolate scores on a grid, `fine` times as many along both axes; beyond the outer centres they stay as they are at
 * the edge.
 * @param {number[]} scores
 * @param {Grid} grid
 * @param {number} fine
 * @param {(u: number) => number[]} kernel
 */
function refined(scores, [rows, columns], fine, kernel) {
  const width = columns * fine;
  const wide = new Float64Array(rows * width);
  const whole = new Float64Array(rows * fine * width);
  const across = stencil(columns, fine, kernel);
  const down = stencil(rows, fine, kernel);
  for (let row = 0; row < rows; row++) refine(scores, row * columns, wide, row * width, 1, across);
  for (let column = 0; column < width; column++) refine(wide, column, whole, column, width, down);
  return whole;
}

/**
 * The scores to draw, and by which factor they are more along both axes: 1 where the view asks for no smoothing.
 * @param {number[]} scores
 * @param {Grid} grid
 * @param {string} smoothing
 * @returns {{fine: number, scores: number[] | Float64Array}}
 */
export function drawnScores(scores, grid, smoothing) {
  const kernel = KERNELS[smoothing];
  if (!kernel) return { fine: 1, scores };
  const fine = Math.max(1, Math.min(12, Math.round(224 / Math.max(...grid))));
  return { fine, scores: refined(scores, grid, fine, kernel) };
}

/**
 * Paint a map over a grey base, of a clip each frame by itself. `map` is {scores, grid: [rows, columns], signed}; `ends`
 * the values at the ends of the colours; `view` {evidence, grid: "smooth"|"bicubic"|"patches", opacity: 0..100,
 * sequence?, diverging?}.
 * @param {{width: number, height: number, getContext: (kind: "2d") => any}} canvas
 * @param {GreyBase} base
 * @param {Drawable | null} map
 * @param {Ends} ends
 * @param {Pick<View, "evidence" | "grid" | "opacity"> & Partial<View>} view
 */
export function paint(canvas, base, map, ends, view) {
  const context = canvas.getContext("2d");
  context.globalAlpha = 1;
  context.imageSmoothingEnabled = true;
  context.drawImage(base, 0, 0, canvas.width, canvas.height);
  if (!map) return;
  const signed = twoSided(ends, map.signed);
  const colours = table(signed, coloursOf(view, signed));
  const chosenScores = map.scores.map((score) => chosen(score, signed, view.evidence));
  const inks = new Uint32Array(colours.buffer); // the four bytes of a colour at once
  const { width, height } = canvas;
  context.globalAlpha = view.opacity / 100;
  const whole = { scores: chosenScores, grid: map.grid, box: [0, 0, 1, 1] };
  for (const { scores: own, grid, box } of base.sheet?.parts(chosenScores, map.grid) ?? [whole]) {
    const { fine, scores } = drawnScores(own, grid, view.grid);
    const layer = new OffscreenCanvas(grid[1] * fine, grid[0] * fine);
    const pixels = new ImageData(layer.width, layer.height);
    const painted = new Uint32Array(pixels.data.buffer);
    for (let i = 0; i < scores.length; i++) painted[i] = inks[entry(place(scores[i], ends, signed), signed) / 4];
    context2d(layer).putImageData(pixels, 0, 0);
    context.imageSmoothingEnabled = fine > 1;
    context.drawImage(layer, box[0] * width, box[1] * height, box[2] * width, box[3] * height);
  }
  context.globalAlpha = 1;
  base.sheet?.part(context);
}
