// Opens the tool that holds two maps against each other, with these two.

import { byId } from "../core/dom.js";

/** @import { WorkbenchView } from "../plates/types.js" */

/**
 * The name by which tools choose a map: the spec, and the column where there are several.
 * @param {{variant: {spec: string}, target: string | null}} plate
 * @returns {string}
 */
export const mapKey = ({ variant, target }) => (target === null ? variant.spec : `${variant.spec} ${target}`);

/**
 * Lay the maps of these keys over each other where they lie on a picture; of texts, list where they disagree.
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
