// What a plate shows of the tokens that the deletion test removed: holes in a picture, words struck out.

import { context2d, el } from "../core/dom.js";
import { layoutOf } from "./patches.js";

/**
 * @import { Grid } from "../core/types.js"
 * @import { ContactSheet } from "./contactsheet.js"
 * @import { TextBase } from "./types.js"
 */

/**
 * Cover the patches of `removed` on the canvas of a map with the colour of the paper.
 * @param {{node: HTMLElement, canvas: HTMLCanvasElement, sheet?: ContactSheet | null}} mapCanvas
 * @param {Grid} grid
 * @param {Set<number>} removed
 * @param {string} paper
 */
export function coverPatches(mapCanvas, grid, removed, paper) {
  const { rows, columns, place } = layoutOf(grid, mapCanvas.sheet);
  /** @type {HTMLCanvasElement | null} */
  let canvas = mapCanvas.node.querySelector("canvas.cover");
  if (!canvas) mapCanvas.canvas.after((canvas = el("canvas", { class: "cover", "aria-hidden": "true" })));
  if (canvas.width !== columns || canvas.height !== rows) Object.assign(canvas, { width: columns, height: rows });
  const context = context2d(canvas, { willReadFrequently: true }); // a few small squares, which tests read
  context.clearRect(0, 0, columns, rows);
  context.fillStyle = paper;
  for (const patch of removed) {
    const [row, column] = place(patch);
    context.fillRect(column, row, 1, 1);
  }
  canvas.dataset.removed = String(removed.size);
}

/**
 * Strike out the words of a plate whose pieces are removed.
 * @param {{spans: (HTMLElement | SVGElement)[], base: TextBase}} plate
 * @param {Set<number>} removed
 */
export function strikeWords({ spans, base }, removed) {
  spans.forEach((span, i) => {
    const { tokens } = base.units[i];
    const left = tokens.filter((token) => !removed.has(token)).length;
    const state = left === 0 ? "all" : left < tokens.length ? "some" : undefined;
    if (span.dataset.removed === state) return;
    if (state) span.dataset.removed = state;
    else delete span.dataset.removed;
  });
}

/**
 * The colour of the paper under a node.
 * @param {Element} node
 * @returns {string}
 */
export const paperColour = (node) => getComputedStyle(node).getPropertyValue("--paper");
