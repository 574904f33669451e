// A long text is shown once: a switch says by which method its words are coloured, and the text scrolls in a box of its
// own, so that the tools under it stay within reach.

import { el } from "../core/dom.js";

/**
 * @import { Store } from "../core/state.js"
 * @import { PlateSet } from "./plate.js"
 */

/** The switch over the plates of one text. */
export class LongText {
  /**
   * `tool` keeps which method is chosen, and is open once one is; the switch is put before `root`, where the plates are.
   * @param {HTMLElement} root
   * @param {Store<{[name: string]: any}>} tool
   */
  constructor(root, tool) {
    this.root = root;
    this.tool = tool;
    this.plateSet = null;
    this.bar = el("div", { class: "by-method", role: "group", "aria-label": "Coloured by", hidden: true });
    root.before(this.bar);
    tool.follow(() => this.#showOne());
  }

  /**
   * Show one plate of `plateSet` at a time; null: all plates, as of a short text.
   * @param {PlateSet | null} plateSet
   */
  show(plateSet) {
    this.plateSet = plateSet && plateSet.all.length > 1 ? plateSet : null;
    this.bar.hidden = !this.plateSet;
    this.root.classList.toggle("one-text", Boolean(this.plateSet));
    this.bar.replaceChildren(
      ...(this.plateSet?.variants ?? []).map(({ spec, title, description }) =>
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
    this.#showOne();
  }

  #showOne() {
    if (!this.plateSet) return;
    const plates = this.plateSet.all;
    const chosen = plates.find(({ variant }) => variant.spec === this.tool.value.method) ?? plates[0];
    const before = plates.find(({ node }) => node.classList.contains("chosen"));
    const at = before?.reading?.scrollTop ?? 0; // the same lines stay in sight
    for (const plate of plates) plate.node.classList.toggle("chosen", plate === chosen);
    if (chosen.reading) chosen.reading.scrollTop = at;
    for (const button of this.bar.querySelectorAll("button"))
      button.setAttribute("aria-pressed", String(button.dataset.spec === chosen.variant.spec));
  }
}
