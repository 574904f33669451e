// The window of a grey picture of more than 8 bits: which of its values are shown as black to white; and a way to
// move it, fetched for the first such picture.

/**
 * @import { GreyWindow } from "../core/schemas.js"
 * @import { Store } from "../core/state.js"
 * @import { Subject } from "../core/types.js"
 * @import { Input } from "./input.js"
 */

const SOURCES = { set: "as chosen", file: "of the file", range: "from smallest to largest" };

/**
 * The window as a part of the caption of the picture; "" of a picture without one.
 * @param {GreyWindow | undefined} window
 * @returns {string}
 */
export const windowInWords = (window) =>
  window ? `, level ${window.level}, width ${window.width} (${SOURCES[window.source]})` : "";

/**
 * Show the fields next to a grey picture of more than 8 bits.
 * @param {HTMLElement} root
 * @param {{subject: Store<Subject>, question: {input: Input | null},
 *   ask: (change: {input: Input}) => Promise<void>}} workbench
 */
export function windowFields(root, workbench) {
  const stop = workbench.subject.follow(async ({ info }) => {
    if (info?.input.kind !== "image" || !info.input.window) return;
    const { addFields } = await import("./windowfields.js").catch(() => ({ addFields: null })); // where the server is away
    if (addFields && stop()) addFields(root, workbench);
  });
}
