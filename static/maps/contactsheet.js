// A clip as it is shown: its frames side by side, some in a row, as a photographer's contact sheet has them. The
// model was given them below each other, and its patches are counted so. Fetched where a clip is shown.

import { context2d, el, percent } from "../core/dom.js";
import { explanationPath, loadImage } from "../core/api.js";

/**
 * @import { Grid } from "../core/types.js"
 * @import { PatchLayout } from "./types.js"
 */

const ACROSS = 4; // frames in a row, as in the pictures of the API
const GAP = 2; // pixels between frames

/** The layout of the frames of a clip on one sheet. */
export class ContactSheet {
  /** @param {number} frames */
  constructor(frames) {
    this.frames = frames;
    this.across = Math.min(frames, ACROSS);
    this.down = Math.ceil(frames / this.across);
  }

  /**
   * The layout of the patches of a grid on the sheet; the rows of all frames follow each other.
   * @param {Grid} grid
   * @returns {PatchLayout}
   */
  layout([rows, columns]) {
    const { frames, across, down } = this;
    const tall = rows / frames;
    return {
      rows: down * tall,
      columns: across * columns,
      place(i) {
        const [frame, inside] = [Math.floor(i / (tall * columns)), i % (tall * columns)];
        return [
          Math.floor(frame / across) * tall + Math.floor(inside / columns),
          (frame % across) * columns + (inside % columns),
        ];
      },
      at(row, column) {
        const isInside = row >= 0 && row < down * tall && column >= 0 && column < across * columns;
        const frame = Math.floor(row / tall) * across + Math.floor(column / columns);
        return isInside && frame < frames ? (frame * tall + (row % tall)) * columns + (column % columns) : -1;
      },
    };
  }

  /**
   * "frame 3, row 1, column 2".
   * @param {number} i
   * @param {Grid} grid
   */
  patchName(i, [rows, columns]) {
    const [row, tall] = [Math.floor(i / columns), rows / this.frames];
    return `frame ${Math.floor(row / tall) + 1}, row ${(row % tall) + 1}, column ${(i % columns) + 1}`;
  }

  /**
   * The frames in turn: the grid and the part of `scores` of each, and where it lies, as shares of the sheet.
   * @param {number[]} scores
   * @param {Grid} grid
   */
  parts(scores, [rows, columns]) {
    const { frames, across, down } = this;
    const size = scores.length / frames;
    return Array.from({ length: frames }, (_, i) => ({
      scores: scores.slice(i * size, (i + 1) * size),
      grid: [rows / frames, columns],
      box: [(i % across) / across, Math.floor(i / across) / down, 1 / across, 1 / down],
    }));
  }

  /**
   * Draw the gaps between the frames on a canvas.
   * @param {any} context
   */
  part(context) {
    const { width, height } = context.canvas;
    for (let i = 1; i < this.across; i++)
      context.clearRect(Math.round((i * width) / this.across) - GAP / 2, 0, GAP, height);
    for (let i = 1; i < this.down; i++)
      context.clearRect(0, Math.round((i * height) / this.down) - GAP / 2, width, GAP);
  }

  /**
   * A sentence on the frame with most of the weights, and how much of it that is.
   * @param {number[]} weights
   */
  densest(weights) {
    const sums = this.parts(weights, [this.frames, 1]).map(({ scores }) => scores.reduce((a, b) => a + b, 0));
    const most = Math.max(...sums);
    const share = most / sums.reduce((a, b) => a + b, 0);
    return `Frame ${sums.indexOf(most) + 1} of ${this.frames} has the largest share: ${percent(share)}.`;
  }

  /**
   * The sheet of what the model of an explanation saw.
   * @param {string} id
   * @returns {Promise<HTMLImageElement>}
   */
  async seen(id) {
    const strip = await loadImage(`${explanationPath(id)}/input.png`);
    const [wide, tall] = [strip.naturalWidth, strip.naturalHeight / this.frames];
    const canvas = el("canvas", { width: this.across * wide, height: this.down * tall });
    const context = context2d(canvas);
    for (let i = 0; i < this.frames; i++) {
      const [left, top] = [(i % this.across) * wide, Math.floor(i / this.across) * tall];
      context.drawImage(strip, 0, i * tall, wide, tall, left, top, wide, tall);
    }
    return loadImage(canvas.toDataURL());
  }
}
