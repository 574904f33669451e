// What a plate shows of the tokens that the deletion test took away: holes in a picture, words struck out.

import { el } from "../core/dom.js";

/**
 * @import { Grid } from "../core/types.js"
 * @import { TextBase } from "./types.js"
 */

/**
 * Cover the patches of `gone` on the canvas of a face with the colour of the paper.
 * @param {{node: HTMLElement, canvas: HTMLCanvasElement}} face
 * @param {Grid} grid
 * @param {Set<number>} gone
 * @param {string} paper
 */
export function cover(face, [rows, columns], gone, paper) {
  /** @type {HTMLCanvasElement | null} */
  let canvas = face.node.querySelector("canvas.cover");
  if (!canvas) face.canvas.after((canvas = el("canvas", { class: "cover", "aria-hidden": "true" })));
  if (canvas.width !== columns || canvas.height !== rows) Object.assign(canvas, { width: columns, height: rows });
  const context = canvas.getContext("2d", { willReadFrequently: true }); // a few small squares, which tests read
  context.clearRect(0, 0, columns, rows);
  context.fillStyle = paper;
  for (const patch of gone) context.fillRect(patch % columns, Math.floor(patch / columns), 1, 1);
  canvas.dataset.gone = String(gone.size);
}

/**
 * Strike out the words of a plate whose pieces are gone.
 * @param {{spans: HTMLElement[], base: TextBase}} plate
 * @param {Set<number>} gone
 */
export function strike({ spans, base }, gone) {
  spans.forEach((span, i) => {
    const { tokens } = base.units[i];
    const left = tokens.filter((token) => !gone.has(token)).length;
    const state = left === 0 ? "all" : left < tokens.length ? "some" : undefined;
    if (span.dataset.gone === state) return;
    if (state) span.dataset.gone = state;
    else delete span.dataset.gone;
  });
}

/**
 * The colour of the paper under a node.
 * @param {Element} node
 * @returns {string}
 */
export const paperOf = (node) => getComputedStyle(node).getPropertyValue("--paper");
