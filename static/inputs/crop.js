// Choose the part of a picture that the model shall see: a frame in the proportions of its input, moved and resized
// over the original.

import { explanationPath, loadImage } from "../core/api.js";
import { el, addStyleSheet } from "../core/dom.js";

/** @import { ImageInput } from "../core/schemas.js" */

const LEAST = 16; // pixels of the original along the shorter side of the frame
const STEP = 0.02; // of the picture, for an arrow key
const CORNERS = ["nw", "ne", "sw", "se"];

/**
 * A frame of `aspect` (width over height) that lies in a picture of `width` x `height`: whole pixels, [x0, y0, x1, y1].
 * @param {{x: number, y: number, w: number}} frame
 * @param {number} aspect
 * @param {number} width
 * @param {number} height
 * @returns {number[]}
 */
function fitFrame({ x, y, w }, aspect, width, height) {
  const most = Math.min(width, Math.floor(height * aspect));
  const least = Math.min(most, Math.ceil(LEAST * Math.max(1, aspect)));
  const across = Math.round(Math.min(most, Math.max(least, w)));
  const down = Math.min(height, Math.max(1, Math.round(across / aspect)));
  const [left, top] = [
    Math.min(width - across, Math.max(0, Math.round(x))),
    Math.min(height - down, Math.max(0, Math.round(y))),
  ];
  return [left, top, left + across, top + down];
}

/**
 * Ask for a part of the picture of explanation `id`; `input` is what the API says of it. Resolves to [x0, y0, x1, y1]
 * in pixels of the upright original, to null for the picture as the model takes it by itself, and to undefined where
 * nothing shall change.
 * @param {string} id
 * @param {ImageInput} input
 * @returns {Promise<number[] | null | undefined>}
 */
export async function choosePart(id, input) {
  const [picture] = await Promise.all([
    loadImage(`${explanationPath(id)}/original.jpg`),
    addStyleSheet("workbench/crop.css"),
  ]);
  return new Promise((resolve) => new Cropping(picture, input, resolve));
}

class Cropping {
  /** @type {{x: number, y: number, box: number[], corner: string | undefined} | null} */
  #from = null; // where a drag began

