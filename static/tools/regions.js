// The regions of several prompts: the picture painted by the prompt whose map wins each patch, and how much of it each
// prompt wins.

import { slider } from "../core/controls.js";
import { context2d, el, number, percent, signedNumber } from "../core/dom.js";
import { isForwardOnly, isRelative } from "../core/registry.js";
import { onOneUnit } from "../core/stats.js";
import { VERDICTS } from "../core/targets.js";
import { regionLinks } from "../export/export.js";
import { SANS } from "../export/typefaces.js";
import { MapCanvas, patchName, shownScore } from "../maps/mapcanvas.js";
import { drawnScores } from "../maps/heatmap.js";

/**
 * @import { Abstention, Target } from "../core/schemas.js"
 * @import { Focus, Grid, Variant } from "../core/types.js"
 * @import { Drawable } from "../maps/types.js"
 * @import { WorkbenchView } from "../plates/types.js"
 */

// The colours of Okabe and Ito (2008), which people who see fewer colours can tell apart, and ink for an eighth prompt.
/** @type {number[][]} */
export const COLOURS = [
  [230, 159, 0],
  [86, 180, 233],
  [0, 158, 115],
  [240, 228, 66],
  [0, 114, 178],
  [213, 94, 0],
  [204, 121, 167],
  [28, 26, 21],
];
const COVER = 0.62; // of the paint over the picture
export const LETTERS = "ABCDEFGH";
// What a patch needs of the largest score, in percent, unless somebody moves it. Cosines are above zero almost
// everywhere: on COCO128, of the patches of nothing asked for, 91 % are won at 5 %, and 18 % at 40 % (of things, 48 %).
const USUAL_THRESHOLD = 5;
const COSINE_THRESHOLD = 40;
const NEVER = -1e9; // the score with which a prompt competes that was not found for sure
/** @type {number} */
export const NOBODY = -1;

/**
 * The index of the largest of several maps at a place, or NOBODY where the largest is not above `threshold` (0 to 1) of
 * the largest score of all of them: nothing there speaks for any prompt, or too little.
 * @param {number[]} scores
 * @param {number} threshold
 * @param {number} most
 * @returns {number}
 */
export function winner(scores, threshold, most) {
  let best = 0;
  for (let i = 1; i < scores.length; i++) if (scores[i] > scores[best]) best = i;
  return scores[best] > Math.max(0, threshold * most) ? best : NOBODY;
}

/**
 * The winner of every patch: `lists` are the scores of the prompts' maps on one unit.
 * @param {number[][]} lists
 * @param {number} threshold
 * @returns {number[]}
 */
export function winners(lists, threshold) {
  const most = Math.max(...lists.map((scores) => scores.reduce((a, b) => Math.max(a, b), -Infinity)));
  return lists[0].map((_, i) =>
    winner(
      lists.map((scores) => scores[i]),
      threshold,
      most,
    ),
  );
}

/** The picture with its winners; the focus walks and is held as on every other map. */
class Painting extends MapCanvas {
  /** @type {number[][] | null} */
  lists = null;
  /** @type {number[]} */
  won = [];

  /**
   * `lists` are the scores with which each prompt competes, `won` the place of each patch's winner; null where maps are
   * missing. Where nobody wins, the largest score is shown.
   * @param {number[][] | null} lists
   * @param {number[]} won
   * @param {Grid | undefined} grid
   * @param {boolean | undefined} signed
   */
  paint(lists, won, grid = [], signed = false) {
    this.lists = lists;
    this.won = won;
    this.signed = signed;
    this.setMap(lists && { scores: won.map((_, i) => Math.max(...lists.map((scores) => scores[i]))), grid, signed });
    this.draw();
    this.mark(this.focus.value);
  }

  draw() {
    const { base, lists, map } = this;
    if (base) {
      const context = context2d(this.canvas);
      context.drawImage(base, 0, 0, this.canvas.width, this.canvas.height);
      if (lists && map) this.#colours(context, lists, map);
    }
    this.node.dataset.drawn = String(Boolean(this.base && this.lists));
  }

