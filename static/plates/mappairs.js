// Which two of several maps are most alike, and which two least; and the tool that holds two against each other.

import { byId } from "../core/dom.js";
import { spearman } from "../core/stats.js";

/** @import { WorkbenchView } from "./types.js" */

/**
 * Two maps and their rank correlation.
 * @template T
 * @typedef {{pair: [T, T], value: number}} MapPair
 */

/**
 * The pair with the highest rank correlation and the one with the lowest; the same one where there are two maps, null
 * where no two can be compared. `scoresOf(map)` are those of patches or words.
 * @template T
 * @param {T[]} maps
 * @param {(map: T) => number[]} scoresOf
 * @returns {{most: MapPair<T>, least: MapPair<T>} | null}
 */
export function extremePairs(maps, scoresOf) {
  const scores = maps.map(scoresOf);
  const pairs = maps.flatMap((map, i) =>
    maps.slice(0, i).flatMap((other, k) => {
      const value = spearman(scores[k], scores[i]);
      return value === null ? [] : [{ pair: /** @type {[T, T]} */ ([other, map]), value }];
    }),
  );
  if (!pairs.length) return null;
  pairs.sort((a, b) => b.value - a.value);
  return { most: pairs[0], least: pairs[pairs.length - 1] };
}

/**
 * The key of a map in tools: the spec, and the column where there are several.
 * @param {{variant: {spec: string}, target: string | null}} plate
 * @returns {string}
 */
export const mapKey = ({ variant, target }) => (target === null ? variant.spec : `${variant.spec} ${target}`);

/**
 * Show the maps of these keys over each other where they are over a picture; of texts, list where they disagree.
 * @param {WorkbenchView} workbench
 * @param {string} first
 * @param {string} second
 */
export function openPair(workbench, first, second) {
  const id = byId("drawer-swipe") && workbench.side !== "text" ? "swipe" : "disagree";
  const drawer = byId(`drawer-${id}`);
  if (!drawer) return;
  workbench.toolStates.of(id).set({ first, second });
  drawer.open = true;
  drawer.scrollIntoView({ block: "start" });
  drawer.querySelector("summary").focus({ preventScroll: true });
}
