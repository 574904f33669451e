// The canvas of a plate: one map over the picture, with the patch in focus outlined in every canvas at once.

import { strengths } from "../core/colour.js";
import { el, signedNumber, number } from "../core/dom.js";
import { neighbour, layOverPatch, layoutOf } from "./patches.js";
import { ValueTag, ranksByStrength, rankName } from "./valuetag.js";
import { paint } from "./heatmap.js";

/**
 * @import { Store } from "../core/state.js"
 * @import { Focus, Grid, View } from "../core/types.js"
 * @import { ContactSheet } from "./contactsheet.js"
 * @import { Drawable, GreyBase } from "./types.js"
 */

const WIDTH = 448; // pixels of the canvas; it is shown smaller
/** @type {{[key: string]: number[]}} */
const STEPS = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };

/**
 * The index of the strongest score.
 * @param {number[]} scores
 * @param {boolean} [sided] see `strengths`
 * @returns {number}
 */
export const strongest = (scores, sided) =>
  strengths(scores, sided).reduce((best, size, i, all) => (size > all[best] ? i : best), 0);

/**
 * Format a score for display: with its sign where the method has one.
 * @param {{scores: number[], signed: boolean}} map
 * @param {number} i
 * @returns {string}
 */
export const shownScore = (map, i) => (map.signed ? signedNumber : number)(map.scores[i]);

/**
 * "row 1, column 2", of a clip "frame 3, row 1, column 2".
 * @param {number} i
 * @param {Grid} grid
 * @param {ContactSheet | null} [sheet]
 * @returns {string}
 */
export const patchName = (i, grid, sheet) =>
  sheet?.patchName(i, grid) ?? `row ${Math.floor(i / grid[1]) + 1}, column ${(i % grid[1]) + 1}`;

/**
 * Place the outline of patch `i` over a box that shows the whole grid.
 * @param {HTMLElement} node
 * @param {number} i
 * @param {Grid | null} grid
 * @param {boolean} locked
 * @param {ContactSheet | null} [sheet]
 */
export function outline(node, i, grid, locked, sheet) {
  node.hidden = true;
  if (i < 0 || !grid || i >= grid[0] * grid[1]) return;
  node.hidden = false;
  layOverPatch(node, i, layoutOf(grid, sheet));
  node.classList.toggle("locked", locked);
}

/**
 * Let the pointer choose the patch in focus over `node`; `grid()` gives [rows, columns] or null.
 * @param {HTMLElement} node
 * @param {Store<Focus>} focus
 * @param {() => Grid | null} grid
 * @param {() => ContactSheet | null} [sheet]
 */
export function followPointer(node, focus, grid, sheet) {
  /** @param {PointerEvent} event */
  const at = (event) => {
    const box = node.getBoundingClientRect();
    const { rows, columns, at: patchAt } = layoutOf(grid() ?? [1, 1], sheet?.());
    const row = Math.floor(((event.clientY - box.top) / box.height) * rows);
    const column = Math.floor(((event.clientX - box.left) / box.width) * columns);
    return patchAt(Math.min(rows - 1, Math.max(0, row)), Math.min(columns - 1, Math.max(0, column)));
  };
  node.addEventListener("pointermove", (event) => {
    if (grid() && !focus.value.locked) focus.set({ at: at(event) });
  });
  node.addEventListener("pointerleave", () => {
    if (!focus.value.locked) focus.set({ at: -1 });
  });
  node.addEventListener("click", (event) => {
    if (!grid()) return;
    const patch = at(event);
    if (patch < 0) return;
    focus.set(focus.value.locked && focus.value.at === patch ? { locked: false } : { at: patch, locked: true });
  });
}

