// Methods by prompts: one row a method, one column a prompt; at narrow width the row wraps under the method's name.

import { el } from "./dom.js";
import { byLine, heading, Notes, optionsButton, ruleName, standing, warnings } from "./label.js";
import { Plate, Wall } from "./plate.js";

const key = (spec, target) => `${spec}\n${target}`;

export class Matrix extends Wall {
  targets = [];
  variants = [];
  notes = new Map(); // spec -> what is wrong with the maps of its row

  /** The columns: {label} of each prompt, with what the model says of it in `told`. */
  setTargets(targets, told) {
    const labels = targets.map((target) => target.label);
    this.told = told;
    const same = labels.length === this.targets.length && labels.every((label, i) => label === this.targets[i]);
    this.targets = labels;
    if (!same) this.plates = new Map();
    this.#lay();
  }

  expect(variants) {
    this.variants = variants;
    for (const plate of this.all) plate.state = plate.map ? "stale" : "waiting";
    this.#lay();
  }

  receive(map, id) {
    const plate = this.plates.get(key(map.method, map.target));
    if (!plate) return;
    this.take(plate, map, id);
    this.#say(plate.variant);
  }

  /** What is wrong with the maps of a row, once each, under the method's name. */
  #say(variant) {
    const maps = this.targets.map((target) => this.plates.get(key(variant.spec, target))?.map).filter(Boolean);
    this.notes.get(variant.spec).show(warnings(maps));
  }

  #lay() {
    const before = this.plates;
    this.plates = new Map();
    for (const variant of this.variants) {
      for (const target of this.targets) {
        const name = key(variant.spec, target);
        const plate = before.get(name) ?? new Plate(variant, this.stores, target);
        if (!before.has(name)) plate.setBase(this.base);
        this.plates.set(name, plate);
      }
    }
    const head = el("div", { class: "line head" }, el("span"), this.targets.map((target, i) => el("div", {}, el("span", { class: "name" }, target), el("span", { class: "num" }, this.told?.[i] ?? "\u00a0"))));
    const matrix = el("div", { class: "matrix" }, this.targets.length ? head : null, this.variants.map((variant) => this.#row(variant)));
    matrix.style.setProperty("--n", String(Math.max(1, this.targets.length)));
    this.root.replaceChildren(matrix);
  }

  #row(variant) {
    const notes = new Notes(standing(variant, "The same map for every prompt."));
    this.notes.set(variant.spec, notes);
    this.#say(variant);
    const label = el(
      "div", { class: "label" }, heading(variant), el("p", { class: "by" }, byLine(variant)),
      el("p", { class: "by num" }, variant.rule ? `rule ${ruleName(variant.rule)}` : "no rule needed"), optionsButton(variant), notes.node,
    );
    return el("div", { class: "line" }, label, this.targets.map((target) => this.plates.get(key(variant.spec, target)).node));
  }
}
