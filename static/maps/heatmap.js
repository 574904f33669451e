// One map over one picture, drawn from raw floats.

import { chosen, coloursOf, entry, place, table } from "../core/colour.js";

/** @import { Drawable, Ends, Grid, View } from "../core/types.js" */

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
  const context = canvas.getContext("2d", { willReadFrequently: true });
  context.imageSmoothingEnabled = width < image.naturalWidth; // what the model could not see is not made up
  context.imageSmoothingQuality = "high";
  context.drawImage(image, 0, 0, width, height);
  const pixels = context.getImageData(0, 0, width, height);
  for (let i = 0; i < pixels.data.length; i += 4) {
    const [red, green, blue] = pixels.data.subarray(i, i + 3);
    const grey = 46 + 0.74 * (0.2126 * red + 0.7152 * green + 0.0722 * blue);
    pixels.data.fill(grey, i, i + 3);
  }
  context.putImageData(pixels, 0, 0);
  return canvas;
}

/**
 * Weights of the four neighbours of a place that lies `u` (0 to 1) from the second to the third; the cubic is Catmull
 * and Rom's.
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
 * Put `fine` values in place of each along one axis; `at(k)` reads the values along it. What no neighbour has is never
 * made up.
 */
function refine(count, fine, kernel, at, put) {
  for (let i = 0; i < count * fine; i++) {
    const place = (i + 0.5) / fine - 0.5;
    const first = Math.floor(place);
    const weights = kernel(place - first);
    const near = weights.map((_, k) => at(Math.min(count - 1, Math.max(0, first - 1 + k))));
    const value = near.reduce((sum, one, k) => sum + one * weights[k], 0);
    put(i, Math.min(Math.max(...near), Math.max(Math.min(...near), value)));
  }
}

/**
 * Scores on a grid, `fine` times as many along both axes; beyond the outer centres they stay as they are at the edge.
 */
function refined(scores, [rows, columns], fine, kernel) {
  const wide = new Float64Array(rows * columns * fine);
  const whole = new Float64Array(rows * fine * columns * fine);
  const width = columns * fine;
  for (let row = 0; row < rows; row++)
    refine(
      columns,
      fine,
      kernel,
      (k) => scores[row * columns + k],
      (i, value) => (wide[row * width + i] = value),
    );
  for (let column = 0; column < width; column++)
    refine(
      rows,
      fine,
      kernel,
      (k) => wide[k * width + column],
      (i, value) => (whole[i * width + column] = value),
    );
  return whole;
}

/**
 * Scores as they are drawn, and how many times as many they are along both axes: 1 where the view asks for no
 * smoothing.
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
 * Paint a map over a grey base. `map` is {scores, grid: [rows, columns], signed}; `ends` the values at the ends of the
 * colours; `view` {evidence, grid: "smooth"|"bicubic"|"patches", opacity: 0..100, sequence?, diverging?}.
 * @param {{width: number, height: number, getContext: (kind: "2d") => any}} canvas
 * @param {OffscreenCanvas} base
 * @param {Drawable | null} map
 * @param {Ends} ends
 * @param {Partial<View>} view
 */
export function paint(canvas, base, map, ends, view) {
  const context = canvas.getContext("2d");
  context.globalAlpha = 1;
  context.imageSmoothingEnabled = true;
  context.drawImage(base, 0, 0, canvas.width, canvas.height);
  if (!map) return;
  const [rows, columns] = map.grid;
  const colours = table(map.signed, coloursOf(view, map.signed));
  const chosenScores = map.scores.map((score) => chosen(score, map.signed, view.evidence));
  const { fine, scores } = drawnScores(chosenScores, map.grid, view.grid);
  const height = rows * fine;
  const width = columns * fine;
  const layer = new OffscreenCanvas(width, height);
  const pixels = new ImageData(width, height);
  for (let i = 0; i < scores.length; i++) {
    const from = entry(place(scores[i], ends, map.signed), map.signed);
    pixels.data.set(colours.subarray(from, from + 4), 4 * i);
  }
  layer.getContext("2d").putImageData(pixels, 0, 0);
  context.globalAlpha = view.opacity / 100;
  context.imageSmoothingEnabled = fine > 1;
  context.drawImage(layer, 0, 0, canvas.width, canvas.height);
  context.globalAlpha = 1;
}