  /**
   * @param {HTMLImageElement} picture
   * @param {ImageInput} input
   * @param {(crop: number[] | null | undefined) => void} resolve
   */
  constructor(picture, input, resolve) {
    const { width, height, seen, crop, frame } = input;
    this.width = width;
    this.height = height;
    this.aspect = seen[0] / seen[1];
    this.box = [0, 0, width, height];
    this.answer = undefined;
    this.handles = CORNERS.map((corner) => el("i", { class: corner, data: { corner }, "aria-hidden": "true" }));
    this.frame = el(
      "div",
      {
        class: "frame",
        tabIndex: 0,
        role: "application",
        "aria-roledescription": "frame",
        on: { keydown: (event) => this.#key(event) },
      },
      this.handles,
    );
    picture.alt = "The whole picture";
    this.stage = el("div", { class: "stage" }, picture, this.frame);
    this.stage.style.aspectRatio = `${width} / ${height}`;
    this.stage.style.setProperty("--aspect", String(width / height));
    /**
     * @param {string} name
     * @param {string} text
     * @param {(share: number) => void} set
     */
    const slide = (name, text, set) => {
      const range = el("input", {
        type: "range",
        id: `crop-${name}`,
        min: 0,
        max: 1000,
        step: 1,
        on: { input: () => set(Number(range.value) / 1000) },
      });
      return { range, node: el("div", { class: "slid" }, el("label", { for: range.id }, text), range) };
    };
    const most = () => Math.min(width, height * this.aspect);
    this.slides = {
      size: slide("size", "Size", (t) => this.#moveFrame({ w: t * most() }, true)),
      left: slide("left", "Left to right", (t) => this.#moveFrame({ x: t * (width - this.across) })),
      top: slide("top", "Top to bottom", (t) => this.#moveFrame({ y: t * (height - this.down) })),
    };
    this.statusLine = el("p", { class: "num quiet", role: "status" });
    /**
     * @param {string} text
     * @param {string} kind
     * @param {() => void} run
     */
    const finish = (text, kind, run) =>
      el(
        "button",
        {
          type: "button",
          class: kind,
          on: {
            click: () => {
              run();
              this.dialog.close();
            },
          },
        },
        text,
      );
    this.dialog = el(
      "dialog",
      { class: "cropping", "aria-labelledby": "cropping-title" },
      el("h2", { id: "cropping-title" }, "What shall the model see?"),
      el(
        "p",
        { class: "quiet" },
        "The model sees only what is inside the frame, at full resolution. Drag the frame or its corners.",
        el("span", { class: "keyboard" }, " With the keyboard: arrows move it, + and − resize it."),
      ),
      this.stage,
      el(
        "div",
        { class: "slides" },
        Object.values(this.slides).map(({ node }) => node),
      ),
      this.statusLine,
      el(
        "div",
        { class: "finish" },
        finish("Explain this part", "act", () => (this.answer = this.box)),
        finish("The picture as usual", "act plain", () => (this.answer = null)),
        finish("Cancel", "act plain", () => {}),
      ),
    );
    this.dialog.addEventListener("close", () => {
      this.dialog.remove();
      resolve(this.answer);
    });
    this.#listen();
    document.body.append(this.dialog);
    const begin = frame ?? crop;
    this.#moveFrame({ x: begin[0], y: begin[1], w: begin[2] - begin[0] });
    this.dialog.showModal();
    this.frame.focus();
  }

  get across() {
    return this.box[2] - this.box[0];
  }

  get down() {
    return this.box[3] - this.box[1];
  }

  /**
   * Move the frame, or resize it; `centred` keeps its middle where it is.
   * @param {{x?: number, y?: number, w?: number}} change
   * @param {boolean} [centred]
   */
  #moveFrame(change, centred = false) {
    const [x, y] = this.box;
    const next = { x, y, w: this.across, ...change };
    if (centred)
      Object.assign(next, { x: x + (this.across - next.w) / 2, y: y + (this.down - next.w / this.aspect) / 2 });
    this.box = fitFrame(next, this.aspect, this.width, this.height);
    this.#draw();
  }

  #draw() {
    const [x0, y0, x1, y1] = this.box;
    const { style } = this.frame;
    style.left = `${(100 * x0) / this.width}%`;
    style.top = `${(100 * y0) / this.height}%`;
    style.width = `${(100 * (x1 - x0)) / this.width}%`;
    style.height = `${(100 * (y1 - y0)) / this.height}%`;
    /**
     * @param {number} part
     * @param {number} room
     */
    const share = (part, room) => (room > 0 ? Math.round((1000 * part) / room) : 0);
    this.slides.size.range.valueAsNumber = share(x1 - x0, Math.min(this.width, this.height * this.aspect));
    this.slides.left.range.valueAsNumber = share(x0, this.width - (x1 - x0));
    this.slides.top.range.valueAsNumber = share(y0, this.height - (y1 - y0));
    this.slides.left.range.disabled = x1 - x0 === this.width;
    this.slides.top.range.disabled = y1 - y0 === this.height;
    this.statusLine.textContent = `columns ${x0} to ${x1} of ${this.width}, rows ${y0} to ${y1} of ${this.height}`;
    this.frame.setAttribute("aria-label", `The part that the model sees: ${this.statusLine.textContent}`);
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const [x, y] = this.box;
    const by = event.shiftKey ? 5 * STEP : STEP;
    /** @type {{[key: string]: {x?: number, y?: number}}} */
    const moves = {
      ArrowLeft: { x: x - by * this.width },
      ArrowRight: { x: x + by * this.width },
      ArrowUp: { y: y - by * this.height },
      ArrowDown: { y: y + by * this.height },
    };
    /** @type {{[key: string]: number}} */
    const sizes = { "+": 1.1, "=": 1.1, "-": 1 / 1.1 };
    if (moves[event.key]) this.#moveFrame(moves[event.key]);
    else if (sizes[event.key]) this.#moveFrame({ w: this.across * sizes[event.key] }, true);
    else return;
    event.preventDefault();
  }

  /** Listen to drags: inside they move the frame; at a corner they resize it, and the opposite corner stays. */
  #listen() {
    /** @param {PointerEvent} event */
    const at = (event) => {
      const box = this.stage.getBoundingClientRect();
      return [
        ((event.clientX - box.left) / box.width) * this.width,
        ((event.clientY - box.top) / box.height) * this.height,
      ];
    };
    this.frame.addEventListener("pointerdown", (event) => {
      this.frame.setPointerCapture(event.pointerId);
      const [x, y] = at(event);
      this.#from = { x, y, box: this.box, corner: /** @type {HTMLElement} */ (event.target).dataset.corner };
    });
    this.frame.addEventListener("pointermove", (event) => {
      if (!this.#from || !this.frame.hasPointerCapture(event.pointerId)) return;
      const {
        box: [x0, y0, x1, y1],
        corner,
      } = this.#from;
      const [x, y] = at(event);
      const [right, down] = [x - this.#from.x, y - this.#from.y];
      if (!corner) return this.#moveFrame({ x: x0 + right, y: y0 + down });
      const [west, north] = [corner.includes("w"), corner.includes("n")];
      // up to the edge, from the corner that stays
      const room = [west ? x1 : this.width - x0, north ? y1 : this.height - y0];
      const wanted = Math.max(x1 - x0 + (west ? -right : right), (y1 - y0 + (north ? -down : down)) * this.aspect);
      const w = fitFrame(
        { x: 0, y: 0, w: Math.min(wanted, room[0], room[1] * this.aspect) },
        this.aspect,
        this.width,
        this.height,
      );
      this.#moveFrame({ x: west ? x1 - w[2] : x0, y: north ? y1 - w[3] : y0, w: w[2] });
    });
    const end = () => (this.#from = null);
    this.frame.addEventListener("pointerup", end);
    this.frame.addEventListener("pointercancel", end);
  }
}
