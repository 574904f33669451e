// The picture that stands in a text: its patches in colours above the words of a plate, on a scale of their own.

import { limits } from "../core/colour.js";
import { el, number, signedNumber } from "../core/dom.js";
import { seenBase } from "../inputs/pictureview.js";
import { MapCanvas } from "../maps/mapcanvas.js";
import { joinTiles } from "../maps/picturetiles.js";
import { coverPatches } from "../maps/tokenremoval.js";

/**
 * @import { PicturePart, PictureTile } from "../core/schemas.js"
 * @import { Store } from "../core/state.js"
 * @import { Focus, Grid, ScoreMap } from "../core/types.js"
 * @import { WordPlate } from "./words.js"
 */

/** The patches of a picture whose tokens stand among the words of a plate. */
class PictureInText {
  /**
   * The picture of `base`, in grey, whose map has this `grid` and is joined from these `tiles` of tokens; `focus` is that of
   * patches, which all plates share.
   * @param {WordPlate} plate
   * @param {{base: OffscreenCanvas, grid: Grid, tiles: PictureTile[], focus: Store<Focus>}} options
   */
  constructor(plate, { base, grid, tiles, focus }) {
    this.grid = grid;
    this.tiles = tiles;
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
    const scores = map ? joinTiles(map.scores, this.tiles, this.grid) : [];
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
    const last = Math.max(...this.tiles.map((tile) => tile.first + tile.step * tile.rows));
    const gone = Array.from({ length: last }, (_, token) => Number(removed.has(token)));
    const all = joinTiles(Array(last).fill(1), this.tiles, this.grid);
    const shares = joinTiles(gone, this.tiles, this.grid).map((share, patch) => share / (all[patch] || 1));
    coverPatches(
      this.mapCanvas,
      this.grid,
      new Set(shares.flatMap((share, patch) => (share > 0.5 ? [patch] : []))),
      paper,
    );
  }
}

/**
 * The picture that stands in the text of explanation `id`, as plates lay it above their words; `focus` is that of
 * patches.
 * @param {string} id
 * @param {PicturePart} part
 * @param {Store<Focus>} focus
 */
export async function pictureOf(id, { grid, first, tiles }, focus) {
  const base = await seenBase(id, {});
  const whole = { first, step: grid[1], rows: grid[0], columns: grid[1], box: [0, 0, 1, 1] };
  const all = /** @type {PictureTile[]} */ (tiles?.length ? tiles : [whole]);
  return { on: (/** @type {WordPlate} */ plate) => new PictureInText(plate, { base, grid, tiles: all, focus }) };
}
