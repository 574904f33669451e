// The switch between patches and pixels, where a method goes back to the pixels.

import { el } from "../core/dom.js";

/**
 * @import { Store } from "../core/state.js"
 * @import { ScoreMap, View } from "../core/types.js"
 */

/** Patches or pixels: two buttons, for all plates that have both. Hidden where a map has no pixels. */
export class LevelSwitch {
  /**
   * @param {Store<View>} view
   * @param {string} name
   */
  constructor(view, name) {
    /** @param {string} level */
    const button = (level) =>
      el(
        "button",
        { type: "button", "aria-pressed": "false", data: { level }, on: { click: () => view.set({ level }) } },
        level,
      );
    this.view = view;
    this.node = el(
      "div",
      { class: "level", role: "group", "aria-label": `${name}: resolution`, hidden: true },
      button("patches"),
      button("pixels"),
    );
  }
  /**
   * Offer the levels that this map has.
   * @param {ScoreMap | null} map
   */
  show(map) {
    this.node.hidden = !map?.pixels;
    this.mark();
  }
  /** Show which of the two is chosen. */
  mark() {
    for (const button of this.node.children)
      button.setAttribute("aria-pressed", String(button.getAttribute("data-level") === this.view.value.level));
  }
}
