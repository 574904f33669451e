// A plate and a set of plates: all the same size, in a fixed order, there before their maps arrive.

import { limits } from "../core/colour.js";
import { el, svg } from "../core/dom.js";
import { plateName } from "../core/registry.js";
import { mapMenu } from "../export/export.js";
import { DeletionFacts } from "../maps/deletionfacts.js";
import { MapCanvas } from "../maps/mapcanvas.js";
import {
  AboutButton,
  byLine,
  Facts,
  heading,
  Notes,
  plainLine,
  sameNote,
  Scale,
  remarks,
  standingLine,
  PlateActions,
} from "../maps/caption.js";
import { LevelSwitch } from "../maps/pixels.js";
import { MapSentence, pictureInWords, showSentences } from "../maps/summary.js";
import { PlateGroups } from "./plategroups.js";

/**
 * @import { Ends } from "../core/colour.js"
 * @import { Focus, ScoreMap, Variant, View } from "../core/types.js"
 * @import { Drawable, MapPlate } from "../maps/types.js"
 * @import { Base, PlateMaker, PlateSetOptions, PlateStores } from "./types.js"
 */

const ARROWS = "M8.5 2H12v3.5M12 2 8 6M5.5 12H2V8.5M2 12l4-4"; // from the middle to two corners
const plates = new WeakMap(); // node -> plate

/**
 * Make a button that shows a plate at full size, next to its colour bar; Enter on the map does the same. `enlarged` is
 * the part that takes the keyboard.
 * @param {MapPlate} plate
 * @param {HTMLElement} enlarged
 * @returns {HTMLButtonElement}
 */
export function enlarge(plate, enlarged) {
  plates.set(plate.node, plate);
  const open = async () => plate.map && (await import("./zoom.js")).zoom(plate, (node) => plates.get(node));
  enlarged.addEventListener("keydown", (event) => event.target === enlarged && event.key === "Enter" && open());
  return el(
    "button",
    {
      type: "button",
      class: "enlarge",
      "aria-label": `${plate.name}: full size`,
      title: "Full size",
      on: { click: open },
    },
    svg("svg", { viewBox: "0 0 14 14", "aria-hidden": "true" }, svg("path", { d: ARROWS })),
  );
}

/**
 * One map with its caption. `state` is waiting (no map yet), stale (an older map while a new one is made), done or
 * missing.
 */
export class Plate {
  /**
   * With `target`, the plate is one of a row of maps of the same method, and its caption shows only what differs in the
   * row.
   * @param {Variant} variant
   * @param {PlateStores} stores
   * @param {string | null} [target]
   */
  constructor(variant, stores, target = null) {
    this.variant = variant;
    this.target = target;
    this.stores = stores;
    this.name = target === null ? plateName(variant) : `${plateName(variant)}, ${target}`;
    this.mapCanvas = new MapCanvas({ name: this.name, ...stores });
    this.scale = new Scale(variant);
    this.level = new LevelSwitch(stores.view, this.name);
    this.sentence = new MapSentence(this.mapCanvas.node);
    this.facts = new Facts(variant, target !== null);
    this.notes = target === null ? new Notes(sameNote(variant, stores.same)) : null; // a row of maps has them once
    this.actions = new PlateActions(variant, mapMenu(this), () => this.map, target === null);
    // a row of maps says it at its left
    this.about = target === null ? new AboutButton(this.name, () => this.node) : null;
    this.deletion = target === null ? null : new DeletionFacts(); // in a row its room is kept, as no words lie there
    const above =
      target === null
        ? [
            this.mapCanvas.node,
            heading(variant),
            standingLine(variant),
            plainLine(variant),
            el("p", { class: "by", title: byLine(variant) }, byLine(variant)),
          ]
        : [el("p", { class: "caption" }, target), this.mapCanvas.node];
    this.node = el(
      "article",
      { class: "plate", data: { spec: variant.spec } },
      above,
      this.level.node,
      this.scale.node,
      this.facts.node,
      this.sentence.node,
      this.notes?.node,
      this.deletion?.node,
      this.actions.node,
    );
    this.scale.node.append(el("div", { class: "buttons" }, this.about?.node, enlarge(this, this.mapCanvas.node)));
    this.show(null);
  }

  /** @returns {ScoreMap | null} */
  get map() {
    return /** @type {ScoreMap | null} */ (this.mapCanvas.map);
  }

  /**
   * The base that the map is drawn on; null while it is not known.
   * @returns {OffscreenCanvas | null}
   */
  get base() {
    return this.mapCanvas.base;
  }

  /**
   * The values at the two ends of the colours.
   * @returns {Ends}
   */
  get ends() {
    return this.mapCanvas.ends;
  }

