// One plate at full size, in a dialog: the same map under the same controls, with the patch in focus linked to every
// other plate.

import { limits } from "../core/colour.js";
import { el, addStyleSheet } from "../core/dom.js";
import { coverPatches, paperColour, strikeWords } from "../maps/tokenremoval.js";
import { largeBase } from "../maps/largebase.js";
import { withoutPixels } from "../maps/pixelvalues.js";

/**
 * @import { Focus } from "../core/types.js"
 * @import { MapPlate } from "../maps/types.js"
 */

const WIDTH = 1344; // pixels of the canvas
/**
 * The plates that can be shown at full size, in the order of the page. `plateOf` gives the plate of a node.
 * @param {(node: Element) => any} plateOf
 */
const shown = (plateOf) =>
  [...document.querySelectorAll("#plates .plate[data-state=done]")]
    .filter((node) => node.checkVisibility())
    .map(plateOf)
    .filter((plate) => plate?.map);

/**
 * Show `plate` at full size until the dialog is closed; `plateOf` gives the plate of a node of the page.
 * @param {MapPlate} plate
 * @param {(node: Element) => MapPlate | undefined} plateOf
 * @returns {Promise<void>}
 */
export async function zoom(plate, plateOf) {
  await addStyleSheet("workbench/zoom.css");
  new Zoom(plate, plateOf);
}

class Zoom {
  /** @type {(() => void)[]} */
  #leave = [];

  /**
   * @param {MapPlate} plate
   * @param {(node: Element) => MapPlate | undefined} plateOf
   */
  constructor(plate, plateOf) {
    this.plateOf = plateOf;
    this.place = el("div", { class: "whole" });
    this.count = el("span", { class: "quiet num", role: "status" });
    this.lost = el("span", { class: "quiet" });
    /**
     * @param {number} by
     * @param {string} text
     * @param {string} name
     */
    const step = (by, text, name) =>
      el(
        "button",
        { type: "button", class: "act plain", "aria-label": name, on: { click: () => this.#step(by) } },
        text,
      );
    this.steps = [step(-1, "←", "The plate before"), step(1, "→", "The next plate")];
    const close = el("button", { type: "button", class: "act", on: { click: () => this.dialog.close() } }, "Close");
    this.dialog = el(
      "dialog",
      { class: "zoom" },
      el("div", { class: "bar" }, this.steps, this.count, this.lost, close),
      this.place,
    );
    this.dialog.addEventListener("keydown", (event) => this.#key(event), true);
    this.dialog.addEventListener("close", () => this.#end());
    (document.querySelector("main") ?? document.body).append(this.dialog); // the style of maps is that of their page
    this.dialog.showModal();
    this.#show(plate);
  }

  /**
   * Handle keys: Escape closes, and what is held stays held; Page Up and Page Down go from plate to plate.
   * @param {KeyboardEvent} event
   */
  #key(event) {
    if (event.key === "Escape") event.stopPropagation();
    const by = { PageUp: -1, PageDown: 1 }[event.key];
    if (!by) return;
    event.preventDefault();
    this.#step(by);
  }

  /** @param {number} by */
  #step(by) {
    const plates = shown(this.plateOf);
    const at = plates.indexOf(this.plate);
    const next = plates[(at + by + plates.length) % plates.length];
    if (at >= 0 && next) this.#show(next);
  }

  /** @param {any} plate */
  #show(plate) {
    this.#release();
    this.plate = plate;
    const { focus, view, onRead } = plate.stores;
    const large = new plate.constructor(
      plate.variant,
      {
        focus,
        view,
        onRead: (/** @type {string} */ text) => {
          this.count.textContent = text;
          onRead?.(text);
        },
        width: WIDTH,
      },
      plate.target,
    );
    this.large = large;
    large.node.querySelector(".options")?.remove(); // they are set on the page, where the map that they make will be
    large.setBase(plate.base);
    this.#follow();
    this.#draw();
    this.place.replaceChildren(large.node);
    if (large.mapCanvas && !plate.map.pixels)
      large.level.node.replaceWith(el("p", { class: "quiet" }, withoutPixels(plate.variant)));
    this.dialog.setAttribute("aria-label", large.name);
    const plates = shown(this.plateOf);
    const at = plates.indexOf(plate);
    this.count.textContent = at < 0 ? "" : `${at + 1} of ${plates.length}`;
    for (const button of this.steps) button.hidden = at < 0 || plates.length < 2;
    (large.node.querySelector("[role=application]") ?? this.dialog).focus();
    if (plate.base?.getContext && plate.actions.id) this.#refine(plate);
  }

  /** Draw the map that the plate has now, which another explanation may have changed, in the plate's colours. */
  #draw() {
    const { plate, large } = this;
    if (!plate.map) return void this.dialog.close();
    if (large.map !== plate.map) large.show(plate.map, plate.actions.id);
    // where its pixels come before those of the plate
    large.recolour = () => large.colour(limits([large.scaled ?? large.values], plate.variant.signed));
    if (large.mapCanvas) large.mapCanvas.pixels ??= plate.mapCanvas.pixels;
    large.colour(plate.ends);
    large.mark(plate.stores.focus.value);
    this.#applyRemoval();
  }

  /** Remove what the deletion test removed from the plate, and show the model's answer then. */
  #applyRemoval() {
    const { plate, large } = this;
    const { removed, of, parts, which, resultLine } = plate.removal ?? { removed: new Set() };
    if (!large.mapCanvas) strikeWords(large, removed);
    else if (removed.size || large.mapCanvas.node.querySelector(".cover"))
      coverPatches(large.mapCanvas, plate.map.grid, removed, paperColour(this.dialog));
    this.lost.textContent = removed.size
      ? [`${which} removed: ${removed.size} of ${of} ${parts}`, resultLine].filter(Boolean).join(" · ")
      : "";
  }

  /**
   * Load a finer picture in place of the small one; without it the small one stays.
   * @param {any} plate
   */
  async #refine(plate) {
    const base = await largeBase(plate.actions.id).catch(() => null);
    if (base && this.plate === plate) this.large.setBase(base);
  }

  #follow() {
    const { plate } = this;
    const { focus, view } = plate.stores;
    const watch = new MutationObserver(() => this.#draw());
    watch.observe(plate.node, { attributes: true, attributeFilter: ["data-state"] });
    this.#leave = [
      view.follow(() => this.#draw()),
      focus.follow((/** @type {Focus} */ value) => this.large.mark(value)),
      () => watch.disconnect(),
    ];
  }

  #release() {
    for (const leave of this.#leave) leave();
    this.#leave = [];
  }

  #end() {
    this.#release();
    this.dialog.remove();
    (this.plate.node.querySelector("[role=application]") ?? this.plate.node).focus();
  }
}