/** A map over its picture, with what is in focus. */
export class MapCanvas {
  /**
   * `name` is what a screen reader calls the map; `focus` and `view` are the page's stores; `onRead` is told what the
   * keyboard reached; `width` is that of the canvas in pixels.
   * @param {{name: string, focus: Store<Focus>, view: Store<View>, onRead?: (text: string) => void,
   *   width?: number}} options
   */
  constructor({ name, focus, view, onRead, width = WIDTH }) {
    this.name = name;
    this.width = width;
    this.focus = focus;
    this.view = view;
    this.onRead = onRead;
    /** @type {Drawable | null} */
    this.map = null;
    /** @type {Drawable | null} */
    this.pixels = null; // the same map at the pixels, once it is there
    /** @type {ArrayLike<number>} */
    this.ranks = [];
    /** @type {GreyBase | null} */
    this.base = null;
    this.ends = [0, 0];
    this.canvas = el("canvas", { width, height: width });
    this.patch = el("div", { class: "patch", hidden: true });
    this.valueTag = new ValueTag();
    this.node = el(
      "div",
      { class: "map-canvas", tabIndex: 0, role: "application", "aria-roledescription": "map" },
      this.canvas,
      this.patch,
      this.valueTag.node,
    );
    this.node.style.aspectRatio = "1";
    followPointer(
      this.node,
      focus,
      () => this.map?.grid ?? null,
      () => this.sheet,
    );
    this.node.addEventListener("keydown", (event) => this.#walk(event));
    this.describe();
  }

  /** The layout of the frames of a clip; null for a picture. */
  get sheet() {
    return this.base?.sheet ?? null;
  }

  /**
   * Set the grey picture to draw on; null leaves it as it is until there is one.
   * @param {GreyBase | null} base
   */
  setBase(base) {
    this.base = base;
    if (!base) return;
    this.canvas.width = this.width * (this.sheet ? 2 : 1);
    this.canvas.height = Math.round((this.canvas.width * base.height) / base.width);
    this.node.style.aspectRatio = `${base.width} / ${base.height}`;
    this.node.style.setProperty("--aspect", String(base.width / base.height));
    this.describe();
    this.draw();
  }

  /**
   * Set the map; null removes it. `draw` shows it.
   * @param {Drawable | null} map
   */
  setMap(map) {
    if (map !== this.map) this.pixels = null;
    this.map = map;
    this.ranks = map ? ranksByStrength(map.scores, map.sided) : [];
    this.describe();
  }

  /**
   * The scores and the view that are drawn for `view`: the map, or its pixels as they are.
   * @param {View} view
   * @returns {[Drawable | null, View]}
   */
  look(view) {
    return this.pixels && view.level === "pixels" ? [this.pixels, { ...view, grid: "patches" }] : [this.map, view];
  }

  /** Paint the current map. */
  draw() {
    const [map, view] = this.look(this.view.value);
    if (this.base) paint(this.canvas, this.base, map, this.ends, view);
    const { outliers } = /** @type {any} */ (this.base ?? {});
    if (outliers) import("./outliers.js").then(({ lay }) => lay(this, outliers));
    this.node.dataset.drawn = String(Boolean(this.base && this.map));
  }

  /**
   * Show the focus, with its value and rank.
   * @param {Focus} options
   */
  mark({ at, locked }) {
    const { map } = this;
    outline(this.patch, at, map?.grid ?? null, locked, this.sheet);
    if (map && at >= 0 && at < map.scores.length) this.valueTag.show(shownScore(map, at), this.rankOf(at));
    else this.valueTag.show();
  }

  /**
   * The rank of patch `i` by strength, in words.
   * @param {number} i
   * @returns {string}
   */
  rankOf(i) {
    return rankName(this.ranks[i], this.ranks.length);
  }

  /** Tell screen readers where the map is strongest. */
  describe() {
    const { map } = this;
    const best = map ? strongest(map.scores, map.sided) : -1;
    const where = map
      ? `strongest at ${patchName(best, map.grid, this.sheet)}, ${shownScore(map, best)}. Arrow keys walk the patches, Escape lets go.`
      : "not there yet";
    this.node.setAttribute("aria-label", `${this.name}: ${where}`);
  }

  /** @param {KeyboardEvent} event */
  #walk(event) {
    if (!this.map || event.ctrlKey || event.metaKey || event.altKey) return;
    const { at } = this.focus.value;
    let next = at;
    if (event.key === "Escape") return void this.focus.set({ at: -1, locked: false });
    if (event.key === "Home" || (event.key in STEPS && at < 0)) next = strongest(this.map.scores, this.map.sided);
    else if (event.key in STEPS) next = neighbour(at, STEPS[event.key], layoutOf(this.map.grid, this.sheet));
    else return;
    event.preventDefault();
    this.focus.set({ at: next, locked: true });
    this.onRead?.(
      `${this.name}, ${patchName(next, this.map.grid, this.sheet)}: ${shownScore(this.map, next)}, ${this.rankOf(next)} by strength`,
    );
  }
}
