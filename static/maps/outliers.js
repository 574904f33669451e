// Marks on a map for the patches that are outlier tokens.

import { el } from "../core/dom.js";
import { layOverPatch, layoutOf } from "./patches.js";

/** @import { MapCanvas } from "./mapcanvas.js" */

const LOOK =
  "position: absolute; pointer-events: none; border: 1.5px dashed #1c1a15; outline: 1px solid #fffefb99; outline-offset: -2px;";

/**
 * Frame each of the patches, and remove the frames that are there.
 * @param {MapCanvas} mapCanvas
 * @param {number[]} patches
 */
export function lay({ node, patch, map, sheet }, patches) {
  node.querySelectorAll(".outlier").forEach((mark) => mark.remove());
  if (!map?.grid) return;
  patch.before(
    ...patches.map((i) => {
      const mark = el("div", { class: "outlier" });
      mark.style.cssText = LOOK;
      layOverPatch(mark, i, layoutOf(map.grid, sheet));
      return mark;
    }),
  );
}
