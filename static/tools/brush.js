// Patches hidden with a brush: painted over, they are not in what the model reads, and its answer follows while one
// paints.

import { explanationPath } from "../core/api.js";
import { segment } from "../core/controls.js";
import { count, el, number, percent, addStyleSheet } from "../core/dom.js";
import { Store } from "../core/state.js";
import { aloneOf } from "../core/targets.js";
import { outline, patchName } from "../maps/mapcanvas.js";
import { neighbour, layoutOf, sheetOf } from "../maps/patches.js";
import { ChangeTable, hatch } from "./answerchange.js";

/**
 * @import { ContactSheet } from "../maps/contactsheet.js"
 * @import { DeletionQuestion, EditedAnswer, ImageInput, Target } from "../core/schemas.js"
 * @import { Grid, Started } from "../core/types.js"
 * @import { Finished, Report, Tool, WorkbenchView } from "../plates/types.js"
 * @import { Waiting } from "../progress/waiting.js"
 */

const SIZES = { 1: "1 patch", 3: "3 patches", 5: "5 patches" };
const MODES = { hide: "hides", show: "brings back" };
/** @type {{[key: string]: number[]}} */
const STEPS = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
/** @typedef {NonNullable<DeletionQuestion["how"]>} How */
/** @type {Record<How, string> & {[how: string]: string}} */
const WAYS = { removed: "taken out", painted: "painted grey" };
/** @type {Record<How, string> & {[how: string]: string}} */
const HOW = {
  removed: "Hidden patches are taken out: the model gets fewer tokens, and nothing in their place.",
  painted: "Hidden patches are painted grey, in the mean colour: the model gets as many tokens as before.",
};
const ONLY_PAINTED = "This model needs all of its patches: hidden ones are painted grey, in the mean colour.";

/**
 * Patches hidden with a brush.
 * @param {HTMLElement} root
 * @param {WorkbenchView} workbench
 * @param {Report} report
 * @param {Waiting} asking
 * @returns {Promise<Tool>}
 */
export async function open(root, workbench, report, asking) {
  await addStyleSheet("workbench/ranks.css");
  return new Brush(root, workbench, report, asking);
}

/**
 * Patches as the address has them, "3-9 12": the indices of [first, last] runs.
 * @param {string | undefined} text
 * @param {number} patches
 */
function readPatches(text, patches) {
  const runs = (text ?? "").split(" ").flatMap((run) => [...run.matchAll(/^(\d+)(?:-(\d+))?$/g)]);
  const inside = runs.flatMap((/** @type {string[]} */ [, first, last = first]) =>
    Array.from({ length: Math.min(patches, Number(last) - Number(first) + 1) }, (_, i) => Number(first) + i),
  );
  return new Set(inside.filter((patch) => patch < patches));
}

/** @param {Set<number>} hidden */
function writePatches(hidden) {
  /** @type {number[][]} */
  const runs = [];
  for (const patch of [...hidden].sort((a, b) => a - b)) {
    const last = runs.at(-1);
    if (last?.[1] === patch - 1) last[1] = patch;
    else runs.push([patch, patch]);
  }
  return runs.map(([first, last]) => (first === last ? first : `${first}-${last}`)).join(" ") || undefined;
}

/**
 * What the model says of a class, with patches hidden or without.
 * @typedef {{probability?: number, logit?: number, value?: number}} Outcome
 */

/**
 * How a number of this kind is shown: of what the model says of a class.
 * @param {string} read
 */
const shownBy = (read) => (/** @type {Outcome} */ outcome) =>
  read === "logit"
    ? `logit ${number(outcome.logit ?? NaN)}`
    : read === "value"
      ? number(outcome.value ?? outcome.logit ?? NaN)
      : percent(outcome.probability ?? NaN);

class Brush {
  /** @type {string | null} */
  #pendingId = null;
  #isOutdated = false;
  /** @type {Set<number>[]} */
  #before = []; // what was hidden before each stroke
  /** @type {boolean | null} */
  #stroke = null; // whether the stroke that is on its way hides; null between strokes

