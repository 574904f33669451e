// The picture that stands in a text: its patches in colours above the words of a plate, on a scale of their own.

import { limits } from "../core/colour.js";
import { el, number, signedNumber } from "../core/dom.js";
import { seenBase } from "../inputs/pictureview.js";
import { MapCanvas } from "../maps/mapcanvas.js";
import { coverPatches } from "../maps/tokenremoval.js";

/**
 * @import { PicturePart } from "../core/schemas.js"
 * @import { Store } from "../core/state.js"
 * @import { Focus, Grid, ScoreMap } from "../core/types.js"
 * @import { WordPlate } from "./words.js"
 */

/** The patches of a picture whose tokens stand among the words of a plate. */
class PictureInText {
  /**
   * The picture of `base`, in grey, whose tokens begin with the one numbered `first`; `focus` is that of patches, which
   * all plates share.
   * @param {WordPlate} plate
   * @param {{base: OffscreenCanvas, grid: Grid, first: number, focus: Store<Focus>}} options
   */
  constructor(plate, { base, grid, first, focus }) {
    this.grid = grid;
    this.first = first;
    this.signed = plate.variant.signed;
    const { view, onRead } = plate.stores;
    this.mapCanvas = new MapCanvas({ name: `${plate.name}, the picture`, focus, view, onRead });
    this.mapCanvas.setBase(base);
    this.caption = el("figcaption", { class: "quiet" });
    this.node = el("figure", { class: "picture-in-text" }, this.mapCanvas.node, this.caption);
    focus.follow((value) => this.mapCanvas.mark(value));
    if (plate.map) this.show(plate.map);
  }

  /**
   * Show the part of a map that lies on the picture; null takes it away.
   * @param {ScoreMap | null} map
   */
  show(map) {
    const [rows, columns] = this.grid;
    const scores = map?.scores.slice(this.first, this.first + rows * columns) ?? [];
    this.mapCanvas.ends = limits([scores], this.signed);
    this.mapCanvas.setMap(map ? { scores, grid: this.grid, signed: this.signed } : null);
    const whole = this.signed ? scores.reduce((sum, score) => sum + score, 0) : Math.max(...scores);
    this.caption.textContent = map
      ? `The picture, on its own scale; ${this.signed ? `its patches together ${signedNumber(whole)}` : `its largest patch ${number(whole)}`}.`
      : "";
    this.draw();
  }

  /** Paint it as the page looks at maps now. */
  draw() {
    this.mapCanvas.draw();
  }

  /**
   * Cover the patches among the tokens that are removed.
   * @param {Set<number>} removed
   * @param {string} paper
   */
  cover(removed, paper) {
    const patches = [...removed].map((token) => token - this.first).filter((patch) => patch >= 0);
    const count = this.grid[0] * this.grid[1];
    coverPatches(this.mapCanvas, this.grid, new Set(patches.filter((patch) => patch < count)), paper);
  }
}

/**
 * The picture that stands in the text of explanation `id`, as plates lay it above their words; `focus` is that of
 * patches.
 * @param {string} id
 * @param {PicturePart} part
 * @param {Store<Focus>} focus
 */
export async function pictureOf(id, { grid, first }, focus) {
  const base = await seenBase(id, {});
  return { on: (/** @type {WordPlate} */ plate) => new PictureInText(plate, { base, grid, first, focus }) };
}
