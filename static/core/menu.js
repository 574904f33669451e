// Small menus: a button that opens a list of links and actions, or a sheet of controls.

import { el } from "./dom.js";

// A press elsewhere closes what is open. The event "toggle" comes too late to begin listening: a fast press would be
// missed.
document.addEventListener("pointerdown", ({ target }) => {
  for (const node of document.querySelectorAll("details"))
    if (node.matches(".menu[open]") && !(target instanceof Node && node.contains(target))) node.open = false;
});

/**
 * Let Escape close `node`, a details element, and give the focus back to its summary.
 * @param {HTMLDetailsElement} node
 * @param {HTMLElement} summary
 */
function shutting(node, summary) {
  node.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !node.open) return;
    event.stopPropagation();
    node.open = false;
    summary.focus();
  });
  return node;
}

/**
 * Make a menu whose items are made each time it is opened. `items()` gives what it holds: {text, href, download?} for a
 * link, {text, run} for an action; choosing one closes it, too.
 * @param {string} text
 * @param {string} name
 * @param {() => {text: string, href?: string, download?: string, run?: () => void}[]} items
 * @returns {HTMLDetailsElement}
 */
export function menu(text, name, items) {
  const list = el("ul");
  const summary = el("summary", { "aria-label": name }, text);
  const node = shutting(el("details", { class: "menu" }, summary, list), summary);
  const close = () => (node.open = false);
  /** @param {{text: string, href?: string, download?: string, run?: () => void}} item */
  const item = ({ text: shown, href, download, run }) =>
    el(
      "li",
      {},
      href
        ? el("a", { href, download: download ?? "", on: { click: () => close() } }, shown)
        : el(
            "button",
            {
              type: "button",
              on: {
                click: () => {
                  close();
                  summary.focus();
                  run?.();
                },
              },
            },
            shown,
          ),
    );
  summary.addEventListener("click", () => {
    if (node.open) return; // it closes now
    const entries = items();
    list.replaceChildren(
      ...(entries.length ? entries.map(item) : [el("li", { class: "quiet" }, "Nothing is there yet.")]),
    );
  });
  return node;
}

/**
 * Controls behind a button; they stay as they are when it is closed.
 * @param {string} text
 * @param {string} name
 * @param {...(Node | string)} controls
 * @returns {HTMLDetailsElement}
 */
export function sheet(text, name, ...controls) {
  const summary = el("summary", { "aria-label": name }, text);
  return shutting(
    el(
      "details",
      { class: "menu" },
      summary,
      el("div", { class: "knobs", role: "group", "aria-label": name }, controls),
    ),
    summary,
  );
}
