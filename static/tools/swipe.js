// Two maps at the same place: one is wiped over the other by a slider, or they are shown in turn.

import { context2d, el } from "../core/dom.js";
import { MapCanvas, patchName, shownScore } from "../maps/mapcanvas.js";
import { layoutOf } from "../maps/patches.js";
import { paint } from "../maps/heatmap.js";
import { largeBase } from "../maps/largebase.js";
import { isMethod } from "../core/registry.js";
import { extremePairs, mapKey } from "../plates/mappairs.js";

/**
 * @import { Focus } from "../core/types.js"
 * @import { Drawable, MapPlate } from "../maps/types.js"
 * @import { MapPlateSet, Tool, WorkbenchView } from "../plates/types.js"
 */

const WIDTH = 1120; // pixels of the canvas
const NAMES = ["first", "second"];
// Changes a second. Two changes are one flash: the fastest is one flash a second, and WCAG 2.3.1 allows three.
/** @type {{[rate: string]: string}} */
const RATES = { 0.5: "every 2 s", 1: "every second", 2: "twice a second" };
const still = matchMedia("(prefers-reduced-motion: reduce)");

/**
 * Two maps at the same place.
 * @param {HTMLElement} root
 * @param {WorkbenchView} workbench
 * @returns {Tool}
 */
export const open = (root, workbench) => new Swipe(root, workbench);

/**
 * A map that is on the page. The key is the spec, and the column where there are several.
 * @typedef {{key: string, title: string, plate: MapPlate}} Choice
 */

/**
 * @param {MapPlateSet} plateSet
 * @returns {Choice[]}
 */
const choicesOf = (plateSet) =>
  plateSet.everyPlate
    .filter((plate) => plate.map?.grid && plate.base)
    .map((plate) => ({ key: mapKey(plate), title: plate.name, plate }));

/**
 * Choose the first two maps: of the methods' maps of one answer the two that are least alike, else the first two.
 * @param {Choice[]} choices
 */
function beginning(choices) {
  const [first] = choices;
  const maps = choices.filter(({ plate }) => isMethod(plate.variant) && plate.map?.target === first.plate.map?.target);
  const found = extremePairs(maps, ({ plate }) => plate.map?.scores ?? []);
  return found ? found.least.pair : choices.slice(0, 2);
}

/** Both maps on one canvas: the first left of the border, the second right of it. */
class Stage extends MapCanvas {
  /** @type {Choice[]} */
  pair = [];
  border = 0.5; // share of the width
  /** @type {OffscreenCanvas[]} */
  #painted = [];
  /** @type {OffscreenCanvas | null} */
  #base = null; // a finer picture in place of the plates' own

  /**
   * @param {Choice[]} pair
   * @param {OffscreenCanvas | null} [base]
   */
  show(pair, base = null) {
    this.pair = pair;
    this.#base = base;
    const [first] = pair;
    if (first) this.setBase(base ?? first.plate.base); // which draws
    this.setMap(/** @type {Drawable | null} */ (first?.plate.map ?? null));
    this.mark(this.focus.value);
  }

  /** Return whether both maps are still there: another picture removes them before its own come. */
  get isWhole() {
    return this.pair.length === 2 && this.pair.every(({ plate }) => plate.map && plate.base);
  }

  draw() {
    if (!this.isWhole) return;
    this.#painted = this.pair.map(({ plate }) => {
      const canvas = new OffscreenCanvas(this.canvas.width, this.canvas.height);
      const [map, view] = plate.mapCanvas.look(this.view.value);
      paint(canvas, this.#base ?? plate.base, map, plate.ends, view);
      return canvas;
    });
    this.compose();
  }

  compose() {
    const context = context2d(this.canvas);
    const { width, height } = this.canvas;
    const at = Math.round(width * this.border);
    const [first, second] = this.#painted;
    if (first && at > 0) context.drawImage(first, 0, 0, at, height, 0, 0, at, height);
    if (second && at < width) context.drawImage(second, at, 0, width - at, height, at, 0, width - at, height);
    this.node.dataset.drawn = String(Boolean(first && second));
  }

  /**
   * Show the value of the visible map at the patch in focus.
   * @param {Focus} value
   */
  mark(value) {
    super.mark(value);
    const { at } = value;
    const { columns, place } = layoutOf(this.map?.grid ?? [1, 1], this.sheet);
    const seen = this.pair[at >= 0 && (place(at)[1] + 0.5) / columns >= this.border ? 1 : 0]?.plate;
    if (this.isWhole && at >= 0 && seen?.map && at < seen.map.scores.length)
      this.valueTag.show(shownScore(seen.map, at), seen.mapCanvas.rankOf(at));
    else this.valueTag.show();
  }
}

