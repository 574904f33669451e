// Where patches lie in what is shown: those of a picture in raster order, those of a clip frame by frame.

import { explanationPath, loadImage } from "../core/api.js";

/**
 * @import { ImageInput } from "../core/schemas.js"
 * @import { Grid } from "../core/types.js"
 * @import { ContactSheet } from "./contactsheet.js"
 * @import { PatchLayout } from "./types.js"
 */

/**
 * The size of the picture that the model saw, in words.
 * @param {Pick<ImageInput, "seen" | "frames">} input
 * @returns {string}
 */
export const seenSize = ({ seen: [width, height], frames }) =>
  frames ? `${frames} times ${width}×${height / frames}` : `${width}×${height}`;

/**
 * Resolves to the sheet of a clip with this number of frames; null for a picture.
 * @param {number | undefined} frames
 * @returns {Promise<ContactSheet | null>}
 */
export const sheetOf = async (frames) => (frames ? new (await import("./contactsheet.js")).ContactSheet(frames) : null);

/**
 * The name of the file with picture number `i` of a prompt, from 0 on, as the model saw it.
 * @param {number} i
 */
export const seenName = (i) => (i ? `input-${i + 1}.png` : "input.png");

/**
 * Load the picture that the model of an explanation saw, of several the one in the file of this name.
 * @param {string} id
 * @param {ContactSheet | null} sheet of a clip
 * @param {string} [name]
 * @returns {Promise<HTMLImageElement>}
 */
export const seenPicture = (id, sheet, name = seenName(0)) =>
  sheet?.seen(id) ?? loadImage(`${explanationPath(id)}/${name}`);

/**
 * The layout of a grid's patches.
 * @param {Grid} grid
 * @param {ContactSheet | null} [sheet]
 * @returns {PatchLayout}
 */
export const layoutOf = ([rows, columns], sheet) =>
  sheet?.layout([rows, columns]) ?? {
    rows,
    columns,
    place: (i) => [Math.floor(i / columns), i % columns],
    at: (row, column) => (row >= 0 && row < rows && column >= 0 && column < columns ? row * columns + column : -1),
  };

/**
 * The patch this many rows down and columns to the right of patch `at`; at an edge `at` itself.
 * @param {number} at
 * @param {number[]} step
 * @param {PatchLayout} layout
 * @returns {number}
 */
export function neighbour(at, [down, right], layout) {
  const [row, column] = layout.place(at);
  const next = layout.at(row + down, column + right);
  return next < 0 ? at : next;
}

/**
 * Place a box over patch `i` of a box that shows the whole grid.
 * @param {HTMLElement} node
 * @param {number} i
 * @param {PatchLayout} layout
 */
export function layOverPatch({ style }, i, { rows, columns, place }) {
  const [row, column] = place(i);
  style.left = `${(column / columns) * 100}%`;
  style.top = `${(row / rows) * 100}%`;
  style.width = `${100 / columns}%`;
  style.height = `${100 / rows}%`;
}

/**
 * The path of the line around some patches of a grid, one unit a patch: the sides that have no such patch behind them.
 * @param {number[]} patches
 * @param {number} columns
 * @returns {string}
 */
export function outlineOf(patches, columns) {
  const inside = new Set(patches);
  return patches
    .flatMap((patch) => {
      const [x, y] = [patch % columns, Math.floor(patch / columns)];
      return [
        !inside.has(patch - columns) && `M${x} ${y}h1`,
        !inside.has(patch + columns) && `M${x} ${y + 1}h1`,
        !(x > 0 && inside.has(patch - 1)) && `M${x} ${y}v1`,
        !(x < columns - 1 && inside.has(patch + 1)) && `M${x + 1} ${y}v1`,
      ];
    })
    .filter(Boolean)
    .join("");
}
