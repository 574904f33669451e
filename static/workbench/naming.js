// A name of one's own for the explanation on show.

import { explanationPath, Problem, sendJSON } from "../core/api.js";
import { el } from "../core/dom.js";
import { most } from "../core/limits.js";

/**
 * Give explanation `id` this title, or take it away where it is blank; resolves to the title, or null.
 * @param {string} id
 * @param {string} title
 * @returns {Promise<string | null>}
 */
export const rename = async (id, title) => (await sendJSON(explanationPath(id), { title }, undefined, "PATCH")).title;

/**
 * A button that opens a field for the title; `now()` gives {id, title}, `onNamed(title)` is told the new one.
 * @param {() => {id: string, title?: string}} now
 * @param {(title: string | null, id: string) => void} onNamed
 * @returns {{button: HTMLButtonElement, form: HTMLFormElement}}
 */
export function namingField(now, onNamed) {
  const field = el("input", {
    type: "text",
    "aria-label": "A name of your own",
    placeholder: "A name of your own",
    autocomplete: "off",
  });
  const problem = el("span", { class: "quiet", role: "alert" });
  const form = el(
    "form",
    { class: "naming", hidden: true },
    field,
    el("button", { type: "submit", class: "act plain" }, "Save the name"),
    problem,
  );
  /** @param {boolean} open */
  const turn = (open) => {
    form.hidden = !open;
    button.setAttribute("aria-expanded", String(open));
    problem.textContent = "";
    if (!open) return void button.focus();
    field.value = now().title ?? "";
    field.maxLength = most("title") < Infinity ? most("title") : -1;
    field.focus();
  };
  const button = el(
    "button",
    { type: "button", class: "act plain", "aria-expanded": "false", on: { click: () => turn(form.hidden !== false) } },
    "Name it",
  );
  form.addEventListener("keydown", (event) => event.key === "Escape" && turn(false));
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const { id } = now();
    try {
      onNamed(await rename(id, field.value), id);
      turn(false);
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      problem.textContent = [error.detail, error.send].filter(Boolean).join(" ");
    }
  });
  return { button, form };
}