  /**
   * The view: how the map is shown.
   * @returns {View}
   */
  get look() {
    return this.mapCanvas.view.value;
  }

  /**
   * The scores that the colours show.
   * @returns {number[]}
   */
  get values() {
    return this.mapCanvas.look(this.look)[0]?.scores ?? [];
  }

  /** @param {"waiting" | "stale" | "done" | "missing"} state */
  set state(state) {
    this.node.dataset.state = state;
    this.node.setAttribute("aria-busy", String(state === "waiting" || state === "stale"));
  }

  /**
   * Show a map of explanation `id`; null removes it.
   * @param {ScoreMap | null} map
   * @param {string} [id]
   */
  show(map, id) {
    const drawable = /** @type {(ScoreMap & Drawable) | null} */ (map);
    this.mapCanvas.setMap(drawable);
    this.#describe();
    this.facts.show(map);
    this.level.show(map);
    this.actions.id = (map && id) ?? null;
    const known = remarks(map ? [map] : []);
    this.notes?.show(known);
    this.about?.warn(known.isDoubtful);
    if (!map) this.scale.show(null);
    this.state = map ? "done" : "waiting";
  }

  /**
   * Set the picture under the map; null while it is not known.
   * @param {OffscreenCanvas | null} base
   */
  setBase(base) {
    this.mapCanvas.setBase(base);
    this.#describe();
  }

  /** Describe the map in words. */
  #describe() {
    const { map, sheet } = this.mapCanvas;
    this.sentence.show(map ? pictureInWords(/** @type {ScoreMap & Drawable} */ (map), sheet) : "");
  }

  /**
   * Draw the map with these ends of the colours.
   * @param {Ends} ends
   */
  colour(ends) {
    this.level.mark();
    this.#refine();
    this.mapCanvas.ends = ends;
    if (this.map) this.scale.show(ends, this.look, this.values);
    this.mapCanvas.draw();
  }

  /** Fetch the map of the pixels when it is first asked for, and colour the plate again once it is there. */
  async #refine() {
    const { map } = this;
    if (!map?.pixels || this.look.level !== "pixels" || this.mapCanvas.pixels || !this.actions.id) return;
    const { id } = this.actions;
    const { pixelsOf } = await import("../maps/pixelvalues.js");
    const pixels = await pixelsOf(map, id).catch(() => null); // without them the patches stay
    if (!pixels || this.map !== map || this.mapCanvas.pixels) return;
    this.mapCanvas.pixels = pixels;
    this.recolour();
  }

  /** Give the plate its colours again; a set that shares a scale does it for all. */
  recolour() {
    colourAll([this], "own");
  }

  /**
   * Show the focus.
   * @param {Focus} value
   */
  mark(value) {
    this.mapCanvas.mark(value);
  }
}

/** @param {MapPlate} plate */
const scaledOf = (plate) => plate.scaled ?? plate.values; // only words may have an attention sink

/**
 * Give every plate the ends of its colours: its own, or those shared by all maps of the same method (the same
 * formula, so the same unit).
 * @param {MapPlate[]} plates
 * @param {string} scale
 */
export function colourAll(plates, scale) {
  const shared = new Map();
  for (const plate of plates) {
    const { readout } = plate.variant;
    if (plate.map) shared.set(readout, [...(shared.get(readout) ?? []), scaledOf(plate)]);
  }
  for (const plate of plates) {
    if (!plate.map) plate.colour([0, 0]);
    else
      plate.colour(
        limits(scale === "shared" ? shared.get(plate.variant.readout) : [scaledOf(plate)], plate.variant.signed),
      );
  }
}

/** @param {MapPlate} mapPlate */
const specOf = ({ variant }) => variant.spec;

/**
 * Return whether a plate was made for the same variant: ranks, reasons and bounds are another model's otherwise.
 * @param {MapPlate} plate
 * @param {Variant} variant
 * @returns {boolean}
 */
const saysOf = (plate, variant) => JSON.stringify(plate.variant) === JSON.stringify(variant);

/** The plates of a page, a method each. */
export class PlateSet {
  /**
   * @param {HTMLElement} root
   * @param {PlateSetOptions} options
   */
  constructor(
    root,
    { focus, view, onRead, makePlate = (variant, stores, target) => new Plate(variant, stores, target) },
  ) {
    /** @type {PlateMaker} */
    const make = (...what) => Object.assign(makePlate(...what), { recolour: () => this.colour() });
    this.root = root;
    this.focus = focus;
    this.view = view;
    this.makePlate = make;
    this.stores = { focus, view, onRead };
    /** @type {Map<string, any>} */
    this.plates = new Map();
    /** @type {Variant[]} */
    this.variants = []; // the methods that it shows
    this.base = null;
    this.groups = new PlateGroups(view);
    view.follow(() => this.colour());
    showSentences(root, view);
    focus.follow((value) => this.mark(value));
  }

