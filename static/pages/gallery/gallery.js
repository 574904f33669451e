// The maps that were made ahead: every method on the same photo, prompt and sentence. `gallery.json` is made by
// recipes/assets/method_gallery.py.

import { getJSON, loadImage } from "../../core/api.js";
import { limits } from "../../core/colour.js";
import { context2d, el, staticPath } from "../../core/dom.js";
import { greyBase, paint } from "../../maps/heatmap.js";

/** @import { Samples } from "../../core/schemas.js" */

/**
 * A signal on its way back through a block under one rule, at each stage.
 * @typedef {{norms: number[], carried: number[]}} Way
 */

/**
 * The maps of one sample: those of a picture have a grid, those of a text words. Scores are packed.
 * @typedef {{model: string, sample: string, label: string, crop: number[], grid: number[], words?: string[],
 *   maps: {[spec: string]: string}}} SampleMaps
 */

/**
 * The contents of the file.
 * @typedef {{image: SampleMaps, clip: SampleMaps, text: SampleMaps, molecule?: SampleMaps,
 *   way: {model: string, block: number, of: number, stages: string[], rules: {[rule: string]: Way}}}} GalleryFile
 */

/** @typedef {"image" | "clip" | "text" | "molecule"} Kind */

const SIDE = 176; // pixels of a canvas
const STRONG = 0.1; // of the largest score: a part that a map marks
const MIN_MARKED = 0.02; // of all parts: a map that marks fewer says nothing
const STEPS = 127;
const VIEW = { evidence: "both", grid: "smooth", opacity: 85 };
const PAPER = "#8c8984"; // where the sample is not at hand

/**
 * Decode scores from -1 to 1, which `pack_scores` of the Python module wrote.
 * @param {string} text
 */
const unpacked = (text) => [...atob(text)].map((byte) => ((byte.charCodeAt(0) << 24) >> 24) / STEPS);

/**
 * The words of a text, each underlined as strongly as it scores; dotted where it speaks against.
 * @param {{text: string, score: number}[]} list
 * @returns {HTMLElement}
 */
export function wordStrip(list) {
  return el(
    "p",
    { class: "words" },
    list.flatMap(({ text, score }) => [
      el("span", { class: `${score < 0 ? "against" : "for"} s${Math.round(4 * Math.abs(score))}` }, text),
      " ",
    ]),
  );
}

/**
 * The part of a picture that a model saw, in grey.
 * @param {string | undefined} address
 * @param {number[]} crop
 */
async function baseOf(address, [left, top, right, bottom]) {
  const canvas = new OffscreenCanvas(SIDE, SIDE);
  const context = context2d(canvas);
  context.fillStyle = PAPER;
  context.fillRect(0, 0, SIDE, SIDE);
  if (!address) return canvas;
  const image = await loadImage(address);
  context.imageSmoothingQuality = "high";
  context.drawImage(image, left, top, right - left, bottom - top, 0, 0, SIDE, SIDE);
  return greyBase(canvas, SIDE, SIDE);
}

/** @type {Kind[]} */
const KINDS = ["image", "clip", "text"]; // photos first
const LEGENDS = {
  picture: { signed: "red: for the answer, blue: against it", strength: "yellow: strong, dark: weak" },
  short: { signed: "for and against", strength: "strength only" },
  words: { signed: "line: for the answer, dotted: against it", strength: "the thicker the line, the stronger" },
};

/**
 * A bar of the colours of a map, and what they mean.
 * @param {string} name
 * @param {string} text
 */
const keyOf = (name, text) => el("span", { class: `key ${name}` }, el("i", { "aria-hidden": "true" }), ` ${text}`);

/** The maps of all methods, by kind of input: "image", "clip", "text". */
export class Gallery {
  /**
   * @param {GalleryFile} data
   * @param {{[kind: string]: OffscreenCanvas}} bases what is under the maps of pictures
   */
  constructor(data, bases) {
    this.data = data;
    this.bases = bases;
  }