  /**
   * @param {OffscreenCanvasRenderingContext2D} context
   * @param {number[][]} lists
   * @param {Drawable} map
   */
  #colours(context, lists, { grid: [rows, columns] }) {
    const { grid, threshold } = this.view.value;
    const drawn = lists.map((scores) => drawnScores(scores, [rows, columns], grid));
    const { fine } = drawn[0];
    const most = Math.max(...lists.flat());
    const pixels = new ImageData(columns * fine, rows * fine);
    for (let i = 0; i < drawn[0].scores.length; i++) {
      const at = winner(
        drawn.map(({ scores }) => scores[i]),
        threshold / 100,
        most,
      );
      if (at !== NOBODY) pixels.data.set([...COLOURS[at], 255 * COVER], 4 * i);
    }
    const layer = new OffscreenCanvas(pixels.width, pixels.height);
    context2d(layer).putImageData(pixels, 0, 0);
    context.imageSmoothingEnabled = fine > 1;
    context.drawImage(layer, 0, 0, this.canvas.width, this.canvas.height);
    this.#letters(context, lists, rows, columns);
  }

  /**
   * The letter of each prompt on the patch where it is strongest of those that it wins.
   * @param {OffscreenCanvasRenderingContext2D} context
   * @param {number[][]} lists
   * @param {number} rows
   * @param {number} columns
   */
  #letters(context, lists, rows, columns) {
    const size = Math.max(20, this.canvas.width / 20);
    context.font = `700 ${size * 0.8}px ${SANS}`;
    context.textAlign = "center";
    context.textBaseline = "middle";
    lists.forEach((scores, at) => {
      const wonPatches = this.won.map((wonBy, i) => (wonBy === at ? i : -1)).filter((i) => i >= 0);
      if (!wonPatches.length) return;
      const i = wonPatches.reduce((a, b) => (scores[b] > scores[a] ? b : a));
      const x = (((i % columns) + 0.5) / columns) * this.canvas.width;
      const y = ((Math.floor(i / columns) + 0.5) / rows) * this.canvas.height;
      context.fillStyle = "rgb(28 26 21 / .85)";
      context.fillRect(x - size / 2, y - size / 2, size, size);
      context.fillStyle = "#fffefb";
      context.fillText(LETTERS[at], x, y + 1);
    });
  }

  /** @param {Focus} value */
  mark(value) {
    super.mark(value);
    const { at } = value;
    if (this.lists && this.map && at >= 0 && at < this.won.length)
      this.valueTag.show(this.won[at] === NOBODY ? "none" : `${LETTERS[this.won[at]]} ${shownScore(this.map, at)}`);
  }
}

/**
 * The method whose maps are compared: the one of the address where it can be, else the first that depends on the
 * prompt.
 * @param {WorkbenchView} workbench
 * @returns {Variant | undefined}
 */
const comparedVariant = (workbench) => {
  const able = comparableVariants(workbench);
  return able.find(({ spec }) => spec === workbench.view.value.regions) ?? able[0];
};

/** @param {WorkbenchView} workbench */
const comparableVariants = ({ specs, registry }) =>
  specs
    .flatMap((spec) => registry.plate(spec) ?? [])
    .filter((variant) => variant.class_specific && !isRelative(variant.spec));

