// The heads of all blocks as a grid of small maps, a row a block: drawn as they come, and walked with the arrow keys.

import { limits } from "../core/colour.js";
import { context2d, el, number } from "../core/dom.js";
import { patchName, strongest } from "./mapcanvas.js";
import { paint } from "./heatmap.js";

/**
 * @import { Grid, View } from "../core/types.js"
 * @import { GreyBase } from "./types.js"
 */

/**
 * A head of a block, counted from 0; "mean" is the mean of its heads.
 * @typedef {{block: number, head: number | "mean"}} Head
 */

const SIDE = 64; // pixels of a small canvas; of a text it is as wide and shows the tokens side by side
/** @type {{[key: string]: number[]}} */
const STEPS = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };

/**
 * A head in words.
 * @param {{block: number | string, head: number | string}} head
 * @returns {string}
 */
export const headName = ({ block, head }) =>
  `Block ${Number(block) + 1}, ${head === "mean" ? "mean of the heads" : `head ${Number(head) + 1}`}`;

/** @type {(data: DOMStringMap) => Head} */
const headOf = ({ block, head }) => ({ block: Number(block), head: head === "mean" ? head : Number(head) });

/** The grid. */
export class HeadGrid {
  /** @type {(number | null)[]} */
  #heads = []; // how many each block has
  /** @type {Grid | null} */
  #grid = null; // rows and columns of the patches; null for a text
  #signed = false;

  /**
   * cell     (head) => {scores}: its map; null where it has none, undefined while it is not there yet
   * content  (scores) => those of patches or words
   * base     () => what the maps of patches lie on, null while that is not there
   * view     () => how maps are looked at
   * now      () => the head that is large
   * choose   a head was clicked or walked to
   * onView   rows came into view, or left it: see `inView`
   * @param {{cell: (head: Head) => {scores: number[]} | null | undefined, content: (scores: number[]) => number[],
   *   base: () => OffscreenCanvas | null, view: () => View, now: () => Head, choose: (head: Head) => void,
   *   onView: () => void}} from
   */
  constructor(from) {
    this.from = from;
    this.inView = new Set(); // blocks
    this.node = el("div", {
      class: "heads",
      role: "group",
      "aria-label": "Blocks by heads",
      on: { click: (event) => this.#click(event), keydown: (event) => this.#walk(event) },
    });
    this.watcher = new IntersectionObserver((entries) => this.#seen(entries), { rootMargin: "150px 0px" });
  }

  /**
   * Render one button for each head, and draw the maps that are there.
   * @param {{heads: (number | null)[], grid: Grid | null, signed: boolean}} answer
   */
  lay({ heads, grid, signed }) {
    this.#heads = heads;
    this.#grid = grid;
    this.#signed = signed;
    const count = Math.max(...heads.map((headCount) => headCount ?? 0));
    /** @type {Head["head"][]} */
    const names = [...Array(count).keys(), "mean"];
    const shape = [heads.length, count, ...(grid ?? [])].join();
    if (this.node.dataset.shape !== shape) {
      this.node.dataset.shape = shape;
      const top = [
        el("span"),
        ...names.map((name) => el("span", { class: "axis" }, name === "mean" ? "mean" : name + 1)),
      ];
      /**
       * @param {number | null} _
       * @param {number} block
       */
      const row = (_, block) => [
        el("span", { class: "axis", data: { row: block } }, block + 1),
        ...names.map((name) =>
          el(
            "button",
            { type: "button", tabIndex: -1, data: { block, head: name } },
            el("canvas", { width: SIDE, height: grid ? Math.round((SIDE * grid[0]) / grid[1]) : SIDE / 3 }),
          ),
        ),
      ];
      this.node.style.setProperty("--n", String(count + 1));
      this.node.replaceChildren(...top, ...heads.flatMap(row));
      this.watcher.disconnect();
      this.inView.clear();
      for (const axis of this.node.querySelectorAll("[data-row]")) this.watcher.observe(axis);
    }
    this.draw();
  }

  /** Draw the maps that are there. */
  draw() {
    if (!this.#heads.length) return;
    const [grid, signed] = [this.#grid, this.#signed];
    const pageView = this.from.view();
    const view = { ...pageView, grid: "patches", opacity: grid ? pageView.opacity : 100 };
    const buttons = [...this.node.querySelectorAll("button")];
    const cells = buttons.map(({ dataset }) => this.from.cell(headOf(dataset)));
    const lists = cells.map((cell) => (cell ? this.from.content(cell.scores) : []));
    const shared = view.scale === "shared" ? limits(lists, signed) : null;
    const base = grid ? this.from.base() : plain();
    buttons.forEach((button, i) => {
      button.disabled = cells[i] === null;
      button.setAttribute("aria-busy", String(cells[i] === undefined));
      const map = { scores: lists[i], grid: grid ?? [1, lists[i].length], signed };
      if (base)
        paint(
          /** @type {HTMLCanvasElement} */ (button.firstChild),
          base,
          cells[i] ? map : null,
          shared ?? limits([lists[i]], signed),
          view,
        );
      const best = cells[i] ? strongest(lists[i]) : 0;
      const where =
        cells[i] === undefined
          ? "not there yet"
          : cells[i] === null
            ? "no attention map"
            : grid
              ? `strongest at ${patchName(best, grid, /** @type {GreyBase | null} */ (base)?.sheet)}, ${number(lists[i][best])}`
              : `strongest ${number(lists[i][best])}`;
      button.setAttribute("aria-label", `${headName(headOf(button.dataset))}: ${where}`);
    });
  }

  /**
   * Mark the head that is large; null: none is.
   * @param {Head | null} large
   */
  mark(large) {
    for (const button of this.node.querySelectorAll("button")) {
      const { block, head } = headOf(button.dataset);
      const on = block === large?.block && head === large?.head;
      button.setAttribute("aria-pressed", String(on));
      button.tabIndex = on ? 0 : -1;
    }
  }

  /** @param {IntersectionObserverEntry[]} entries */
  #seen(entries) {
    for (const { target, isIntersecting } of entries) {
      const row = Number(target.getAttribute("data-row"));
      if (isIntersecting) this.inView.add(row);
      else this.inView.delete(row);
    }
    this.from.onView();
  }

  /** @param {any} event */
  #click(event) {
    const { dataset } = event.target.closest("button") ?? {};
    if (dataset) this.from.choose(headOf(dataset));
  }

  /** @param {KeyboardEvent} event */
  #walk(event) {
    if (!(event.key in STEPS) || event.ctrlKey || event.metaKey || event.altKey) return;
    const [down, right] = STEPS[event.key];
    const { block, head } = this.from.now();
    /** @type {Head["head"][]} */
    const names = [...Array(this.#heads[block] ?? 0).keys(), "mean"];
    event.preventDefault();
    this.from.choose({
      block: Math.min(this.#heads.length - 1, Math.max(0, block + down)),
      head: names[Math.min(names.length - 1, Math.max(0, names.indexOf(head) + right))],
    });
    /** @type {HTMLElement | null} */ (this.node.querySelector("[aria-pressed=true]"))?.focus();
  }
}

/** A ground without a picture, in the colour of the page. */
function plain() {
  const canvas = new OffscreenCanvas(1, 1);
  const context = context2d(canvas);
  context.fillStyle = getComputedStyle(document.documentElement).getPropertyValue("--card");
  context.fillRect(0, 0, 1, 1);
  return canvas;
}
