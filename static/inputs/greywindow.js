// The window of a grey picture of more than 8 bits: which of its values are shown as black to white; and a way to
// move it.

import { el } from "../core/dom.js";
import { Input } from "./input.js";

/**
 * @import { GreyWindow } from "../core/schemas.js"
 * @import { Store } from "../core/state.js"
 * @import { Subject } from "../core/types.js"
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
 * Two fields, level and width, beside a grey picture of more than 8 bits; the same is asked about it through another
 * window.
 * @param {HTMLElement} root
 * @param {{subject: Store<Subject>, question: {input: Input | null},
 *   ask: (change: {input: Input}) => Promise<void>}} workbench
 */
export function windowFields(root, workbench) {
  /**
   * @param {string} label
   * @param {string | null} min
   */
  const field = (label, min) =>
    el("input", { type: "number", step: "any", min, required: true, "aria-label": label, title: label });
  const [level, width] = [
    field("Level: the value shown as middle grey", null),
    field("Width: from black to white", "0"),
  ];
  const form = el(
    "form",
    { class: "greywindow", hidden: true, "aria-label": "Grey window" },
    level,
    width,
    el("button", { class: "act plain" }, "Window"),
  );
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const { id } = workbench.subject.value;
    const window = `${level.value},${width.value}`;
    workbench.ask({ input: new Input({ source: id, window, sample: workbench.question.input?.sample }) });
  });
  workbench.subject.follow(({ info }) => {
    const window = info?.input.kind === "image" && info.input.window;
    form.hidden = !window;
    if (window) [level.value, width.value] = [String(window.level), String(window.width)];
  });
  root.append(form);
}
