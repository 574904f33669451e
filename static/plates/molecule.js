// A plate of a molecule: its drawing, each atom and its half of each bond coloured by the atom's score.

import { el, svg } from "../core/dom.js";
import { halvesOf, outlines, radiusOf } from "../maps/molecules.js";
import { WordPlate } from "./words.js";

/**
 * @import { Toxicophore } from "../core/schemas.js"
 * @import { Variant } from "../core/types.js"
 * @import { TextBase } from "../maps/types.js"
 * @import { PlateStores } from "./types.js"
 */

const ARCS = 8; // from an atom: more would hide the molecule
const BENT = 0.22; // how far an arc leaves the straight line, of its length

/**
 * The names of groups, each once, and all of their atoms.
 * @param {Toxicophore[]} groups
 */
export const joined = (groups) => ({
  names: [...new Set(groups.map(({ name }) => name))],
  atoms: new Set(groups.flatMap(({ atoms }) => atoms)),
});

/** A molecule coloured by one map, with its caption. */
export class MoleculePlate extends WordPlate {
  /** @type {HTMLElement | undefined} */
  found; // how many of the atoms ranked first belong to known causes
  /** @type {{hits: number, of: number} | null} */
  hits = null; // the same in numbers

  /**
   * @param {Variant} variant
   * @param {PlateStores} stores
   * @param {string | null} [target]
   */
  constructor(variant, stores, target = null) {
    super(variant, stores, target);
    this.reading.classList.add("molecule");
    this.reading.setAttribute("aria-roledescription", "coloured molecule");
    this.found = el("p", { class: "found quiet" });
    this.sentence.node.before(this.found);
  }

  /**
   * All scores make the scale: the first atom is like any other.
   * @override
   */
  get scaled() {
    return this.values;
  }

  /**
   * @param {TextBase} base
   * @override
   */
  lay(base) {
    const { molecule } = base;
    if (!molecule?.drawing) return super.lay(base);
    const { drawing } = molecule;
    const radius = radiusOf(molecule);
    this.spans = drawing.places.map(([x, y], i) =>
      svg(
        "g",
        { "data-w": i },
        svg(
          "g",
          { class: "paint" },
          halvesOf(molecule, i).map(([x1, y1, x2, y2]) =>
            svg("line", { x1, y1, x2, y2, "stroke-width": 1.1 * radius }),
          ),
          svg("circle", { cx: x, cy: y, r: radius }),
        ),
        svg("circle", { class: "ring", cx: x, cy: y, r: radius }),
      ),
    );
    const [width, height] = drawing.size;
    this.reading.replaceChildren(
      svg("svg", { viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" }, outlines(drawing), ...this.spans),
    );
  }

  /** @override */
  tell() {
    if (!this.found) return;
    const groups = this.map ? (this.base?.molecule?.toxicophores ?? []) : [];
    const { names, atoms } = joined(groups);
    const first = this.values.map((_, i) => i).sort((a, b) => this.values[b] - this.values[a]);
    const hits = first.slice(0, atoms.size).filter((atom) => atoms.has(atom)).length;
    this.hits = names.length && first.length ? { hits, of: atoms.size } : null;
    this.found.textContent =
      names.length && hits < atoms.size
        ? `Its top ${atoms.size} atoms: ${hits} in groups known to cause mutations (${names.join(", ")}).`
        : "";
  }

  /**
   * Draw arcs from an atom to those that the map names most strongly, the thicker the stronger: what a head of
   * attention reads from there.
   * @param {number} from
   */
  arcs(from) {
    const places = this.base?.molecule?.drawing?.places;
    const drawing = this.reading.querySelector("svg");
    drawing?.querySelector(".arcs")?.remove();
    if (!places?.[from] || !drawing) return;
    const others = this.values
      .map((value, atom) => ({ value, atom }))
      .filter(({ value, atom }) => value && atom !== from)
      .sort((a, b) => Math.abs(b.value) - Math.abs(a.value));
    const most = Math.abs(others[0]?.value ?? 1);
    const [x, y] = places[from];
    const lines = others.slice(0, ARCS).map(({ value, atom }) => {
      const [u, v] = places[atom];
      const bent = [(x + u) / 2 - BENT * (v - y), (y + v) / 2 + BENT * (u - x)];
      return svg("path", {
        class: !this.variant.signed ? "mag" : value > 0 ? "pro" : "con",
        d: `M${x} ${y}Q${bent.map((part) => part.toFixed(1)).join(" ")} ${u} ${v}`,
        "stroke-width": Math.max(0.6, (5 * Math.abs(value)) / most).toFixed(1),
        "data-to": atom,
      });
    });
    drawing.append(svg("g", { class: "arcs" }, lines));
  }

  /**
   * Mark the atoms at which most maps are strongest, for windows that have no room for the drawing alone.
   * @param {number[]} atoms
   */
  markPeak(atoms) {
    this.spans.forEach((span, i) => span.toggleAttribute("data-peak", atoms.includes(i)));
  }

  /**
   * Outline some atoms; an empty list removes the outlines.
   * @param {Set<number>} atoms
   */
  outline(atoms) {
    this.spans.forEach((span, i) => {
      if (atoms.has(i)) span.dataset.cause = "";
      else delete span.dataset.cause;
    });
  }
}
