// A small menu: a button that opens a list of links and actions, made anew each time it is opened.

import { el } from "./dom.js";

/**
 * `items()` gives what the list holds: {text, href, download?} for a link, {text, run} for an action.
 * Escape, a click elsewhere, and choosing close it.
 */
export function menu(text, name, items) {
  const list = el("ul");
  const summary = el("summary", { "aria-label": name }, text);
  const node = el("details", { class: "menu" }, summary, list);
  const close = () => (node.open = false);
  const away = (event) => node.contains(event.target) || close();
  const item = ({ text: shown, href, download, run }) =>
    el("li", {}, href ? el("a", { href, download: download ?? "", on: { click: () => close() } }, shown) : el("button", { type: "button", on: { click: () => { close(); summary.focus(); run(); } } }, shown));
  summary.addEventListener("click", () => {
    if (node.open) return; // it closes now
    const found = items();
    list.replaceChildren(...(found.length ? found.map(item) : [el("li", { class: "quiet" }, "Nothing is there yet.")]));
    document.addEventListener("pointerdown", away);
  });
  node.addEventListener("toggle", () => node.open || document.removeEventListener("pointerdown", away));
  node.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !node.open) return;
    event.stopPropagation();
    close();
    summary.focus();
  });
  return node;
}
