// Which patches are alike: principal components of the features as colours, and the cosine of each patch with one.

import { explanationPath, sendJSON } from "../core/api.js";
import { limits } from "../core/colour.js";
import { el, number, percent } from "../core/dom.js";
import { followPointer, outline, patchName } from "../maps/mapcanvas.js";
import { paint } from "../maps/heatmap.js";
import { baseOf } from "../plates/singleplates.js";

/**
 * @import { PatchSimilarity } from "../core/schemas.js"
 * @import { Finished, Report, Tool, WorkbenchView } from "../plates/types.js"
 */

/**
 * The patches of a picture as the model's features have them.
 * @param {HTMLElement} root
 * @param {WorkbenchView} workbench
 * @param {Report} report
 * @returns {Tool}
 */
export const open = (root, workbench, report) => new SimilarPatches(root, workbench, report);

class SimilarPatches {
  #ticket = 0;
  /** @type {PatchSimilarity | null} */
  answer = null;
  subject = /** @type {Finished} */ (/** @type {unknown} */ (null)); // until the first is shown

  /**
   * @param {HTMLElement} root
   * @param {WorkbenchView} workbench
   * @param {Report} report
   */
  constructor(root, workbench, report) {
    this.workbench = workbench;
    this.report = report;
    this.canvases = [el("canvas"), el("canvas")];
    this.outlines = this.canvases.map(() => el("div", { class: "patch", hidden: true }));
    this.captions = [el("figcaption"), el("figcaption", { "aria-live": "polite" })];
    const labels = ["Colours of the patches", "Patches that are like one"];
    const figures = this.canvases.map((canvas, i) => {
      canvas.setAttribute("role", "img");
      canvas.setAttribute("aria-label", labels[i]);
      const sheet = el("div", { class: "sheet" }, canvas, this.outlines[i]);
      followPointer(sheet, workbench.focus, () => this.answer?.grid ?? null);
      return el("figure", {}, sheet, this.captions[i]);
    });
    root.append(el("div", { class: "pair" }, figures));
    workbench.focus.follow(({ at, locked }, before) => {
      this.#mark();
      if (locked && at >= 0 && (at !== before.at || !before.locked)) void this.#ask(at);
    });
  }

  /** @param {Finished} subject */
  async show(subject) {
    const isOther = subject.id !== this.subject?.id;
    this.subject = subject;
    if (isOther) await this.#ask(Math.max(0, this.workbench.focus.value.at));
  }

  /** @param {number} patch */
  async #ask(patch) {
    const ticket = ++this.#ticket;
    try {
      /** @type {PatchSimilarity} */
      const answer = await sendJSON(`${explanationPath(this.subject.id)}/patch-similarity`, { patch });
      if (ticket !== this.#ticket) return;
      this.answer = answer;
      this.report(null);
      this.#draw(answer);
    } catch (problem) {
      if (ticket === this.#ticket) this.report(problem);
    }
  }

  /** @param {PatchSimilarity} answer */
  #draw({ grid, colours, cosines, patch, source, variance }) {
    const [rows, columns] = grid;
    const [canvas, other] = this.canvases;
    Object.assign(canvas, { width: columns, height: rows });
    const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
    const image = context.createImageData(columns, rows);
    colours.forEach((colour, i) => image.data.set([...colour.map((share) => 255 * share), 255], 4 * i));
    context.putImageData(image, 0, 0);
    const base = baseOf(/** @type {any} */ (this.workbench), this.subject.info.targets[0].label);
    const map = { scores: cosines, grid, signed: false };
    Object.assign(other, { width: base.width, height: base.height });
    paint(other, base, map, limits([cosines], false), { ...this.workbench.view.value, grid: "patches" });
    this.captions[0].textContent = `Red, green and blue are the first three principal components of ${source}: ${variance.map((share) => percent(share)).join(", ")} of how the patches differ. Like colours are like patches.`;
    this.captions[1].textContent = `The cosine of each patch with the one in row ${patch[0] + 1}, column ${patch[1] + 1}: from ${number(Math.min(...cosines))} to 1. Press another patch to compare with it.`;
    this.#mark();
  }

  #mark() {
    const { at, locked } = this.workbench.focus.value;
    const { answer } = this;
    for (const node of this.outlines) outline(node, at, answer?.grid ?? null, locked);
    this.canvases[1].title =
      answer && at >= 0 ? `${patchName(at, answer.grid)}: ${number(answer.cosines[at] ?? 0)}` : "";
  }
}