  /**
   * Fetch the file and the sample.
   * @returns {Promise<Gallery>}
   */
  static async load() {
    /** @type {[GalleryFile, Samples]} */
    const [data, { samples }] = await Promise.all([
      getJSON(staticPath("pages/gallery/gallery.json")),
      getJSON("/api/samples"),
    ]);
    /** @type {("image" | "clip")[]} */
    const kinds = ["image", "clip"];
    /** @param {"image" | "clip"} kind */
    const addressOf = (kind) => samples.find(({ id }) => id === data[kind].sample)?.image;
    const bases = await Promise.all(kinds.map((kind) => baseOf(addressOf(kind), data[kind].crop)));
    return new Gallery(data, Object.fromEntries(kinds.map((kind, i) => [kind, bases[i]])));
  }

  /**
   * Return whether there is a map of a method.
   * @param {Kind} kind
   * @param {string} spec
   * @returns {boolean}
   */
  has(kind, spec) {
    return spec in (this.data[kind]?.maps ?? {});
  }

  /**
   * Return whether the map of a method marks some parts of its input.
   * @param {Kind} kind
   * @param {string} spec
   * @returns {boolean}
   */
  says(kind, spec) {
    if (!this.has(kind, spec)) return false;
    const scores = unpacked(this.data[kind]?.maps[spec] ?? "");
    return scores.filter((score) => Math.abs(score) > STRONG).length >= MIN_MARKED * scores.length;
  }

  /**
   * The first kind of input on which the map of a method says something, else the first that has a map of it.
   * @param {string} spec
   * @returns {Kind}
   */
  kindFor(spec) {
    return KINDS.find((kind) => this.says(kind, spec)) ?? KINDS.find((kind) => this.has(kind, spec)) ?? "image";
  }

  /**
   * The name of the model whose maps are stored.
   * @param {Kind} kind
   * @returns {string}
   */
  modelOf(kind) {
    return this.data[kind]?.model ?? "";
  }

  /**
   * The explained class or text, in words: "cocker spaniel".
   * @param {Kind} kind
   * @returns {string}
   */
  labelOf(kind) {
    return this.data[kind]?.label ?? "";
  }

  /**
   * The map of a method: over the photo, or in the words of the sentence. An empty frame where none was made.
   * @param {Kind} kind
   * @param {string} spec
   * @param {boolean} signed
   * @param {string} title
   * @returns {HTMLElement}
   */
  thumbnail(kind, spec, signed, title) {
    const made = this.data[kind];
    if (!made) return el("span", { hidden: true }); // of molecules no maps are made ahead
    const { maps, words, grid, label } = made;
    if (!this.has(kind, spec)) return el("span", { class: "thumb none" }, "no map is stored");
    const scores = unpacked(maps[spec]);
    if (words) return wordStrip(words.map((text, i) => ({ text, score: scores[i] })));
    const about = { role: "img", "aria-label": `What made the model say ${label}, by ${title}` };
    const canvas = el("canvas", { class: "thumb", width: SIDE, height: SIDE, ...about });
    paint(canvas, this.bases[kind], { scores, grid, signed }, limits([scores], signed), VIEW);
    return canvas;
  }

  /**
   * The legend of maps: what their colours or lines mean.
   * @param {Kind} kind
   * @param {boolean[]} signs whether each of the maps has signs
   * @param {boolean} [isShort] in few words, for a small card
   * @returns {HTMLElement}
   */
  legend(kind, signs, isShort = false) {
    const long = this.data[kind]?.words ? LEGENDS.words : LEGENDS.picture;
    const { signed, strength } = isShort && !this.data[kind]?.words ? LEGENDS.short : long;
    const keys = [
      signs.some(Boolean) ? keyOf("signed", signed) : null,
      signs.every(Boolean) ? null : keyOf("strength", strength),
    ];
    return el("span", { class: this.data[kind]?.words ? "keys of-words" : "keys" }, keys);
  }
}
