// Two models side by side: a row a method, a column a model, with the patch or word in focus linked by its place in the
// input.

import { answered, el } from "../core/dom.js";
import { Store } from "../core/state.js";
import { aloneOf, targetInWords } from "../core/targets.js";
import { Matrix } from "./matrix.js";
import { colourAll } from "./plate.js";

/**
 * @import { Registry } from "../core/registry.js"
 * @import { ImageInput, Target } from "../core/schemas.js"
 * @import { Focus, Grid, ModelInput, ScoreMap, Started, Unit, Variant } from "../core/types.js"
 * @import { MapPlate } from "../maps/types.js"
 * @import { Base, PlateSetOptions, PlateStores } from "./types.js"
 */

const ROWS = 3; // classes over a column

/**
 * The patch of one view of a picture that lies where patch `at` of another lies; -1 where that view does not see the
 * place. A view is {input: {width, height, crop}, grid}, as the API gives them: what was cropped and how it was cut may
 * differ.
 * @param {number} at
 * @param {{input?: ModelInput, grid?: Grid}} from
 * @param {{input?: ModelInput, grid?: Grid}} to
 * @returns {number}
 */
export function patchAcross(at, from, to) {
  if (at < 0 || !from?.grid || !to?.grid) return -1;
  const [rows, columns] = from.grid;
  const inside = [((at % columns) + 0.5) / columns, (Math.floor(at / columns) + 0.5) / rows];
  /**
   * @param {ImageInput} input
   * @param {number} axis
   */
  const whole = ({ crop, width, height }, axis) =>
    [crop[axis], crop[axis + 2]].map((edge) => edge / (axis ? height : width));
  const [here, there] = /** @type {ImageInput[]} */ ([from.input, to.input]); // only pictures have a grid
  const [x, y] = inside.map((share, axis) => {
    const [low, high] = whole(here, axis);
    const [start, end] = whole(there, axis);
    return (low + share * (high - low) - start) / (end - start);
  });
  if (Math.min(x, y) < 0 || Math.max(x, y) >= 1) return -1;
  return Math.floor(y * to.grid[0]) * to.grid[1] + Math.floor(x * to.grid[1]);
}

/**
 * The unit of one division of a text that shares most characters with unit `at` of another; -1 where there is none.
 * @param {number} at
 * @param {{units?: Unit[]}} from
 * @param {{units?: Unit[]}} to
 * @returns {number}
 */
export function unitAcross(at, from, to) {
  const unit = from?.units?.[at];
  if (!unit || !to?.units) return -1;
  const shared = to.units.map(({ start, end }) => Math.min(end, unit.end) - Math.max(start, unit.start));
  const best = shared.indexOf(Math.max(...shared));
  return shared[best] > 0 ? best : -1;
}

/** A set of plates with a row a method and a column for each of two models, or of two explanations. */
export class ModelPairs extends Matrix {
  /**
   * @type {{name?: string, info?: Started, input?: ModelInput, base?: Base | null, grid?: Grid, units?: Unit[],
   *   registry?: Registry}[]}
   */
  sides = [{}, {}]; // what is known of each model's view
  other = new Store({ at: -1, locked: false }); // the focus of the second column
  /** @type {(label: string) => boolean} whether the second model has a class of this name */
  knows = () => true;
  #linking = false;

  /**
   * @param {HTMLElement} root
   * @param {PlateSetOptions} options
   */
  constructor(root, options) {
    super(root, { ...options, same: "This method gives the same map for every class." });
    this.#link(this.focus, this.other, 0, 1);
    this.#link(this.other, this.focus, 1, 0);
    this.other.follow(() => this.mark(this.focus.value));
  }

  /**
   * @param {Store<Focus> | Store<{at: number, locked: boolean}>} store
   * @param {Store<{at: number, locked: boolean}> | Store<Focus>} linked
   * @param {number} from
   * @param {number} to
   */
  #link(store, linked, from, to) {
    store.follow(({ at, locked }) => {
      if (this.#linking) return;
      this.#linking = true;
      linked.set({ at: this.across(at, from, to), locked });
      this.#linking = false;
    });
  }

  /**
   * The place in one view that corresponds to `at` in the other.
   * @param {number} at
   * @param {number} from
   * @param {number} to
   * @returns {number}
   */
  across(at, from, to) {
    const [here, there] = [this.sides[from], this.sides[to]];
    if (!here.units) return patchAcross(at, here, there);
    return here.base?.text === there.base?.text ? unitAcross(at, here, there) : -1; // two texts share no places
  }

  /**
   * Set the two models by name, with the methods of the second.
   * @param {string} first
   * @param {string} second
   * @param {Registry} registry
   */
  setModels(first, second, registry) {
    if (this.sides[0].name !== first || this.sides[1].name !== second) this.plates = new Map();
    this.sides[0].name = first;
    if (this.sides[1].name !== second) this.sides[1] = { name: second };
    this.sides[1].registry = registry;
    this.setTargets([{ label: first }, { label: second }], []);
  }

