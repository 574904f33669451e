// A field with a list of what was typed finds; the arrow keys walk the list, Enter takes.

import { el } from "../core/dom.js";

/** @import { Suggestion } from "../core/search.js" */

/**
 * A field with a list of what was typed finds.
 * @typedef {object} SearchField
 * @property {string} id
 * @property {string} label
 * @property {(text: string) => Suggestion[]} suggest
 * @property {(name: string) => void} onTake
 * @property {string} [none] said where nothing is found
 * @property {boolean} [stays] whether the list is always there
 */

/**
 * Make a field with a list of matches: `suggest(text)` gives [{name, shown, hint}], `onTake(name)` is told which was
 * taken. With `stays` the list is always there, else only while the field has the focus. Gives {node, input, label,
 * open()}; `open` fills the list.
 * @param {SearchField} options
 * @returns {{node: HTMLElement, input: HTMLInputElement, label: HTMLLabelElement, open: () => void}}
 */
export function typeAhead({ id, label: text, suggest, onTake, none = "no class of this model", stays = false }) {
  const listId = `${id}-list`;
  const input = el("input", {
    id,
    type: "text",
    autocomplete: "off",
    spellcheck: false,
    role: "combobox",
    "aria-expanded": String(stays),
    "aria-controls": listId,
    "aria-autocomplete": "list",
  });
  const list = el("ul", { id: listId, role: "listbox", "aria-label": "Classes", hidden: !stays });
  const label = el("label", { for: id }, text);
  const node = el("div", { class: "pick" }, label, input, list);
  /** @type {Suggestion[]} */
  let matches = [];
  let at = -1;

  const close = () => {
    at = -1;
    input.removeAttribute("aria-activedescendant");
    if (stays) return;
    list.hidden = true;
    input.setAttribute("aria-expanded", "false");
  };
  /** @param {number} next */
  const select = (next) => {
    at = next;
    [...list.children].forEach((item, i) => item.setAttribute("aria-selected", String(i === at)));
    list.children[at]?.scrollIntoView({ block: "nearest" });
    input.setAttribute("aria-activedescendant", `${id}-${at}`);
  };
  const open = () => {
    matches = suggest(input.value);
    const items = matches.map(({ name, shown, hint }, i) =>
      el(
        "li",
        { id: `${id}-${i}`, role: "option", "aria-selected": "false", data: { label: name } },
        shown,
        hint && el("span", { class: "quiet" }, ` ${hint}`),
      ),
    );
    list.replaceChildren(
      ...(items.length
        ? items
        : [el("li", { class: "none", role: "option", "aria-disabled": "true", "aria-selected": "false" }, none)]),
    );
    const below = innerHeight - input.getBoundingClientRect().bottom;
    node.classList.toggle("up", !stays && below < 300 && input.getBoundingClientRect().top > 300);
    list.hidden = false;
    input.setAttribute("aria-expanded", "true");
    if (matches.length && input.value.trim()) select(0);
    else at = -1;
  };
  /** @param {string} name */
  const take = (name) => {
    input.value = "";
    close();
    onTake(name);
  };
  input.addEventListener("input", open);
  input.addEventListener("focus", () => !stays && open());
  input.addEventListener("blur", close);
  input.addEventListener("keydown", (event) => {
    // Tab would reach the list, which scrolls, and go away with it
    if (event.key === "Escape" || event.key === "Tab") return void close();
    if (event.key === "Enter" && !list.hidden && matches[at]) {
      event.preventDefault();
      return void take(matches[at].name);
    }
    if (event.key !== "ArrowDown" && event.key !== "ArrowUp") return;
    event.preventDefault();
    if (list.hidden) open();
    if (matches.length)
      select((at + (event.key === "ArrowDown" ? 1 : at < 0 ? 0 : -1) + matches.length) % matches.length);
  });
  list.addEventListener("pointerdown", (event) => event.preventDefault()); // the field keeps the focus
  list.addEventListener("click", (event) => {
    const item = event.target instanceof Element && event.target.closest("li");
    if (item && item.dataset.label !== undefined) take(item.dataset.label);
  });
  return { node, input, label, open };
}
