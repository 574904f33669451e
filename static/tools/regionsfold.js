// What lies folded over the plates of the Prompt page, and is fetched and drawn only when it is opened: the
// regions of the prompts.

import { el } from "../core/dom.js";

/**
 * @import { Target } from "../core/schemas.js"
 * @import { WorkbenchView } from "../plates/types.js"
 * @import { Regions } from "./regions.js"
 */

/** The regions of the prompts, folded. */
export class RegionsFold {
  /** @type {Regions | null} */
  #drawing = null;
  /** @type {Target[]} */
  #targets = [];
  /** @type {OffscreenCanvas | null} */
  #base = null;

  /** @param {WorkbenchView} workbench */
  constructor(workbench) {
    const { view } = workbench;
    this.workbench = workbench;
    this.body = el("div");
    this.node = el(
      "details",
      { class: "regions", open: view.value.regions !== "" },
      el("summary", {}, el("b", {}, "Regions"), ": which prompt wins where"),
      this.body,
    );
    this.node.addEventListener("toggle", () => this.#toggle());
  }

  /**
   * The prompts that are explained.
   * @param {Target[]} targets
   */
  show(targets) {
    this.#targets = targets;
    this.draw();
  }

  /**
   * Set the grey picture.
   * @param {OffscreenCanvas | null} base
   */
  setBase(base) {
    this.#base = base;
    this.#drawing?.setBase(base);
  }

  /** Draw what there is, where it is open. */
  draw() {
    if (this.node.open && !this.node.hidden) this.#drawing?.draw(this.#targets);
  }

  async #toggle() {
    const { view } = this.workbench;
    if (!this.node.open) return void view.set({ regions: "" });
    if (!this.#drawing) {
      const { Regions } = await import("./regions.js");
      this.#drawing ??= new Regions(this.body, this.workbench);
      this.#drawing.setBase(this.#base);
    }
    this.draw();
    if (this.#drawing.spec && this.#drawing.spec !== view.value.regions) this.#drawing.choose(this.#drawing.spec);
  }
}