  /**
   * @param {HTMLElement} root
   * @param {WorkbenchView} workbench
   * @param {Report} report
   * @param {Waiting} asking
   */
  constructor(root, workbench, report, asking) {
    this.asking = asking;
    this.root = root;
    this.workbench = workbench;
    this.report = report;
    this.tool = workbench.toolStates.of("brush");
    this.id = workbench.address.id;
    /** @type {Grid | null} */
    this.grid = null;
    /** @type {ContactSheet | null} */
    this.clip = null; // where its frames lie, where the input is one
    /** @type {Set<number>} */
    this.hidden = new Set();
    this.image = el("img", { alt: "" });
    this.cover = el("canvas", { class: "cover", "aria-hidden": "true" });
    this.patch = el("div", { class: "patch", hidden: true });
    this.sheet = el(
      "div",
      {
        class: "canvas",
        tabIndex: 0,
        role: "application",
        "aria-roledescription": "picture to paint on",
        "aria-label": "The picture: arrow keys walk the patches, Space hides or shows one",
      },
      this.image,
      this.cover,
      this.patch,
    );
    const way = WAYS[this.tool.value.how] ? this.tool.value.how : "removed";
    this.look = new Store({ size: "3", mode: "hide", way });
    this.ways = segment(this.look, "way", "Hidden patches are", WAYS);
    this.ways.addEventListener("change", () => this.#turn());
    /**
     * @param {string} text
     * @param {() => void} run
     */
    const button = (text, run) => el("button", { type: "button", class: "act plain", on: { click: run } }, text);
    this.back = button("Undo", () => this.#undo());
    this.clear = button("Bring all back", () => this.#put(new Set()));
    const swap = button("Hide the rest", () =>
      this.#put(new Set(this.#all.filter((patch) => !this.hidden.has(patch)))),
    );
    this.statusLine = el("p", { class: "now", role: "status", "aria-live": "polite" });
    this.how = el("p", { class: "quiet" });
    this.other = el("p", { class: "other-way", role: "status" }, "\u00a0");
    this.where = el("p", { class: "quiet num" }, "\u00a0");
    this.change = new ChangeTable(workbench.kind === "clip" ? "prompt" : "class");
    this.words = el(
      "p",
      { class: "quiet", hidden: true },
      "The words of the prompts are explained here, not the picture: choose “Look at: the picture” to hide patches of it.",
    );
    this.work = el(
      "div",
      { class: "brushing" },
      el("div", {}, this.sheet, this.where),
      el(
        "div",
        { class: "answer" },
        segment(this.look, "size", "Brush", SIZES),
        segment(this.look, "mode", "Painting", MODES),
        this.ways,
        el("div", { class: "row" }, this.back, this.clear, swap),
        this.statusLine,
        this.other,
        this.change.node,
        this.how,
      ),
    );
    root.replaceChildren(this.words, this.work);
    this.#listen();
    workbench.focus.follow(() => this.#mark());
  }

  get #all() {
    return this.grid ? Array.from({ length: this.grid[0] * this.grid[1] }, (_, i) => i) : [];
  }

  /** @param {Finished} subject */
  async show(subject) {
    const { frames } = /** @type {ImageInput} */ (subject.info.input);
    this.#lay(subject, frames ? await sheetOf(frames) : null);
  }

  /**
   * @param {Finished} subject
   * @param {ContactSheet | null} clip
   */
  #lay({ id, info }, clip) {
    this.clip = clip;
    const map = this.workbench.received.find((candidate) => candidate.grid);
    this.words.hidden = Boolean(map);
    this.work.hidden = !map;
    if (!map?.grid) return;
    this.grid = map.grid;
    const { crop } = /** @type {ImageInput} */ (info.input);
    const [wide, tall] = [crop[2] - crop[0], crop[3] - crop[1]];
    const aspect = clip ? (clip.across * wide * clip.frames) / (clip.down * tall) : wide / tall;
    this.sheet.style.aspectRatio = String(aspect);
    if (clip) void clip.seen(id).then(({ src }) => Object.assign(this.image, { src }));
    else this.image.src = `${explanationPath(id)}/input.png`;
    const same = id === this.id;
    this.id = id;
    this.info = info;
    this.#before = [];
    this.change.show(info.top, info.top); // until the first answer
    this.hidden = same ? readPatches(this.tool.value.hidden, map.grid[0] * map.grid[1]) : new Set();
    this.#changed();
  }

  get #layout() {
    return layoutOf(/** @type {Grid} */ (this.grid), this.clip);
  }

  #listen() {
    const { sheet } = this;
    /** @param {PointerEvent} event */
    const at = (event) => {
      const box = sheet.getBoundingClientRect();
      const { rows, columns, at: patchAt } = this.#layout;
      return patchAt(
        Math.floor(((event.clientY - box.top) / box.height) * rows),
        Math.floor(((event.clientX - box.left) / box.width) * columns),
      );
    };
    sheet.addEventListener("pointerdown", (event) => {
      if (!this.grid || event.button) return;
      sheet.setPointerCapture(event.pointerId);
      this.#before.push(this.hidden);
      this.#stroke = this.look.value.mode === "hide";
      this.#paint(at(event));
    });
    sheet.addEventListener("pointermove", (event) => {
      if (!this.grid) return;
      const patch = at(event);
      if (!this.workbench.focus.value.locked) this.workbench.focus.set({ at: patch });
      if (this.#stroke !== null) this.#paint(patch);
    });
    const end = () => {
      if (this.#stroke === null) return;
      this.#stroke = null;
      if (this.#before.at(-1) === this.hidden) this.#before.pop(); // nothing was painted
      this.#buttons();
    };
    sheet.addEventListener("pointerup", end);
    sheet.addEventListener("pointercancel", end);
    sheet.addEventListener(
      "pointerleave",
      () => this.workbench.focus.value.locked || this.workbench.focus.set({ at: -1 }),
    );
    sheet.addEventListener("keydown", (event) => this.#key(event));
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    if (!this.grid) return;
    if ((event.ctrlKey || event.metaKey) && event.key === "z") {
      event.preventDefault();
      return void this.#undo();
    }
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const { focus } = this.workbench;
    const at = Math.max(0, focus.value.at);
    if (event.key === "Escape") return void focus.set({ at: -1, locked: false });
    if (event.key in STEPS) {
      const step = focus.value.at < 0 ? [0, 0] : STEPS[event.key];
      focus.set({ at: neighbour(at, step, this.#layout), locked: true });
    } else if (event.key === " " || event.key === "Enter") {
      focus.set({ at, locked: true });
      const next = new Set(this.hidden);
      if (!next.delete(at)) next.add(at);
      this.#put(next);
    } else return;
    event.preventDefault();
  }

  /**
   * Hide, or bring back, what lies under the brush at a patch.
   * @param {number} patch
   */
  #paint(patch) {
    if (patch < 0) return;
    const { place, at } = this.#layout;
    const reach = (Number(this.look.value.size) - 1) / 2;
    const [row, column] = place(patch);
    const next = new Set(this.hidden);
    for (let y = row - reach; y <= row + reach; y++) {
      for (let x = column - reach; x <= column + reach; x++) {
        const under = at(y, x);
        if (under < 0) continue;
        if (this.#stroke) next.add(under);
        else next.delete(under);
      }
    }
    if (next.size === this.hidden.size) return; // a stroke only adds, or only takes away
    this.hidden = next;
    this.#changed();
  }

  /**
   * Hide these and no others, as one step that can be undone.
   * @param {Set<number>} hidden
   */
  #put(hidden) {
    this.#before.push(this.hidden);
    this.hidden = hidden;
    this.#changed();
  }

  #undo() {
    const before = this.#before.pop();
    if (!before) return;
    this.hidden = before;
    this.#changed();
  }

  #buttons() {
    this.back.disabled = !this.#before.length;
    this.clear.disabled = !this.hidden.size;
  }

  #changed() {
    this.#draw();
    this.#buttons();
    this.tool.set({ hidden: writePatches(this.hidden) });
    this.#ask();
  }

  /** Cover what is hidden with hatching in the colours of the page. */
  #draw() {
    hatch(this.cover, this.hidden, this.#layout);
    this.cover.dataset.hidden = String(this.hidden.size);
    this.#mark();
  }

  #mark() {
    const { at, locked } = this.workbench.focus.value;
    outline(this.patch, at, this.grid, locked, this.clip);
    const named = this.grid && at >= 0 && at < this.grid[0] * this.grid[1];
    this.where.textContent = named
      ? `${patchName(at, this.grid ?? [1, 1], this.clip)}${this.hidden.has(at) ? ", hidden" : ""}`
      : "\u00a0";
    this.sheet.setAttribute(
      "aria-label",
      `The picture, ${count(this.hidden.size, "patch", "patches")} hidden${named ? `, at ${this.where.textContent}` : ""}. Arrow keys walk, Space hides or shows a patch.`,
    );
  }

  /** Ask for what is hidden now; while an answer is on its way, once more when it has come. */
  async #ask() {
    const { id } = this;
    if (this.#pendingId === id) return void (this.#isOutdated = true);
    this.#pendingId = id;
    this.#isOutdated = false;
    const hidden = [...this.hidden].sort((a, b) => a - b);
    const target = /** @type {Started} */ (this.info).targets[0];
    const isPainted = this.look.value.way === "painted";
    /**
     * @param {{how?: string}} way
     * @returns {Promise<EditedAnswer>}
     */
    const ask = (way) =>
      this.asking.ask(`${explanationPath(String(id))}/deletion-test`, { target: target.label, remove: hidden, ...way });
    try {
      const answer = await ask(isPainted ? { how: "painted" } : {}); // taken out where the model allows it
      if (id === this.id) {
        this.#tell(answer, hidden.length, target);
        if (!isPainted) this.#offer(answer.how === "removed");
      }
      const isTold = this.#isOutdated || !hidden.length || (!isPainted && answer.how === "painted");
      if (isTold) this.other.textContent = "\u00a0";
      else {
        const other = await ask(isPainted ? {} : { how: "painted" });
        if (id === this.id && other.how !== answer.how) this.#tellOther(answer, other, target);
      }
    } catch (problem) {
      if (id === this.id) this.report(problem);
    }
    if (this.#pendingId === id) this.#pendingId = null;
    if (this.#isOutdated && id === this.id) this.#ask();
  }

  /** Hide patches in the other way. */
  #turn() {
    const { way } = this.look.value;
    this.tool.set({ how: way === "painted" ? way : undefined });
    this.#ask();
  }

  /**
   * Whether patches can be taken out of this model's input.
   * @param {boolean} canRemove
   */
  #offer(canRemove) {
    const [removed, painted] = this.ways.querySelectorAll("input");
    removed.disabled = !canRemove;
    this.canRemove = canRemove;
    if (canRemove) return;
    painted.checked = true;
    this.look.set({ way: "painted" });
    this.how.textContent = ONLY_PAINTED;
  }

  /**
   * What the model says where the same patches are hidden in the other way, and whether the two disagree.
   * @param {EditedAnswer} answer
   * @param {EditedAnswer} other
   * @param {Target} target
   */
  #tellOther(answer, other, target) {
    /** @param {Outcome} outcome */
    const value = (outcome) => outcome[answer.read] ?? outcome.logit ?? NaN;
    const moves = [answer, other].map((outcome) => value(outcome) - value(target));
    /** @param {number} move */
    const verb = (move) => (move > 0 ? "rises" : "falls");
    /** @param {EditedAnswer} outcome */
    const name = (outcome) => WAYS[outcome.how];
    const shown = shownBy(answer.read);
    const isApart = moves[0] * moves[1] < 0 && [answer, other].every((outcome) => shown(outcome) !== shown(target));
    this.other.classList.toggle("apart", isApart);
    this.other.textContent = isApart
      ? `The two ways disagree: ${name(answer)}, it ${verb(moves[0])} to ${shown(answer)}; ${name(other)}, it ${verb(moves[1])} to ${shown(other)}.`
      : `If they were ${name(other)}: ${shown(other)}.`;
  }

  /**
   * @param {EditedAnswer} answer
   * @param {number} hidden
   * @param {Target} target
   */
  #tell(answer, hidden, target) {
    this.report(null);
    const shown = shownBy(answer.read);
    this.statusLine.replaceChildren(
      el("q", {}, aloneOf(target)),
      ` ${shown(target)} → `,
      el("b", {}, shown(answer)),
      el("span", { class: "quiet" }, ` with ${hidden} of ${answer.tokens} patches ${WAYS[answer.how]}`),
    );
    this.statusLine.dataset.hidden = String(hidden);
    this.how.textContent = this.canRemove === false ? ONLY_PAINTED : HOW[answer.how];
    this.change.show(this.info?.top ?? [], answer.top);
  }
}
