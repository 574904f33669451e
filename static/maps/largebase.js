// The picture under a large map: what the model saw, in grey, from the finest copy that the server keeps.

import { context2d } from "../core/dom.js";
import { explanationPath, getJSON, loadImage } from "../core/api.js";
import { greyBase } from "./heatmap.js";

const LONGEST = 1024; // pixels of the longer side
const bases = new Map(); // id of an explanation -> promise of its base

/**
 * The seen part of the picture of explanation `id` as a canvas in grey; rejects where there is none, as of a clip.
 * @param {string} id
 * @returns {Promise<OffscreenCanvas>}
 */
export function largeBase(id) {
  if (!bases.has(id)) {
    const base = make(id);
    base.catch(() => bases.delete(id));
    bases.clear(); // one at a time is large enough
    bases.set(id, base);
  }
  return bases.get(id);
}

/** @param {string} id */
async function make(id) {
  const [{ input }, original] = await Promise.all([
    getJSON(explanationPath(id)),
    loadImage(`${explanationPath(id)}/original.jpg`),
  ]);
  if (input.frames) throw new Error("the copy is of the first frame alone");
  const [x0, y0, x1, y1] = input.crop;
  // pixels a pixel of the upload
  const fine = Math.min(original.naturalWidth / input.width, LONGEST / Math.max(x1 - x0, y1 - y0));
  const [width, height] = [x1 - x0, y1 - y0].map((side) => Math.max(1, Math.round(side * fine)));
  const cut = new OffscreenCanvas(width, height);
  const context = context2d(cut);
  context.fillRect(0, 0, width, height); // what the model saw beyond the edge
  context.imageSmoothingQuality = "high";
  context.drawImage(original, -x0 * fine, -y0 * fine, input.width * fine, input.height * fine);
  return greyBase(cut, width, height);
}