  /**
   * Set a model's answer: `info` as the API gives it when an explanation starts.
   * @param {number} side
   * @param {Started} info
   */
  setInfo(side, info) {
    this.sides[side].info = info;
    this.sides[side].input = info.input;
    this.lay();
  }

  /**
   * Set the base that the maps of one model are drawn on.
   * @param {number} side
   * @param {Base | null} base
   */
  setSideBase(side, base) {
    Object.assign(this.sides[side], { base, units: base?.units });
    if (side === 0) this.base = base;
    for (const plate of this.#column(side)) plate.setBase(base);
    this.#follow();
    this.colour();
  }

  /** @param {Base | null} base */
  setBase(base) {
    this.setSideBase(0, base);
  }

  /** Clear both columns for another input. */
  clear() {
    this.setSideBase(1, null);
    super.clear();
  }

  /** @param {number} side */
  #column(side) {
    return this.everyPlate.filter((plate) => plate.target === this.sides[side].name);
  }

  /**
   * @param {string} [target]
   * @returns {any}
   */
  baseOf(target) {
    return this.sides.find((side) => side.name === target)?.base ?? null;
  }

  /**
   * @param {string} [target]
   * @returns {PlateStores}
   */
  storesOf(target) {
    return target === this.sides[1].name ? { ...this.stores, focus: this.other } : this.stores;
  }

  /**
   * The plates of the page's own model, which its status counts.
   * @returns {MapPlate[]}
   */
  get all() {
    return this.#column(0);
  }

  /** @returns {MapPlate[]} */
  get everyPlate() {
    return [...this.plates.values()];
  }

  /** @returns {MapPlate[]} */
  get tested() {
    return this.everyPlate;
  }

  /**
   * @param {ScoreMap} map
   * @param {string} id
   */
  receive(map, id) {
    this.receiveFor(0, map, id);
  }

  /**
   * Show a map of explanation `id` by one of the two models, 0 or 1.
   * @param {number} side
   * @param {ScoreMap} map
   * @param {string} id
   */
  receiveFor(side, map, id) {
    const { name = "", grid } = this.sides[side];
    const plate = this.at(map.method, name);
    if (!plate) return;
    if (map.grid && String(map.grid) !== String(grid)) {
      this.sides[side].grid = map.grid;
      this.#follow();
    }
    this.take(plate, map, id);
    plate.mark((side ? this.other : this.focus).value);
    this.say(plate.variant);
  }

  /** Make the second column follow the focus of the first, once both are there. */
  #follow() {
    const { at, locked } = this.focus.value;
    this.#linking = true;
    this.other.set({ at: this.across(at, 0, 1), locked });
    this.#linking = false;
  }

  close() {
    this.closeSide(0);
  }

  /**
   * Mark the plates that still wait in a column as missing.
   * @param {number} side
   */
  closeSide(side) {
    for (const plate of this.#column(side)) if (plate.node.dataset.state !== "done") plate.state = "missing";
  }

  /**
   * Colour each column by itself: another model's scores are not in the same unit, so a scale is shared by the maps of
   * one model.
   */
  colour() {
    for (const side of [0, 1]) colourAll(this.#column(side), this.view.value.scale);
  }

  /** @param {Focus} value */
  mark(value) {
    for (const plate of this.#column(0)) plate.mark(value);
    for (const plate of this.#column(1)) plate.mark(this.other.value);
  }

  /** Render the plates once there are methods: an empty set would give its room away. */
  lay() {
    if (this.variants.length) super.lay();
  }

  /** @returns {HTMLElement[]} */
  heads() {
    return this.sides.map(({ name, info }, i) => {
      const target = info?.targets[0];
      const wanted = this.sides[0].info?.targets[0];
      const foreign = i === 1 && target && wanted && !this.knows(aloneOf(wanted));
      const top = Array.from({ length: ROWS }, (_, k) => info?.top[k]);
      const line = (/** @type {Target | undefined} */ answer) =>
        el(
          "li",
          {},
          el("span", {}, answer?.label ?? "\u00a0"),
          el("span", { class: "num" }, answer ? answered(answer) : ""),
        );
      const explained = target
        ? `explained: ${targetInWords(target)}${foreign ? `; it has no class “${aloneOf(wanted)}”` : ""}`
        : "\u00a0";
      return el(
        "div",
        { class: "model-head" },
        el("span", { class: "name" }, name),
        el("ul", { class: "says", "aria-label": `What ${name} says` }, top.map(line)),
        el("p", { class: "quiet" }, explained),
      );
    });
  }

  /**
   * @param {Variant} variant
   * @returns {HTMLElement}
   */
  row(variant) {
    const line = super.row(variant);
    const [, second] = this.sides;
    if (second.registry?.runs(variant.spec)) return line;
    const plate = this.at(variant.spec, second.name ?? "");
    const reason = second.registry?.plate(variant.spec)?.reason ?? "The method does not exist for this model.";
    plate?.node.replaceWith(el("p", { class: "quiet cannot" }, `${second.name} cannot be explained by it. ${reason}`));
    for (const [key, other] of this.plates) if (other === plate) this.plates.delete(key);
    return line;
  }
}