  /**
   * The plates of the page's own maps, which its status counts.
   * @returns {MapPlate[]}
   */
  get all() {
    return [...this.plates.values()];
  }

  /**
   * The plates that the deletion test removes tokens from.
   * @returns {MapPlate[]}
   */
  get tested() {
    return this.all;
  }

  /**
   * Every plate: those of maps, and where a set has them those that are computed from several maps.
   * @returns {MapPlate[]}
   */
  get everyPlate() {
    return this.all;
  }

  /**
   * The methods whose maps are all there.
   * @returns {Variant[]}
   */
  get shown() {
    const open = new Set(this.all.filter((plate) => plate.node.dataset.state !== "done").map(specOf));
    return this.variants.filter(({ spec }) => !open.has(spec));
  }

  /**
   * Show these variants in this order. Plates that are already there keep their map, marked stale, until the new one
   * arrives. Where they are the `usual` ones, nobody asked for each, and all but the best are folded. `rather`: it is
   * asked why one answer rather than another.
   * @param {Variant[]} variants
   * @param {boolean} [usual]
   * @param {boolean} [rather]
   */
  expect(variants, usual = false, rather = false) {
    const before = this.plates;
    this.variants = variants;
    this.groups.isFoldable = usual;
    this.groups.isContrast = rather;
    this.plates = new Map(variants.map((variant) => [variant.spec, this.#keep(before.get(variant.spec), variant)]));
    for (const plate of this.all) plate.state = plate.map ? "stale" : "waiting";
    const nodes = this.groups.nodes(variants, ({ spec }) => this.plates.get(spec).node);
    const same = nodes.length === this.root.children.length && nodes.every((node, i) => node === this.root.children[i]);
    if (!same) this.root.replaceChildren(...nodes);
  }

  /** Stop listening, as another set replaces this one. */
  leave() {
    this.plates = new Map();
  }

  /** Clear the plates for another picture or text: the old maps and the old picture do not belong to it. */
  clear() {
    this.setBase(null);
    for (const plate of this.everyPlate) plate.show(null);
    for (const variant of this.variants) this.groups.doubt(variant.spec, false);
    this.mark(this.focus.value);
  }

  /**
   * Set the picture under every map.
   * @param {Base | null} base
   */
  setBase(base) {
    this.base = base;
    for (const plate of this.everyPlate) plate.setBase(base);
  }

  /**
   * Show a map of explanation `id`, where there is a plate for it.
   * @param {ScoreMap} map
   * @param {string} id
   */
  receive(map, id) {
    const plate = this.plates.get(map.method);
    if (plate) this.take(plate, map, id);
  }

  /**
   * Show a map on its plate, in its colours.
   * @param {MapPlate} plate
   * @param {ScoreMap} map
   * @param {string} [id]
   */
  take(plate, map, id) {
    plate.show(map, id);
    this.judgeMaps(plate.variant);
    if (this.view.value.scale === "shared") this.colour();
    else colourAll([plate], "own");
    plate.mark(this.focus.value);
  }

  /**
   * Take note of whether the maps of a method can be trusted for this input.
   * @param {Variant} variant
   */
  judgeMaps({ spec }) {
    const maps = this.all.filter((plate) => specOf(plate) === spec && plate.map);
    this.groups.doubt(
      spec,
      maps.some(({ map }) => map?.doubtful),
    );
  }

  /** Mark the plates that still wait as missing. */
  close() {
    for (const plate of this.everyPlate) if (plate.node.dataset.state !== "done") plate.state = "missing";
  }

  /** Give every plate its colours again. */
  colour() {
    colourAll(this.everyPlate, this.view.value.scale);
  }

  /**
   * Show the focus on every plate.
   * @param {Focus} value
   */
  mark(value) {
    for (const plate of this.everyPlate) plate.mark(value);
  }

  /**
   * Return the plate that was there for a method, while what it says of the method holds; else a new one with its map.
   * @param {MapPlate | undefined} before
   * @param {Variant} variant
   */
  #keep(before, variant) {
    if (before && saysOf(before, variant)) return before;
    const plate = this.#make(variant);
    if (before?.map) this.take(plate, before.map, before.actions.id ?? undefined);
    return plate;
  }

  /** @param {Variant} variant */
  #make(variant) {
    const plate = this.makePlate(variant, this.stores);
    plate.setBase(this.base);
    return plate;
  }
}
