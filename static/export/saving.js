// Files that the browser saves, and their names.

import { el } from "../core/dom.js";

/**
 * The name of a file, without its ending: "vitrine-…", of these parts.
 * @param {...string} parts
 * @returns {string}
 */
export const stem = (...parts) =>
  ["vitrine", ...parts]
    .map((part) =>
      part
        .toLowerCase()
        .replace(/[^\p{L}\p{N}=.]+/gu, "-")
        .replace(/^-|-$/g, ""),
    )
    .filter(Boolean)
    .join("-");

/**
 * Give a file to the browser.
 * @param {Blob} blob
 * @param {string} name
 */
export function save(blob, name) {
  const href = URL.createObjectURL(blob);
  el("a", { href, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(href), 60_000); // the browser may still be reading it
}