/** The first picture of several prompts: which of them wins where. */
export class Regions {
  /** @param {WorkbenchView} workbench it has the stores, the maps and the methods on show */
  constructor(workbench) {
    this.workbench = workbench;
    /** @type {Target[]} */
    this.targets = [];
    const { focus, view } = workbench;
    this.mapCanvas = new Painting({ name: "Which prompt wins each patch", focus, view, onRead: () => {} });
    this.method = el("select", { id: "regions-method", on: { change: () => this.#choose(this.method.value) } });
    this.legend = el("ul", { class: "legend", "aria-label": "Share of the picture that each prompt wins" });
    this.reading = el("p", { class: "quiet num", role: "status", "aria-live": "polite" });
    this.take = el("p", { class: "take" });
    const threshold = slider(view, "threshold", "None below", { max: 50, step: 1 });
    threshold.title = "A patch belongs to no prompt if its score is below this share of the largest score";
    this.node = el(
      "section",
      { class: "regions painting", "aria-labelledby": "regions-title", hidden: true },
      el(
        "div",
        { class: "held" },
        this.mapCanvas.node,
        el(
          "div",
          { class: "side" },
          el("h2", { id: "regions-title" }, "Which prompt wins where"),
          this.legend,
          el("div", { class: "choices" }, el("label", { class: "choice" }, "By", this.method), threshold),
          this.reading,
          this.take,
        ),
      ),
    );
    view.follow(
      (now, before) =>
        (now.regions !== before.regions || now.threshold !== before.threshold || now.grid !== before.grid) &&
        this.draw(),
    );
    focus.follow((value) => {
      this.mapCanvas.mark(value);
      this.#read();
    });
  }

  /**
   * Set the grey picture.
   * @param {OffscreenCanvas | null} base
   */
  setBase(base) {
    this.mapCanvas.setBase(base);
  }

  /**
   * Compare the maps of this method, with the threshold for its kind unless another was set.
   * @param {string} spec
   */
  #choose(spec) {
    const { view } = this.workbench;
    const variant = comparableVariants(this.workbench).find((other) => other.spec === spec);
    const isUntouched = [USUAL_THRESHOLD, COSINE_THRESHOLD].includes(Number(view.value.threshold));
    const threshold = variant && isForwardOnly(variant) ? COSINE_THRESHOLD : USUAL_THRESHOLD;
    view.set(isUntouched ? { regions: spec, threshold } : { regions: spec });
  }

  /**
   * Draw what is there; `targets` are the prompts, where they are new. A prompt alone has nothing to win against.
   * @param {Target[]} [targets]
   */
  draw(targets = this.targets) {
    this.targets = targets;
    this.node.hidden = targets.length < 2;
    if (this.node.hidden) return;
    const spec = comparedVariant(this.workbench)?.spec;
    this.method.replaceChildren(
      ...comparableVariants(this.workbench).map((variant) =>
        el("option", { value: variant.spec, selected: variant.spec === spec }, variant.title),
      ),
    );
    const maps = targets.flatMap(
      (target) => this.workbench.received.find((map) => map.method === spec && map.target === target.label) ?? [],
    );
    const whole = maps.length > 0 && maps.length === targets.length && maps.every((map) => map.grid);
    const lists = whole ? maps.map((map) => onOneUnit(map.scores, map.signed)) : null;
    const competing = lists?.map((scores, i) => (targets[i].abstention ? scores.map(() => NEVER) : scores));
    const won = competing ? winners(competing, Number(this.workbench.view.value.threshold) / 100) : [];
    this.mapCanvas.paint(competing ?? null, won, maps[0]?.grid, maps[0]?.signed);
    this.#describe(won);
    this.#read();
    this.take.replaceChildren(...this.links().map(({ text, href, download }) => el("a", { href, download }, text)));
  }

  /** The files of what is drawn: boxes and mask. */
  links() {
    const { view, id } = this.workbench;
    const spec = comparedVariant(this.workbench)?.spec;
    return this.mapCanvas.lists && spec && !this.node.hidden ? regionLinks(String(id), spec, view.value.threshold) : [];
  }

  /** @param {number[]} won */
  #describe(won) {
    const found = this.targets.filter(({ abstention }) => !abstention);
    const isContest = found.length > 1; // else what is found wins nearly every patch, also where nothing of it is
    /**
     * @param {HTMLElement} mark
     * @param {string} name
     * @param {number} at
     * @param {Abstention | null} [judgement] why it competes for no patch
     */
    const line = (mark, name, at, judgement) => {
      const verdict = judgement && VERDICTS[judgement.kind];
      const says = verdict ?? judgement?.says;
      const mine = won.filter((wonBy) => wonBy === at).length;
      const share = won.length ? `area ${percent(mine / won.length)}` : "–"; // alone it reads as how sure the model is
      const title = won.length && isContest ? `${mine} of ${won.length} patches` : "";
      return el(
        "li",
        { title, class: verdict ? "unfound short" : says ? "unfound" : isContest ? "" : "alone" },
        mark,
        el("span", {}, name),
        el("span", { class: "num" }, says ?? (isContest ? share : "")),
      );
    };
    /** @param {number} i */
    const swatch = (i) => {
      const mark = el("b", { class: "swatch" }, LETTERS[i]);
      mark.style.setProperty("--c", `rgb(${COLOURS[i].join(" ")})`);
      return mark;
    };
    this.legend.replaceChildren(
      ...this.targets.map((target, i) => line(swatch(i), target.label, i, target.abstention)),
      line(el("b", { class: "swatch none" }), "none", NOBODY),
    );
  }

  /** Describe the scores of the maps of found prompts at the patch in focus, largest first. */
  #read() {
    const { at } = this.workbench.focus.value;
    const { lists, map } = this.mapCanvas;
    if (!lists || !map || at < 0 || at >= this.mapCanvas.won.length) return void (this.reading.textContent = "\u00a0");
    const order = lists.map((scores, i) => [scores[at], i]).filter(([score]) => score !== NEVER);
    order.sort((a, b) => b[0] - a[0]);
    const scoreTexts = order.map(([score, i]) => `${LETTERS[i]} ${(map.signed ? signedNumber : number)(score)}`);
    this.reading.textContent = `${patchName(at, map.grid)}: ${scoreTexts.join(", ")}`;
  }
}