class Swipe {
  #timer = 0;
  /** @type {Choice[]} */
  #choices = [];
  /** @type {Choice[]} */
  #beginning = []; // the pair where none is chosen

  /**
   * @param {HTMLElement} root
   * @param {WorkbenchView} workbench
   */
  constructor(root, workbench) {
    this.root = root;
    /** @type {Choice[]} */
    this.pair = [];
    this.workbench = workbench;
    this.tool = workbench.toolStates.of("swipe");
    const { focus, view } = workbench;
    this.selects = NAMES.map((name) =>
      el("select", { id: `swipe-${name}`, on: { change: (event) => this.tool.set({ [name]: event.target.value }) } }),
    );
    const fields = this.selects.map((select, i) =>
      el("span", { class: "asked" }, el("label", { for: select.id }, i ? "and" : "Between"), select),
    );
    this.stage = new Stage({ name: "Two maps", focus, view, onRead: () => {}, width: WIDTH });
    this.edge = el("div", { class: "edge", "aria-hidden": "true" });
    this.stage.node.append(this.edge);
    this.slider = el("input", {
      type: "range",
      min: 0,
      max: 100,
      step: 1,
      id: "swipe-border",
      on: { input: () => this.#wipe(Number(this.slider.value)) },
    });
    this.other = el(
      "button",
      { type: "button", class: "act plain", on: { click: () => this.#showOther(true) } },
      "Show the other",
    );
    this.blink = el(
      "button",
      { type: "button", class: "act plain", "aria-pressed": "false", on: { click: () => this.#toggle() } },
      "Blink",
    );
    this.rate = el(
      "select",
      { id: "swipe-rate", on: { change: () => this.isBlinking && this.#start() } },
      Object.entries(RATES).map(([value, text]) => el("option", { value, selected: value === "1" }, text)),
    );
    this.calm = el("p", { class: "quiet" });
    this.seen = el("p", { class: "seen-now" });
    this.reading = el("p", { class: "quiet num", role: "status", "aria-live": "polite" });
    const sliding = el("div", { class: "sliding" }, el("label", { for: this.slider.id }, "Wipe"), this.slider);
    const turning = el(
      "div",
      { class: "turning" },
      this.other,
      this.blink,
      el("span", { class: "asked" }, el("label", { for: this.rate.id }, "Change"), this.rate),
    );
    root.replaceChildren(
      el("div", { class: "choose" }, fields),
      el("div", { class: "stage" }, this.seen, this.stage.node, sliding, turning, this.calm, this.reading),
    );
    this.#drag();
    this.stage.node.addEventListener("keydown", (event) => {
      if (event.key !== " ") return;
      event.preventDefault();
      this.#showOther(true);
    });
    this.tool.follow(() => this.#pick());
    view.follow(() => this.stage.draw());
    focus.follow((value) => {
      this.stage.mark(value);
      this.#read();
    });
    still.addEventListener("change", () => this.#allow());
    root.closest("details")?.addEventListener("toggle", () => this.#stop());
    this.#allow();
  }

  get isBlinking() {
    return this.#timer !== 0;
  }

  show() {
    this.#choices = choicesOf(this.workbench.plateSet);
    this.#beginning = this.#choices.length ? beginning(this.#choices) : [];
    this.selects.forEach((select) =>
      select.replaceChildren(...this.#choices.map(({ key, title }) => el("option", { value: key }, title))),
    );
    this.#pick();
  }

  /** The two maps that are chosen, as far as they are there; else the two that are least alike. */
  #pick() {
    const usual = this.#beginning;
    /** @param {string | undefined} wanted */
    const find = (wanted) => this.#choices.find(({ key, plate }) => key === wanted || plate.variant.spec === wanted);
    const pair = NAMES.flatMap((name, i) => find(this.tool.value[name]) ?? usual[Math.min(i, usual.length - 1)] ?? []);
    pair.forEach(({ key }, i) => (this.selects[i].value = key));
    this.pair = pair;
    this.stage.show(pair);
    this.#place(Number(this.tool.value.border ?? 50));
    this.#read();
    this.#refine(pair);
  }

  /**
   * Load a finer picture in place of the small one; the plates' own where they are on different ones.
   * @param {Choice[]} pair
   */
  async #refine(pair) {
    const ids = new Set(pair.flatMap(({ plate }) => plate.actions.id ?? []));
    if (ids.size !== 1) return;
    const base = await largeBase([...ids][0]).catch(() => null);
    if (base && this.pair === pair) this.stage.show(pair, base);
  }

  /**
   * Put the border at `percent` of the width.
   * @param {number} percent
   */
  #wipe(percent) {
    this.#stop();
    this.tool.set({ border: percent === 50 ? undefined : String(percent) }); // which places it
    this.#place(percent);
  }

  /** @param {number} percent */
  #place(percent) {
    const at = Number.isFinite(percent) ? Math.min(100, Math.max(0, percent)) : 50;
    this.slider.valueAsNumber = at;
    this.slider.setAttribute("aria-valuetext", `${at}\u2009% of the width shows the first map`);
    this.#border(at / 100);
  }

  /** @param {number} share */
  #border(share) {
    this.stage.border = share;
    this.stage.compose();
    this.stage.mark(this.workbench.focus.value);
    this.edge.style.left = `${100 * share}%`;
    this.edge.hidden = share === 0 || share === 1;
    const [first, second] = this.pair.map(({ title }) => title);
    if (!second) return void (this.seen.textContent = "At least two maps are needed.");
    this.seen.replaceChildren(
      ...(share > 0 ? [el("b", {}, share < 1 ? "left " : "shown "), first] : []),
      share > 0 && share < 1 ? " · " : "",
      ...(share < 1 ? [el("b", {}, share > 0 ? "right " : "shown "), second] : []),
    );
    this.stage.node.setAttribute(
      "aria-label",
      `${first} and ${second}. Space shows the other, arrow keys walk the patches.`,
    );
  }

  /** Show the whole of one of the two: of the one that is less visible. */
  #showOther(byHand = false) {
    if (byHand) this.#stop();
    this.#border(this.stage.border > 0.5 ? 0 : 1);
  }

  #toggle() {
    if (this.isBlinking) this.#stop();
    else this.#start();
  }

  #start() {
    clearInterval(this.#timer);
    this.#timer = still.matches ? 0 : setInterval(() => this.#showOther(), 1000 / Number(this.rate.value));
    if (this.isBlinking) this.#showOther();
    this.blink.setAttribute("aria-pressed", String(this.isBlinking));
  }

  #stop() {
    clearInterval(this.#timer);
    this.#timer = 0;
    this.blink.setAttribute("aria-pressed", "false");
  }

  /** Disable blinking for people whose system asks for less motion. */
  #allow() {
    if (still.matches) this.#stop();
    this.blink.disabled = this.rate.disabled = still.matches;
    this.calm.textContent = still.matches
      ? "Your system asks for less motion, so nothing blinks by itself. Press “Show the other” to change the map."
      : "";
  }

  /** Move the border with the pointer that drags it. */
  #drag() {
    const { edge } = this;
    edge.addEventListener("pointerdown", (event) => edge.setPointerCapture(event.pointerId));
    edge.addEventListener("pointermove", (event) => {
      if (!edge.hasPointerCapture(event.pointerId)) return;
      event.stopPropagation();
      const box = this.stage.node.getBoundingClientRect();
      this.#wipe(Math.round(Math.min(100, Math.max(0, (100 * (event.clientX - box.left)) / box.width))));
    });
    edge.addEventListener("click", (event) => event.stopPropagation());
  }

  /** Describe both maps at the patch in focus. */
  #read() {
    const { at } = this.workbench.focus.value;
    const [first] = this.pair;
    const map = first?.plate.map;
    const inside = this.stage.isWhole && map?.grid && at >= 0 && at < map.scores.length;
    /** @param {Choice} choice */
    const valueOf = ({ title, plate }) =>
      plate.map && at < plate.map.scores.length
        ? `${title} ${shownScore(plate.map, at)} (${plate.mapCanvas.rankOf(at)})`
        : `${title} –`;
    this.reading.textContent = inside
      ? `${patchName(at, map.grid ?? [], this.stage.sheet)}: ${this.pair.map(valueOf).join(", ")}`
      : "\u00a0";
  }
}
