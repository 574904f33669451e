// Methods by classes or prompts: one row a method, one column a class; at narrow width the row wraps under the method's
// name.

import { el } from "../core/dom.js";
import { withTerms } from "../help/terms.js";
import { ruleName } from "../core/rules.js";
import { byLine, heading, Notes, optionsButton, plainLine, remarks, sameNote, standingLine } from "../maps/caption.js";
import { PlateSet } from "./plate.js";

/**
 * @import { ScoreMap, Variant } from "../core/types.js"
 * @import { MapPlate } from "../maps/types.js"
 * @import { PlateSetOptions, PlateStores } from "./types.js"
 */

/**
 * @param {string} spec
 * @param {string} target
 */
const key = (spec, target) => `${spec}\n${target}`;
const SAME = "This method gives the same map for every prompt.";

/** A set of plates with a row a method and a column a class or prompt. */
export class Matrix extends PlateSet {
  /** @type {string[]} */
  targets = [];
  /** @type {boolean[]} */
  unfound = []; // of each target, whether its maps are about nothing
  notes = new Map(); // spec -> what is to be known of the maps of its row

  /**
   * `same` is the note on methods whose map does not depend on the column.
   * @param {HTMLElement} root
   * @param {{same?: string} & PlateSetOptions} options
   */
  constructor(root, { same = SAME, ...options }) {
    super(root, options);
    this.same = same;
  }

  /**
   * Set the columns: {label} of each class or prompt, with the model's answer in `targetLines`. The maps of columns that
   * are `unfound`, in the same order, are drawn pale.
   * @param {{label: string}[]} targets
   * @param {string[]} [targetLines]
   * @param {boolean[]} [unfound]
   */
  setTargets(targets, targetLines, unfound = []) {
    this.unfound = unfound;
    const labels = targets.map((target) => target.label);
    this.targetLines = targetLines;
    this.targets = labels;
    this.lay();
  }

  /**
   * The base that the plates of a column are drawn on.
   * @type {(target?: string) => any}
   */
  baseOf() {
    return this.base;
  }

  /**
   * The stores that the plates of a column share.
   * @type {(target?: string) => PlateStores}
   */
  storesOf() {
    return this.stores;
  }

  /**
   * The plate of a method and a column.
   * @param {string} spec
   * @param {string} target
   * @returns {MapPlate | undefined}
   */
  at(spec, target) {
    return this.plates.get(key(spec, target));
  }

  /**
   * Make a row for each of these, in this order; see PlateSet.
   * @param {Variant[]} variants
   * @param {boolean} [usual]
   * @param {boolean} [rather]
   */
  expect(variants, usual = false, rather = false) {
    this.variants = variants;
    this.groups.isFoldable = usual;
    this.groups.isContrast = rather;
    for (const plate of this.everyPlate) plate.state = plate.map ? "stale" : "waiting";
    this.lay();
  }

  /**
   * Show a map of explanation `id`.
   * @param {ScoreMap} map
   * @param {string} id
   */
  receive(map, id) {
    const plate = this.at(map.method, map.target);
    if (!plate) return;
    this.take(plate, map, id);
    this.say(plate.variant);
  }

  /**
   * Show the warnings about the maps of a row, once each, under the method's name.
   * @param {Variant} variant
   */
  say(variant) {
    const maps = this.targets.flatMap((target) => this.at(variant.spec, target)?.map ?? []);
    this.notes.get(variant.spec).show(remarks(maps));
  }

  /** Render the rows and columns again; plates that were there stay. */
  lay() {
    const { plates: before } = /** @type {PlateSet} */ (this);
    this.plates = new Map();
    for (const variant of this.variants) {
      for (const target of this.targets) {
        const name = key(variant.spec, target);
        const plate = before.get(name) ?? this.makePlate(variant, this.storesOf(target), target);
        if (!before.has(name)) plate.setBase(this.baseOf(target));
        plate.node.classList.toggle("unfound", Boolean(this.unfound[this.targets.indexOf(target)]));
        this.plates.set(name, plate);
      }
    }
    const heads = this.heads();
    const head = el("div", { class: "line head" }, el("span"), heads);
    const matrix = el(
      "div",
      { class: "matrix" },
      heads.length ? head : null,
      this.groups.nodes(this.variants, (variant) => this.row(variant)),
    );
    matrix.style.setProperty("--n", String(Math.max(1, heads.length)));
    this.root.replaceChildren(matrix);
  }

  /**
   * Make the headings of the columns.
   * @returns {HTMLElement[]}
   */
  heads() {
    return this.targets.map((target, i) =>
      el(
        "div",
        { class: this.unfound[i] ? "unfound" : "" },
        el("span", { class: "name" }, target),
        el("span", { class: "num" }, withTerms(this.targetLines?.[i] ?? "\u00a0")),
      ),
    );
  }

  /**
   * Make the row of a method: its caption, and a plate for each column.
   * @param {Variant} variant
   * @returns {HTMLElement}
   */
  row(variant) {
    const cells = this.targets.map((target) => this.at(variant.spec, target)?.node);
    const notes = new Notes(sameNote(variant, this.same));
    this.notes.set(variant.spec, notes);
    this.say(variant);
    const caption = el(
      "div",
      { class: "row-caption" },
      heading(variant),
      standingLine(variant),
      plainLine(variant),
      el("p", { class: "by" }, byLine(variant)),
      el("p", { class: "by num" }, variant.rule ? `rule ${ruleName(variant.rule)}` : "no rule needed"),
      optionsButton(variant),
      notes.node,
    );
    return el("div", { class: "line", data: { row: variant.spec } }, caption, cells);
  }
}
