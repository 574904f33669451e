// The fields that move the window of a grey picture of more than 8 bits.

import { el } from "../core/dom.js";
import { Input } from "./input.js";

/**
 * @import { Store } from "../core/state.js"
 * @import { Subject } from "../core/types.js"
 */

/**
 * Add two fields, level and width, next to a grey picture of more than 8 bits; a change asks the same about it through
 * another window.
 * @param {HTMLElement} root
 * @param {{subject: Store<Subject>, question: {input: Input | null},
 *   ask: (change: {input: Input}) => Promise<void>}} workbench
 */
export function addFields(root, workbench) {
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
  const show = (/** @type {Subject} */ { info }) => {
    const window = info?.input.kind === "image" && info.input.window;
    form.hidden = !window;
    if (window) [level.value, width.value] = [String(window.level), String(window.width)];
  };
  show(workbench.subject.value);
  workbench.subject.follow(show);
  root.append(form);
}
