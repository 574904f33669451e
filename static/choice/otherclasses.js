// The search for another class than the explained one, in a sheet of its own.

import { answered } from "../core/dom.js";
import { named, suggestions } from "../core/search.js";

/**
 * @import { ClassEntry, Target } from "../core/schemas.js"
 * @import { Suggestion } from "../core/search.js"
 */

/**
 * The classes that match what was typed, without one of them; where nothing was, the model's own answers come first.
 * @param {ClassEntry[]} classes
 * @param {Target[]} top what the model says
 * @param {string | undefined} without
 * @param {string} text
 * @returns {Suggestion[]}
 */
export function otherClasses(classes, top, without, text) {
  const isOther = (/** @type {{name: string}} */ { name }) => name !== without;
  const found = suggestions(classes, text).filter(isOther);
  if (text.trim()) return found;
  const runnersUp = top.map((answer) => ({ name: answer.label, shown: named(answer.label), hint: answered(answer) }));
  const names = new Set(top.map(({ label }) => label));
  return [...runnersUp.filter(isOther), ...found.filter(({ name }) => !names.has(name))];
}

/**
 * Let a sheet open with its search in focus, and close with it empty.
 * @param {HTMLDetailsElement} node
 * @param {{input: HTMLInputElement, open: () => void}} field
 */
export const openSearch = (node, field) =>
  node.addEventListener("toggle", () => {
    // told a moment later: what was typed since it was opened stays
    if (!node.open) return void (field.input.value = "");
    field.open();
    node.lastElementChild?.scrollIntoView({ block: "nearest" });
    // a keyboard on the glass would hide the list
    if (matchMedia("(pointer: fine)").matches) field.input.focus();
  });
