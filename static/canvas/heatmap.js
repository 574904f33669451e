// One map over one picture, drawn from raw floats.

import { chosen, entry, place, table } from "../colour.js";

/** The picture in calm grey, as a canvas of the given size: colours above it stay readable and keep their meaning. */
export function greyBase(image, width, height) {
  const canvas = new OffscreenCanvas(width, height);
  const context = canvas.getContext("2d", { willReadFrequently: true });
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

/** The score between the centres of the four nearest patches; beyond the outer centres it stays as it is at the edge. */
function between(scores, rows, columns, y, x) {
  const fy = Math.min(rows - 1, Math.max(0, y * rows - 0.5));
  const fx = Math.min(columns - 1, Math.max(0, x * columns - 0.5));
  const y0 = Math.floor(fy);
  const x0 = Math.floor(fx);
  const y1 = Math.min(rows - 1, y0 + 1);
  const x1 = Math.min(columns - 1, x0 + 1);
  const u = fx - x0;
  const top = scores[y0 * columns + x0] * (1 - u) + scores[y0 * columns + x1] * u;
  const bottom = scores[y1 * columns + x0] * (1 - u) + scores[y1 * columns + x1] * u;
  return top + (bottom - top) * (fy - y0);
}

/**
 * Paint a map over a grey base. `map` is {scores, grid: [rows, columns], signed}; `ends` the values at the ends of the colours;
 * `view` {evidence, grid: "smooth"|"patches", opacity: 0..100}.
 */
export function paint(canvas, base, map, ends, view) {
  const context = canvas.getContext("2d");
  context.globalAlpha = 1;
  context.imageSmoothingEnabled = true;
  context.drawImage(base, 0, 0, canvas.width, canvas.height);
  if (!map) return;
  const [rows, columns] = map.grid;
  const smooth = view.grid === "smooth";
  const fine = smooth ? Math.max(1, Math.min(12, Math.round(224 / Math.max(rows, columns)))) : 1;
  const height = rows * fine;
  const width = columns * fine;
  const colours = table(map.signed);
  const scores = map.scores.map((score) => chosen(score, map.signed, view.evidence));
  const layer = new OffscreenCanvas(width, height);
  const pixels = new ImageData(width, height);
  for (let y = 0, i = 0; y < height; y++) {
    for (let x = 0; x < width; x++, i += 4) {
      const score = smooth ? between(scores, rows, columns, (y + 0.5) / height, (x + 0.5) / width) : scores[y * width + x];
      const from = entry(place(score, ends, map.signed), map.signed);
      pixels.data.set(colours.subarray(from, from + 4), i);
    }
  }
  layer.getContext("2d").putImageData(pixels, 0, 0);
  context.globalAlpha = view.opacity / 100;
  context.imageSmoothingEnabled = smooth;
  context.drawImage(layer, 0, 0, canvas.width, canvas.height);
  context.globalAlpha = 1;
}
