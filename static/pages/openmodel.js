// The link that asks a loaded model something.

import { el } from "../core/dom.js";

/** @import { Model } from "../core/schemas.js" */

/** @type {{[kind: string]: string}} */
const PAGES = { image: "/image", clip: "/prompt", text: "/text", molecule: "/molecule" };

/**
 * Make the link to the page that asks a model; null while it is not loaded.
 * @param {Model} model
 * @returns {HTMLElement | null}
 */
export const openModel = ({ state, kind, name }) =>
  state === "loaded"
    ? el("a", { class: "act", href: `${PAGES[String(kind)]}?model=${encodeURIComponent(name)}` }, "Open")
    : null;
