// The pictures that stand in a text: their patches in colours above the words of a plate, on a scale of their own.

import { limits } from "../core/colour.js";
import { el, number, signedNumber } from "../core/dom.js";
import { Store } from "../core/state.js";
import { seenBase } from "../inputs/pictureview.js";
import { Scale } from "../maps/caption.js";
import { MapCanvas } from "../maps/mapcanvas.js";
import { seenName } from "../maps/patches.js";
import { joinTiles } from "../maps/picturetiles.js";
import { picturesInWords } from "../maps/summary.js";
import { coverPatches } from "../maps/tokenremoval.js";

/**
 * @import { PicturePart, PictureTile, TextInput } from "../core/schemas.js"
 * @import { Ends } from "../core/colour.js"
 * @import { Focus, Grid, ScoreMap } from "../core/types.js"
 * @import { GreyBase } from "../maps/types.js"
 * @import { WordPlate } from "./words.js"
 */

/**
 * A picture in a text: its name, whether it was drawn of a sound, itself in grey, the grid of its map, the tiles of
 * tokens that it is joined from, and the focus of its patches, which all plates share.
 * @typedef {{name: string, isSound: boolean, base: GreyBase, grid: Grid, tiles: PictureTile[],
 *   focus: Store<Focus>}} Shown
 */

/** The patches of a picture whose tokens stand among the words of a plate. */
class PictureInText {
  /**
   * @param {WordPlate} plate
   * @param {Shown} shown
   */
  constructor(plate, { name, base, grid, tiles, focus }) {
    this.grid = grid;
    this.tiles = tiles;
    this.signed = plate.variant.signed;
    const { view, onRead } = plate.stores;
    this.mapCanvas = new MapCanvas({ name: `${plate.name}, ${name}`, focus, view, onRead });
    this.mapCanvas.setBase(base);
    this.caption = el("figcaption", { class: "quiet" });
    this.node = el("figure", { class: "picture-in-text" }, this.mapCanvas.node, this.caption);
    focus.follow((value) => this.mapCanvas.mark(value));
  }

  /**
   * The part of a map that lies on the picture.
   * @param {ScoreMap} map
   */
  scoresOf(map) {
    return joinTiles(map.scores, this.tiles, this.grid);
  }

  /**
   * Show these scores of its patches with these ends of the colours; null takes them away.
   * @param {number[] | null} scores
   * @param {Ends} ends
   */
  show(scores, ends) {
    this.mapCanvas.ends = ends;
    this.mapCanvas.setMap(scores ? { scores, grid: this.grid, signed: this.signed } : null);
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

/** All pictures whose tokens stand among the words of a plate, on one scale. */
class PicturesInText {
  /**
   * @param {WordPlate} plate
   * @param {Shown[]} shown
   */
  constructor(plate, shown) {
    this.signed = plate.variant.signed;
    this.names = shown.map(({ name }) => name);
    this.unit = shown[0].isSound ? ["stretches", "stretch"] : ["patches", "patch"];
    this.view = plate.stores.view;
    /** @type {Ends | null} */
    this.ends = null;
    /** @type {number[]} */
    this.values = [];
    this.scale = new Scale(plate.variant);
    this.scale.where = this.names.length === 1 ? `in ${this.names[0].toLowerCase()}` : "in the pictures";
    this.pictures = shown.map((each) => new PictureInText(plate, each));
    this.sentence = el("p", { class: "which-picture" });
    this.node = el(
      "div",
      { class: "pictures-in-text" },
      el("div", { class: shown.length > 3 ? "row frames" : "row" }, ...this.pictures.map(({ node }) => node)),
      this.scale.node,
      shown.length > 1 ? this.sentence : null,
    );
    if (plate.map) this.show(plate.map);
  }

  /**
   * Show the parts of a map that lie on the pictures; null takes them away.
   * @param {ScoreMap | null} map
   */
  show(map) {
    const scores = map ? this.pictures.map((picture) => picture.scoresOf(map)) : null;
    const ends = limits(scores ?? [], this.signed);
    [this.ends, this.values] = [scores && ends, (scores ?? []).flat()];
    this.scale.show(this.ends, this.view.value, this.values);
    this.pictures.forEach((picture, i) => picture.show(scores?.[i] ?? null, ends));
    const values = (scores ?? []).map((each) => (this.signed ? each.reduce((a, b) => a + b, 0) : Math.max(...each)));
    this.pictures.forEach(({ caption }, i) => (caption.textContent = map ? this.#caption(i, values[i]) : ""));
    const shares = values.map((value, i) => ({ name: this.names[i], value }));
    this.sentence.textContent = map ? picturesInWords(shares, map) : "";
  }

  /**
   * @param {number} i
   * @param {number} value
   */
  #caption(i, value) {
    const what = this.signed
      ? `${this.unit[0]} together ${signedNumber(value)}`
      : `largest ${this.unit[1]} ${number(value)}`;
    return `${this.names[i]}${this.names.length === 1 ? ", on its own scale" : ""}: ${what}.`;
  }

  /** Paint them as the page looks at maps now. */
  draw() {
    this.scale.show(this.ends, this.view.value, this.values);
    for (const { mapCanvas } of this.pictures) mapCanvas.draw();
  }

  /**
   * Cover the patches among the tokens that are removed.
   * @param {Set<number>} removed
   * @param {string} paper
   */
  cover(removed, paper) {
    for (const picture of this.pictures) picture.cover(removed, paper);
  }
}

/**
 * All pictures in a text, in their order.
 * @param {TextInput} input
 * @returns {PicturePart[]}
 */
export const partsOf = ({ picture, further_pictures: further }) => (picture ? [picture, ...(further ?? [])] : []);

/**
 * What pictures in a text are called: "Picture 2" of several, "Frames 3–4" of a video, "The sound" that was drawn.
 * @param {PicturePart[]} parts
 * @returns {string[]}
 */
export const namesOf = (parts) =>
  parts.map(({ frame_numbers: numbers, sound }, i) => {
    if (sound) return "The sound";
    if (!numbers) return parts.length === 1 ? "The picture" : `Picture ${i + 1}`;
    return numbers[0] === numbers[1] ? `Frame ${numbers[0]}` : `Frames ${numbers[0]}–${numbers[1]}`;
  });

/**
 * The pictures that stand in the text of explanation `id`, as plates lay them above their words.
 * @param {string} id
 * @param {PicturePart[]} parts
 */
export async function picturesOf(id, parts) {
  const names = namesOf(parts);
  const shown = await Promise.all(
    parts.map(async ({ grid, first, tiles, sound }, i) => {
      const whole = { first, step: grid[1], rows: grid[0], columns: grid[1], box: [0, 0, 1, 1] };
      return {
        name: names[i],
        isSound: Boolean(sound),
        base: await seenBase(id, { name: seenName(i) }),
        grid,
        tiles: /** @type {PictureTile[]} */ (tiles?.length ? tiles : [whole]),
        focus: new Store({ at: -1, locked: false }),
      };
    }),
  );
  return { on: (/** @type {WordPlate} */ plate) => new PicturesInText(plate, shown) };
}
