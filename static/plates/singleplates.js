// A map next to those of the page: a plate as on the page, that follows the same focus and the same controls.

import { say } from "../core/dom.js";
import { MoleculePlate } from "./molecule.js";
import { colourAll, Plate } from "./plate.js";
import { WordPlate } from "./words.js";

/**
 * @import { Grid, Variant } from "../core/types.js"
 * @import { MapPlateSet, WorkbenchView } from "./types.js"
 */

/**
 * The base of maps for `target`: the grey picture, or {text, units}; each prompt has its own words.
 * @param {{plateSet: MapPlateSet}} options
 * @param {string | undefined} target
 * @returns {any}
 */
export const baseOf = ({ plateSet }, target) =>
  (target === undefined ? null : plateSet.baseOf?.(target)) ?? plateSet.base;

/** Maps that are not stored, shown next to those of the page. */
export class SinglePlates {
  /** @type {(Plate | WordPlate)[]} */
  #plates = [];

  /**
   * The plates of one group share a scale where the page's scale is shared.
   * @param {WorkbenchView} workbench
   */
  constructor(workbench) {
    this.workbench = workbench;
    workbench.view.follow((now, before) => {
      if (now.grain !== before.grain) this.rebase();
      this.colour();
    });
    workbench.focus.follow((value) => this.#plates.forEach((plate) => plate.mark(value)));
  }

  /**
   * A plate with `caption` above it, of a map for `target`. `variant` is {title, signed, readout, rule} and what else a
   * caption shows.
   * @param {Variant} variant
   * @param {string} caption
   * @param {string} [target]
   * @returns {Plate | WordPlate}
   */
  make(variant, caption, target) {
    const stores = {
      focus: this.workbench.focus,
      view: this.workbench.view,
      onRead: (/** @type {string} */ text) => say("reading", text),
    };
    const base = baseOf(this.workbench, target);
    const make = base?.molecule ? MoleculePlate : base?.units ? WordPlate : Plate;
    const plate = new make(variant, stores, caption);
    plate.actions.node.remove(); // it is not stored, so there is nothing to fetch
    plate.setBase(base);
    return plate;
  }

  /**
   * Show these plates, [plate, map] each, and forget the others.
   * @param {any[][]} pairs
   */
  show(pairs) {
    this.#plates = pairs.map(([plate]) => plate);
    for (const [plate, map] of pairs) plate.show(map);
    this.colour();
    for (const plate of this.#plates) plate.mark(this.workbench.focus.value);
  }

  /**
   * Show one map of the inside of the model, without the facts that a method's map has, and forget the others.
   * @param {string} caption
   * @param {{scores: number[], grid?: Grid | null, signed: boolean, target: string}} map
   * @param {number[]} [content] the scores of patches or words alone
   * @returns {Plate | WordPlate}
   */
  showInside(caption, { scores, grid, signed, target }, content = scores) {
    const inside = { readout: "inside", signed };
    const range = [Math.min(...content), Math.max(...content)];
    const variant = { ...inside, title: caption, spec: "inside", rule: null, class_specific: true };
    const plate = this.make(variant, caption, target);
    plate.facts.node.remove();
    this.show([[plate, { ...inside, method: "inside", scores, grid: grid ?? undefined, target, range, notes: [] }]]);
    return plate;
  }

  /** Set the base again, for another input or another division of the text. */
  rebase() {
    for (const plate of this.#plates) plate.setBase(baseOf(this.workbench, plate.map?.target));
  }

  /** Give the plates their colours again. */
  colour() {
    colourAll(this.#plates, this.workbench.view.value.scale);
  }
}
