// Where in the picture each token of a vision-language model's answer was, from the logits of one forward pass (TAM).

import { explanationPath } from "../core/api.js";
import { el, number, addStyleSheet } from "../core/dom.js";
import { Store } from "../core/state.js";
import { csvButton } from "../export/csv.js";
import { nameFor } from "../export/titles.js";
import { seenBase } from "../inputs/pictureview.js";
import { MapCanvas } from "../maps/mapcanvas.js";
import { Newest } from "../progress/newest.js";

/**
 * @import { TokenMaps } from "../core/schemas.js"
 * @import { Finished, Report, Tool, WorkbenchView } from "../plates/types.js"
 * @import { Waiting } from "../progress/waiting.js"
 */

/**
 * A map of the picture for each token of the answer.
 * @param {HTMLElement} root
 * @param {WorkbenchView} workbench
 * @param {Report} report
 * @param {Waiting} asking
 * @returns {Promise<Tool>}
 */
export async function open(root, workbench, report, asking) {
  await addStyleSheet("tools/tokenmaps.css");
  return new TokenPictures(root, workbench, report, asking);
}

class TokenPictures {
  #newest = new Newest();
  /** @type {TokenMaps | null} */
  answer = null;
  subject = /** @type {Finished} */ (/** @type {unknown} */ (null)); // until the first is shown
  /** @type {MapCanvas[]} */
  canvases = [];

  /**
   * @param {HTMLElement} root
   * @param {WorkbenchView} workbench
   * @param {Report} report
   * @param {Waiting} asking
   */
  constructor(root, workbench, report, asking) {
    this.workbench = workbench;
    this.report = report;
    this.asking = asking;
    this.focus = new Store({ at: -1, locked: false }); // of patches, which all of these maps share
    this.maps = el("div", { class: "token-maps" });
    this.notes = el("div");
    root.replaceChildren(
      el(
        "p",
        { class: "about" },
        "How strongly each patch by itself suggests a token of the answer. It is the token's logit there, minus the part of earlier words, scaled from 0 to 1. The values do not add up to the answer. Press a token to explain it above.",
      ),
      el(
        "p",
        { class: "take" },
        csvButton(
          () => this.#rows(),
          () => nameFor(this.subject.id, "token-maps"),
          report,
        ),
      ),
      this.maps,
      this.notes,
    );
    workbench.view.follow(() => this.canvases.forEach((canvas) => canvas.draw()));
    this.focus.follow((value) => this.canvases.forEach((canvas) => canvas.mark(value)));
  }

  /** @param {Finished} subject */
  async show(subject) {
    if (subject.id === this.subject?.id) return;
    this.subject = subject;
    this.report(null);
    const path = `${explanationPath(subject.id)}/token-maps`;
    const answers = await this.#newest.ask((signal) =>
      Promise.all([this.asking.ask(path, {}, signal), seenBase(subject.id, {})]),
    );
    if (answers) this.#draw(...answers);
  }

  /**
   * @param {TokenMaps} answer
   * @param {OffscreenCanvas} base
   */
  #draw(answer, base) {
    const { tokens, places, maps, grid, notes } = answer;
    this.answer = answer;
    this.canvases = maps.map((scores, i) => {
      const canvas = new MapCanvas({
        name: `Token “${tokens[i].trim()}”`,
        focus: this.focus,
        view: this.workbench.view,
        width: 224,
      });
      canvas.ends = [0, 1];
      canvas.setMap({ scores, grid, signed: false });
      canvas.setBase(base);
      return canvas;
    });
    this.maps.replaceChildren(
      ...this.canvases.map((canvas, i) =>
        el(
          "figure",
          {},
          canvas.node,
          el(
            "figcaption",
            {},
            el(
              "button",
              {
                type: "button",
                title: `Explain ${places[i]}`,
                on: { click: () => void this.workbench.ask({ at: places[i], targets: { target: null } }) },
              },
              tokens[i].trim() || "␣",
            ),
            el("small", {}, `at most ${number(Math.max(...maps[i]), 2)}`),
          ),
        ),
      ),
    );
    this.notes.replaceChildren(...notes.map((note) => el("p", { class: "quiet" }, note)));
  }

  /** The maps as rows of numbers: a line a token and patch. */
  #rows() {
    const { tokens, maps, grid } = this.answer ?? { tokens: [], maps: [], grid: [1, 1] };
    return [
      ["token", "row", "column", "score"],
      ...maps.flatMap((scores, i) =>
        scores.map((score, k) => [tokens[i], Math.floor(k / grid[1]) + 1, (k % grid[1]) + 1, score]),
      ),
    ];
  }
}
