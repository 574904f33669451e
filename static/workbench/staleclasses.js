// What belongs to the previous question, and cannot be asked of the next one: who tries is told why.

import { byId, say } from "../core/dom.js";

const EVENTS = ["pointerdown", "click", "keydown", "change"];
const LEAVES = ["Tab", "Escape"];

/**
 * Block `node` while `held()` is true; `tell()` is called when somebody tries to use it.
 * @param {HTMLElement} node
 * @param {() => boolean} held
 * @param {() => void} tell
 */
function hold(node, held, tell) {
  for (const name of EVENTS) {
    node.addEventListener(
      name,
      (/** @type {any} */ event) => {
        if (!held() || LEAVES.includes(event.key)) return;
        event.preventDefault();
        event.stopImmediatePropagation();
        tell();
      },
      { capture: true },
    );
  }
}

/** Block the classes while another input is explained: the model named them for the one before. */
export function blockStaleClasses() {
  for (const node of [byId("classes"), byId("why")]) {
    if (node)
      hold(
        node,
        () => byId("main").classList.contains("renewing"),
        () => say("status", "these classes are of the previous input"),
      );
  }
}
