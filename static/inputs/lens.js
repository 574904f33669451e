// The lens: the pixels of the patch in focus and of its neighbours: those that the model saw, or those of the original,
// as the picture shows.

import { explanationPath, loadImage } from "../core/api.js";
import { context2d, el } from "../core/dom.js";
import { patchName } from "../maps/mapcanvas.js";
import { layoutOf } from "../maps/patches.js";

/**
 * @import { ImageInput } from "../core/schemas.js"
 * @import { Store } from "../core/state.js"
 * @import { Focus, Grid, View } from "../core/types.js"
 * @import { ContactSheet } from "../maps/contactsheet.js"
 */

const SIDE = 288; // pixels of the canvas; it is shown at half its size
const AROUND = 3; // patches that it shows along a side
const KEPT = 1024; // longest side of original.jpg, see ORIGINAL_SIDE of the server

/** The pixels around what is in focus, enlarged. */
export class Lens {
  /** @param {{focus: Store<Focus>, view: Store<View>}} options */
  constructor({ focus, view }) {
    this.focus = focus;
    this.view = view;
    this.id = null;
    this.input = null;
    this.grid = null;
    this.seen = null;
    /** @type {ContactSheet | null} */
    this.sheet = null;
    this.original = null;
    this.canvas = el("canvas", { width: SIDE, height: SIDE, role: "img" });
    this.patch = el("div", { class: "patch" });
    this.size = el("span");
    this.node = el(
      "div",
      { class: "lens", hidden: true },
      el("div", { class: "glass" }, this.canvas, this.patch),
      this.size,
    );
    focus.follow(() => this.#draw());
    view.follow((now, before) => (now.lens !== before.lens || now.shown !== before.shown) && this.#draw());
  }

  /**
   * Show the input of explanation `id`; `seen` is its picture as the model saw it.
   * @param {string | null} id
   * @param {ImageInput | null} input
   * @param {HTMLImageElement | null} seen
   * @param {ContactSheet | null} [sheet] of a clip
   */
  show(id, input, seen, sheet = null) {
    this.id = id;
    this.input = input;
    this.seen = seen;
    this.sheet = sheet;
    this.original = null;
    this.#draw();
  }

  /**
   * Switch to another explanation of the same picture.
   * @param {string} id
   */
  belongsTo(id) {
    this.id = id;
  }

  /**
   * The grid that the patches lie on.
   * @param {Grid | null} grid
   */
  setGrid(grid) {
    const known = this.grid;
    this.grid = grid;
    if (known?.[0] !== grid?.[0] || known?.[1] !== grid?.[1]) this.#draw();
  }

  /** True where the pixels of the original are asked for. */
  get #showsOriginal() {
    return this.view.value.shown === "original" && !this.sheet;
  }

  /**
   * The picture that is looked at, and the part of it that the model saw. The copy of the upload is fetched when it is
   * first needed.
   */
  #source() {
    const { crop, width } = /** @type {ImageInput} */ (this.input);
    const seen = /** @type {HTMLImageElement} */ (this.seen);
    if (this.#showsOriginal && this.original === null) {
      this.original = "asked for";
      const { input } = this;
      loadImage(`${explanationPath(String(this.id))}/original.jpg`).then((image) => {
        if (this.input !== input) return;
        this.original = image;
        this.#draw();
      });
    }
    if (!this.#showsOriginal || !(this.original instanceof Image))
      return { image: seen, left: 0, top: 0, width: seen.naturalWidth, height: seen.naturalHeight };
    const scale = this.original.naturalWidth / width;
    return {
      image: this.original,
      left: crop[0] * scale,
      top: crop[1] * scale,
      width: (crop[2] - crop[0]) * scale,
      height: (crop[3] - crop[1]) * scale,
    };
  }

  #draw() {
    const { at } = this.focus.value;
    const { grid, seen } = this;
    this.node.hidden = true;
    if (this.view.value.lens === "off" || !this.input || !seen || !grid || at < 0 || at >= grid[0] * grid[1]) return;
    this.node.hidden = false;
    const { rows, columns, place } = layoutOf(grid, this.sheet);
    const [row, column] = place(at);
    const source = this.#source();
    const [width, height] = [source.width / columns, source.height / rows];
    const side = AROUND * Math.max(width, height);
    const left = source.left + (column + 0.5) * width - side / 2;
    const top = source.top + (row + 0.5) * height - side / 2;
    const context = context2d(this.canvas);
    context.clearRect(0, 0, SIDE, SIDE);
    context.imageSmoothingEnabled = side > SIDE; // enlarged pixels stay square
    context.imageSmoothingQuality = "high";
    context.drawImage(source.image, left, top, side, side, 0, 0, SIDE, SIDE);
    const box = {
      left: 0.5 - width / side / 2,
      top: 0.5 - height / side / 2,
      width: width / side,
      height: height / side,
    };
    for (const [name, share] of Object.entries(box)) this.patch.style.setProperty(name, `${100 * share}%`);
    this.patch.classList.toggle("locked", this.focus.value.locked);
    const isSeen = source.image === seen;
    const copied = isSeen ? 1 : Math.min(1, KEPT / Math.max(this.input.width, this.input.height));
    /** @param {number} span */
    const pixels = (span) => Math.round(span / copied);
    this.size.textContent = `${pixels(width)}\u2009×\u2009${pixels(height)} pixels${isSeen ? "" : " of the original"}`;
    this.canvas.setAttribute("aria-label", `The pixels around ${patchName(at, grid, this.sheet)}`);
    this.node.classList.toggle("east", column < columns / 2); // never over the patch itself
    this.node.classList.toggle("south", row < rows / 2);
  }
}
