// The plane of two principal components: a point for each row, drawn by uPlot. A rectangle drawn with the pointer shows
// the rows inside it alone.

import { addressOf, el } from "../core/dom.js";

/** @import { CollectionPoints } from "../core/schemas.js" */

const HEIGHT = 300; // pixels
const NEAR = 14; // pixels within which a point is pointed at
const SMALLEST = 6; // pixels of a rectangle; a smaller one is a press, which takes it away
const MANY = 3000; // points that are drawn small

/**
 * A colour of the page, as a canvas takes it.
 * @param {HTMLElement} place
 * @param {string} name
 */
function colour(place, name) {
  const probe = el("i", { hidden: true });
  probe.style.color = `var(${name})`;
  place.append(probe);
  const { color } = getComputedStyle(probe);
  probe.remove();
  return color;
}

/** The plot of one collection's points. */
export class Plane {
  /** @type {any} */
  #plot = null;
  /** @type {CollectionPoints | null} */
  #points = null;
  /** @type {Set<number> | null} indices of the rows on show; null: all */
  #shown = null;
  /** @type {number[] | null} */
  #box = null;
  /** @type {any} */
  #uPlot = null;

  /**
   * `onBox(box)` is called with x0, y0, x1, y1 of a rectangle, or null where it is taken away.
   * @param {HTMLElement} place
   * @param {string | null} thumbnails address of the thumbnails, up to the index; null for texts
   * @param {(box: number[] | null) => void} onBox
   */
  constructor(place, thumbnails, onBox) {
    this.place = place;
    this.thumbnails = thumbnails;
    this.onBox = onBox;
    this.near = el("img", { class: "near", alt: "", hidden: true });
    addEventListener("scheme", () => this.#draw());
    new ResizeObserver(() => this.#plot?.setSize({ width: this.place.clientWidth, height: HEIGHT })).observe(place);
  }

  /**
   * Show these points.
   * @param {CollectionPoints} points
   */
  async show(points) {
    this.#points = points;
    this.#uPlot ??= (await import("../vendor/uPlot.esm.js")).default;
    this.#draw();
  }

  /**
   * Mark the rows with these indices (null: all), and the rectangle.
   * @param {number[] | null} indices
   * @param {number[] | null} box
   */
  mark(indices, box) {
    this.#shown = indices && new Set(indices);
    this.#box = box;
    if (this.#plot) {
      this.#plot.setData(this.#series());
      this.#showBox();
    }
  }

  /** The columns of the plot: x, then y of the rows that are not on show, right or unjudged, and wrong. */
  #series() {
    const { index, x, y, right } = /** @type {CollectionPoints} */ (this.#points);
    const isShown = (/** @type {number} */ i) => !this.#shown || this.#shown.has(index[i]);
    const where = (/** @type {(i: number) => boolean} */ holds) => y.map((value, i) => (holds(i) ? value : null));
    return [
      x,
      where((i) => !isShown(i)),
      where((i) => isShown(i) && right[i] !== false),
      where((i) => isShown(i) && right[i] === false),
    ];
  }

  #draw() {
    if (!this.#points || !this.#uPlot) return;
    this.#plot?.destroy();
    this.#plot = null;
    this.place.replaceChildren();
    if (!this.#points.index.length) {
      this.place.append(el("p", { class: "quiet" }, "This model gives no embedding to draw."));
      return;
    }
    const size = this.#points.index.length > MANY ? 3 : 5;
    const dots = (/** @type {string} */ stroke) => ({
      stroke: "transparent",
      paths: () => null,
      points: { show: true, size, width: 0, fill: stroke, stroke },
    });
    this.#plot = new this.#uPlot(
      {
        width: this.place.clientWidth,
        height: HEIGHT,
        padding: [8, 8, 8, 8],
        scales: { x: { time: false } },
        axes: [{ show: false }, { show: false }],
        legend: { show: false },
        cursor: { x: false, y: false, points: { show: false }, drag: { x: true, y: true, setScale: false } },
        series: [{}, ...["--rule", "--soft", "--for"].map((name) => dots(colour(this.place, name)))],
        hooks: {
          setSelect: [(/** @type {any} */ plot) => this.#select(plot)],
          setCursor: [(/** @type {any} */ plot) => this.#point(plot)],
        },
      },
      this.#series(),
      this.place,
    );
    this.place.append(this.near);
    let [left, top] = [0, 0];
    const over = /** @type {HTMLElement} */ (this.#plot.over);
    over.addEventListener("mousedown", ({ clientX, clientY }) => ([left, top] = [clientX, clientY]));
    over.addEventListener("click", ({ clientX, clientY }) => {
      if (this.#box && Math.hypot(clientX - left, clientY - top) < SMALLEST) this.onBox(null);
    });
    followTouch(over);
    this.#showBox();
  }

  #showBox() {
    if (!this.#box) return void this.#plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
    const [x0, y0, x1, y1] = this.#box;
    const [left, right] = [this.#plot.valToPos(x0, "x"), this.#plot.valToPos(x1, "x")];
    const [top, bottom] = [this.#plot.valToPos(y1, "y"), this.#plot.valToPos(y0, "y")];
    this.#plot.setSelect({ left, top, width: right - left, height: bottom - top }, false);
  }

  /** @param {any} plot */
  #select(plot) {
    const { left, top, width, height } = plot.select;
    if (width < SMALLEST || height < SMALLEST) return;
    const [x0, x1] = [plot.posToVal(left, "x"), plot.posToVal(left + width, "x")];
    const [y0, y1] = [plot.posToVal(top + height, "y"), plot.posToVal(top, "y")];
    this.onBox([x0, y0, x1, y1]);
  }

  /**
   * Show the picture of the point under the pointer.
   * @param {any} plot
   */
  #point(plot) {
    const { left, top } = plot.cursor;
    const at = this.thumbnails === null || left < 0 ? -1 : this.#nearest(plot, left, top);
    this.near.hidden = at < 0;
    if (at < 0) return;
    const { index } = /** @type {CollectionPoints} */ (this.#points);
    const source = addressOf(`${this.thumbnails}${index[at]}.jpg`);
    if (this.near.getAttribute("src") !== source) this.near.src = source;
    this.near.style.left = `${Math.min(left + 14, this.place.clientWidth - 84)}px`;
    this.near.style.top = `${Math.max(0, top - 84)}px`;
  }

  /**
   * The number of the point nearest to a position, -1 where none is near.
   * @param {any} plot
   * @param {number} left
   * @param {number} top
   */
  #nearest(plot, left, top) {
    const { x, y } = /** @type {CollectionPoints} */ (this.#points);
    const [low, high] = [plot.posToVal(left - NEAR, "x"), plot.posToVal(left + NEAR, "x")];
    let [found, nearest] = [-1, NEAR];
    for (let i = 0; i < x.length; i++) {
      if (x[i] < low || x[i] > high) continue;
      const distance = Math.hypot(plot.valToPos(x[i], "x") - left, plot.valToPos(y[i], "y") - top);
      if (distance < nearest) [found, nearest] = [i, distance];
    }
    return found;
  }
}

/**
 * Let a finger draw rectangles: uPlot listens to a mouse alone.
 * @param {HTMLElement} over
 */
function followTouch(over) {
  const names = { pointerdown: "mousedown", pointermove: "mousemove", pointerup: "mouseup" };
  for (const [name, mouse] of Object.entries(names))
    over.addEventListener(name, (event) => {
      const { pointerType, clientX, clientY } = /** @type {PointerEvent} */ (event);
      if (pointerType !== "touch") return;
      event.preventDefault();
      over.dispatchEvent(new MouseEvent(mouse, { clientX, clientY, button: 0, bubbles: true, cancelable: true }));
    });
}
