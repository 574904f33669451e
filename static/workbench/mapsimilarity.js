// That methods disagree: the two maps on the page that are most alike and the two that are least alike, with their rank
// correlation. A press lays the two over each other.

import { el } from "../core/dom.js";
import { isMethod } from "../core/registry.js";
import { contentOf, readFor } from "../plates/content.js";
import { mainTarget } from "./overview.js";

/**
 * @import { WorkbenchView } from "../plates/types.js"
 */

const THUMB = 96; // pixels of a small map; it is shown at half of that

/** Keeps the line of every set of plates of the page. */
export class MapSimilarity {
  #shown = []; // [canvas, plate] of the small maps

  /** @param {WorkbenchView & {plateSet: any}} workbench */
  constructor(workbench) {
    this.workbench = workbench;
    workbench.subject.follow(() => this.show());
    workbench.view.follow(() => this.#draw());
  }

  /** The plates of methods that explain the answer of the page. */
  get #plates() {
    const { plateSet, subject } = this.workbench;
    const { label } = mainTarget(subject.value.info.targets);
    return plateSet.all.filter((plate) => plate.map && plate.map.target === label && isMethod(plate.variant));
  }

  /**
   * Say it anew, where all maps are there; before that the line is empty, and its room is kept.
   * @returns {Promise<void>}
   */
  async show() {
    const { plateSet, subject } = this.workbench;
    const { info, done } = subject.value;
    const place = plateSet?.groups.similarity;
    if (!place) return;
    this.#shown = [];
    const scores = ({ map }) => contentOf(map.scores, readFor(subject.value, map.target));
    place.replaceChildren();
    const plates = done && info ? this.#plates : [];
    if (plates.length < 2) return;
    const { extremePairs, mapKey, openPair } = await import("../plates/mappairs.js");
    // another answer or set of plates came in between
    if (subject.value.info !== info || !subject.value.done || this.workbench.plateSet !== plateSet) return;
    const found = extremePairs(plates, scores);
    this.#shown = [];
    const open = (pair) => openPair(this.workbench, ...pair.map(mapKey));
    place.replaceChildren(...(found ? this.#sentences(found, open) : []));
    this.#draw();
  }

  #sentences({ most, least }, open) {
    if (most === least) return [this.#pair("These two:", most, open)];
    return [this.#pair("Most alike:", most, open), this.#pair("Least alike:", least, open)];
  }

  #pair(title, { pair, value }, open) {
    const names = pair.map(({ variant }) => variant.title);
    const small = pair
      .filter((plate) => plate.mapCanvas?.canvas)
      .map((plate) => {
        const canvas = el("canvas", { width: THUMB, height: THUMB, "aria-hidden": "true" });
        this.#shown.push([canvas, plate]);
        return canvas;
      });
    const figure = `rank correlation ${value < 0 ? "\u2212" : ""}${Math.abs(value).toFixed(2)}`;
    return el(
      "button",
      {
        type: "button",
        class: "pair",
        title: "Lay one over the other",
        on: { click: () => open(pair) },
      },
      small.length ? el("span", { class: "small" }, small) : null,
      el("span", {}, el("b", {}, title), ` ${names[0]} and ${names[1]}, `, el("span", { class: "num" }, figure)),
    );
  }

  /** The small maps look as the large ones do. */
  #draw() {
    for (const [canvas, { mapCanvas }] of this.#shown)
      canvas.getContext("2d").drawImage(mapCanvas.canvas, 0, 0, canvas.width, canvas.height);
  }
}
