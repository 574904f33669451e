// A plate and the wall of plates: all the same size, in a fixed order, there before their maps arrive.

import { limits } from "./colour.js";
import { el } from "./dom.js";
import { mapMenu } from "./export.js";
import { Face } from "./face.js";
import { byLine, Facts, heading, Notes, ruleName, Scale, standing, Take, warnings } from "./label.js";
import { pictureInWords, tellIn, Told } from "./summary.js";

/** The name by which a screen reader tells maps apart. */
export const plateName = ({ title, rule }) => (rule && !title.includes("·") ? `${title}, rule ${ruleName(rule)}` : title);

/** One map with its label. `state` is waiting (no map yet), stale (an older map while a new one is made), done or missing. */
export class Plate {
  /** With `target`, the plate is one of a row of maps of the same method, and its label says only what differs in the row. */
  constructor(variant, stores, target = null) {
    Object.assign(this, { variant, target });
    this.face = new Face({ name: target === null ? plateName(variant) : `${plateName(variant)}, ${target}`, ...stores });
    this.scale = new Scale(variant.signed);
    this.told = new Told(this.face.node);
    this.facts = new Facts(variant, target !== null);
    this.notes = target === null ? new Notes(standing(variant)) : null; // a row of maps has them once
    this.take = new Take(variant, mapMenu(this), target === null);
    const above = target === null ? [this.face.node, heading(variant), el("p", { class: "by", title: byLine(variant) }, byLine(variant))] : [el("p", { class: "caption" }, target), this.face.node];
    this.node = el("article", { class: "plate", data: { spec: variant.spec } }, above, this.scale.node, this.facts.node, this.told.node, this.notes?.node, this.take.node);
    this.show(null);
  }

  get map() {
    return this.face.map;
  }

  /** How it is looked at. */
  get look() {
    return this.face.view.value;
  }

  /** What the colours stand for. */
  get values() {
    return this.map.scores;
  }

  set state(state) {
    this.node.dataset.state = state;
    this.node.setAttribute("aria-busy", String(state === "waiting" || state === "stale"));
  }

  show(map, id) {
    this.face.setMap(map);
    this.told.show(map ? pictureInWords(map) : "");
    this.facts.show(map);
    this.take.id = map ? id : null;
    this.notes?.show(map ? warnings([map]) : []);
    if (!map) this.scale.show(null);
    this.state = map ? "done" : "waiting";
  }

  /** The picture under the map; null while it is not known. */
  setBase(base) {
    this.face.setBase(base);
  }

  colour(ends) {
    this.face.ends = ends;
    if (this.map) this.scale.show(ends, this.look);
    this.face.draw();
  }

  mark(value) {
    this.face.mark(value);
  }
}

/** Give every plate the ends of its colours: its own, or those shared by all maps of the same read-out (the same formula, so the same unit). */
export function colourAll(plates, scale) {
  const shared = new Map();
  for (const plate of plates) {
    const { readout } = plate.variant;
    if (plate.map) shared.set(readout, [...(shared.get(readout) ?? []), plate.values]);
  }
  for (const plate of plates) {
    if (!plate.map) plate.colour([0, 0]);
    else plate.colour(limits(scale === "shared" ? shared.get(plate.variant.readout) : [plate.values], plate.variant.signed));
  }
}

export class Wall {
  constructor(root, { focus, view, onRead, makePlate = (variant, stores, target) => new Plate(variant, stores, target) }) {
    Object.assign(this, { root, focus, view, makePlate, stores: { focus, view, onRead }, plates: new Map(), base: null });
    view.follow(() => this.colour());
    tellIn(root, view);
    focus.follow((value) => this.mark(value));
  }

  get all() {
    return [...this.plates.values()];
  }

  /** The plates that lose tokens in the deletion test. */
  get tested() {
    return this.all;
  }

  /** Every plate that hangs: those of maps, and where a wall has them those that are computed from several maps. */
  get hung() {
    return this.all;
  }

  get done() {
    return this.all.filter((plate) => plate.node.dataset.state === "done").length;
  }

  /** Hang these variants in this order. Plates that are already there keep their map, marked stale, until the new one arrives. */
  expect(variants) {
    const before = this.plates;
    this.plates = new Map(variants.map((variant) => [variant.spec, before.get(variant.spec) ?? this.#hang(variant)]));
    for (const plate of this.all) plate.state = plate.map ? "stale" : "waiting";
    const nodes = this.all.map((plate) => plate.node);
    const same = nodes.length === this.root.children.length && nodes.every((node, i) => node === this.root.children[i]);
    if (!same) this.root.replaceChildren(...nodes);
  }

  /** Another wall takes the place of this one. */
  leave() {
    this.plates = new Map();
  }

  /** Another specimen: the old maps and the old picture do not belong to it. */
  clear() {
    this.setBase(null);
    for (const plate of this.hung) plate.show(null);
    this.mark(this.focus.value);
  }

  /** The picture under every map. */
  setBase(base) {
    this.base = base;
    for (const plate of this.hung) plate.setBase(base);
  }

  receive(map, id) {
    const plate = this.plates.get(map.method);
    if (plate) this.take(plate, map, id);
  }

  /** Hang a map on its plate, in its colours. */
  take(plate, map, id) {
    plate.show(map, id);
    if (this.view.value.scale === "shared") this.colour();
    else colourAll([plate], "own");
    plate.mark(this.focus.value);
  }

  /** What is still waiting will not come. */
  close() {
    for (const plate of this.hung) if (plate.node.dataset.state !== "done") plate.state = "missing";
  }

  colour() {
    colourAll(this.hung, this.view.value.scale);
  }

  mark(value) {
    for (const plate of this.hung) plate.mark(value);
  }

  #hang(variant) {
    const plate = this.makePlate(variant, this.stores);
    plate.setBase(this.base);
    return plate;
  }
}
