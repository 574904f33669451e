// That methods disagree: the two maps on the page that are most alike and the two that are least alike, with their rank
// correlation. A press lays the two over each other.

import { context2d, el } from "../core/dom.js";
import { isMethod } from "../core/registry.js";
import { contentOf, readFor } from "../plates/content.js";
import { mainTarget } from "./overview.js";

/**
 * @import { Started } from "../core/types.js"
 * @import { MapPlate } from "../maps/types.js"
 * @import { MapPair } from "../plates/mappairs.js"
 * @import { WorkbenchView } from "../plates/types.js"
 */

const THUMB = 96; // pixels of a small map; it is shown at half of that

/** Keeps the line of every set of plates of the page. */
export class MapSimilarity {
  /** @type {[HTMLCanvasElement, MapPlate][]} */
  #shown = []; // [canvas, plate] of the small maps

  /** @param {WorkbenchView & {plateSet: any}} workbench */
  constructor(workbench) {
    this.workbench = workbench;
    workbench.subject.follow(() => this.show());
    workbench.view.follow(() => this.#draw());
  }

  /**
   * The plates of methods that explain the answer of the page.
   * @param {Started} info
   * @returns {MapPlate[]}
   */
  #platesOf(info) {
    const { label } = mainTarget(info.targets);
    return this.workbench.plateSet.all.filter(
      (/** @type {MapPlate} */ plate) => plate.map && plate.map.target === label && isMethod(plate.variant),
    );
  }

  /**
   * Update the line, where all maps are there; before that it is empty, and its room is kept.
   * @returns {Promise<void>}
   */
  async show() {
    const { plateSet, subject } = this.workbench;
    const { info, done } = subject.value;
    const place = plateSet?.groups.similarity;
    if (!place) return;
    this.#shown = [];
    place.replaceChildren();
    if (!done || !info) return;
    const plates = this.#platesOf(info);
    if (plates.length < 2) return;
    /** @param {MapPlate} plate */
    const scores = ({ map }) => (map ? contentOf(map.scores, readFor({ info }, map.target)) : []);
    const { extremePairs, mapKey, openPair } = await import("../plates/mappairs.js");
    // another answer or set of plates came in between
    if (subject.value.info !== info || !subject.value.done || this.workbench.plateSet !== plateSet) return;
    const found = extremePairs(plates, scores);
    this.#shown = [];
    /** @param {[MapPlate, MapPlate]} pair */
    const open = ([a, b]) => openPair(this.workbench, mapKey(a), mapKey(b));
    place.replaceChildren(...(found ? this.#sentences(found, open) : []));
    this.#draw();
  }

  /**
   * @param {{most: MapPair<MapPlate>, least: MapPair<MapPlate>}} found
   * @param {(pair: [MapPlate, MapPlate]) => void} open
   */
  #sentences({ most, least }, open) {
    if (most === least) return [this.#pair("These two:", most, open)];
    return [this.#pair("Most alike:", most, open), this.#pair("Least alike:", least, open)];
  }

  /**
   * @param {string} title
   * @param {MapPair<MapPlate>} found
   * @param {(pair: [MapPlate, MapPlate]) => void} open
   */
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
        title: "Overlay the two maps",
        on: { click: () => open(pair) },
      },
      small.length ? el("span", { class: "small" }, small) : null,
      el("span", {}, el("b", {}, title), ` ${names[0]} and ${names[1]}, `, el("span", { class: "num" }, figure)),
    );
  }

  /** Draw the small maps as the large ones are drawn. */
  #draw() {
    for (const [canvas, { mapCanvas }] of this.#shown) {
      const { width, height } = mapCanvas.canvas;
      const part = Math.min(width, height); // of a sheet of frames or a spectrogram the middle, in its proportions
      const at = [(width - part) / 2, (height - part) / 2];
      context2d(canvas).drawImage(mapCanvas.canvas, at[0], at[1], part, part, 0, 0, canvas.width, canvas.height);
    }
  }
}
