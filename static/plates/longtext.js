// A long text hangs once: a switch says by which method its words are coloured, and the text scrolls in a box of its
// own, so that the tools under it stay within reach.

import { el } from "../core/dom.js";

/**
 * @import { Store } from "../core/state.js"
 * @import { Wall } from "./plate.js"
 */

const LONG = 250; // words: more than these fill a screen in each plate

/** The switch over a wall of plates of one text. */
export class LongText {
  /**
   * `tool` keeps which method is chosen, and is open once one is; the switch is put before `root`, where the plates hang.
   * @param {HTMLElement} root
   * @param {Store<{[name: string]: any}>} tool
   */
  constructor(root, tool) {
    this.root = root;
    this.tool = tool;
    this.wall = null;
    this.bar = el("div", { class: "by-method", role: "group", "aria-label": "Coloured by", hidden: true });
    root.before(this.bar);
    tool.follow(() => this.#turn());
  }

  /**
   * Show one plate of `wall` at a time where the text has many words; null, or a short text: all of them.
   * @param {Wall | null} wall
   * @param {number} words
   */
  show(wall, words) {
    this.wall = wall && words > LONG && wall.all.length > 1 ? wall : null;
    this.bar.hidden = !this.wall;
    this.root.classList.toggle("one-text", Boolean(this.wall));
    this.bar.replaceChildren(
      ...(this.wall?.variants ?? []).map(({ spec, title, description }) =>
        el(
          "button",
          {
            type: "button",
            title: description,
            data: { spec },
            on: { click: () => this.tool.set({ open: true, method: spec }) },
          },
          title,
        ),
      ),
    );
    this.#turn();
  }

  #turn() {
    if (!this.wall) return;
    const plates = this.wall.all;
    const chosen = plates.find(({ variant }) => variant.spec === this.tool.value.method) ?? plates[0];
    const before = plates.find(({ node }) => node.classList.contains("chosen"));
    const at = before?.reading.scrollTop ?? 0; // the same lines stay in sight
    for (const plate of plates) plate.node.classList.toggle("chosen", plate === chosen);
    chosen.reading.scrollTop = at;
    for (const button of this.bar.children)
      button.setAttribute("aria-pressed", String(button.dataset.spec === chosen.variant.spec));
  }
}
