// Which place of a model's output is asked about: a word of a text, a box or a patch of a picture, or one of a list.
// Fetched where a model with a task is asked for the first time.

import { el, percent } from "../core/dom.js";
import { named } from "../core/search.js";

/**
 * @import { OutputPlace } from "../core/schemas.js"
 * @import { Started } from "../core/types.js"
 * @import { Workbench } from "./workbench.js"
 */

/** The hint above the choice of places, by the way in which one is chosen. */
const HINTS = {
  words: "Press another word to ask about that word instead.",
  patches: "Press a patch of a map to ask about it, or choose:",
  boxes: "Press another box in the picture, or in the list.",
  region: "Draw over the picture to ask about that part of it, or choose what the model sees:",
  list: "Choose another place:",
};

/** The place that is asked about, and the way to others. */
export class PlaceChoice {
  /**
   * @param {HTMLElement} before the panel of classes, above which it stands
   * @param {Workbench} workbench
   */
  constructor(before, workbench) {
    this.workbench = workbench;
    this.grid = /** @type {number[] | undefined} */ (undefined);
    this.heading = el("p", { class: "asked-about", role: "status" });
    this.hint = el("p", { class: "quiet" });
    this.list = el("div", { class: "places" });
    this.input = el("input", { id: "place-at", autocomplete: "off", spellcheck: false });
    this.form = el(
      "form",
      {
        class: "pick",
        on: {
          submit: (/** @type {Event} */ event) => {
            event.preventDefault();
            if (this.input.value.trim()) this.#ask(this.input.value.trim());
          },
        },
      },
      el("label", { for: "place-at" }, "Place"),
      this.input,
      el("button", { type: "submit", class: "act plain" }, "Ask"),
    );
    this.held = el("button", {
      type: "button",
      class: "act plain",
      hidden: true,
      on: { click: () => this.#askHeld() },
    });
    this.file = el("input", {
      type: "file",
      accept: "image/*",
      class: "hidden",
      id: "place-reference",
      on: { change: () => this.#compare() },
    });
    this.reference = el(
      "p",
      { class: "reference", hidden: true },
      this.file,
      el("label", { for: "place-reference", class: "act plain" }, "Compare with another picture …"),
    );
    this.node = el(
      "section",
      { id: "place", class: "place", "aria-label": "Which place of the output is asked about" },
      this.heading,
      this.hint,
      this.list,
      this.held,
      this.form,
      this.reference,
    );
    before.before(this.node);
    this.boxes = el("div", { class: "place-boxes" });
    this.drawing = drawingSheet((region) => this.#ask(region));
    workbench.focus.follow(() => this.#offerHeld());
  }

  /**
   * Show the place that the answer is from, and all places; nothing for a model without a task.
   * @param {Started} info
   */
  show(info) {
    const { place } = info;
    this.node.hidden = !place;
    this.boxes.remove();
    this.drawing.remove();
    if (!place) return;
    const { place_control: control = "list", places_are: placesAre } = this.workbench.modelInfo?.detail.details ?? {};
    const places = info.places ?? [];
    this.control = control;
    this.grid = undefined;
    this.heading.replaceChildren("Asked about ", el("b", {}, place.label));
    this.hint.textContent = HINTS[control];
    this.list.className = `places of-${control}`;
    this.list.replaceChildren(...places.map((each) => this.#button(each, place)));
    this.input.value = place.at;
    this.input.title = placesAre ? `Send ${placesAre}` : "";
    this.reference.hidden = info.task !== "features" || info.input.kind !== "image";
    const boxes = places.filter(({ box }) => box);
    if (boxes.length) {
      this.boxes.replaceChildren(...boxes.map((each) => this.#box(each, place)));
      document.querySelector("#picture .region")?.append(this.boxes);
    }
    if (control === "region") document.querySelector("#picture .region")?.append(this.drawing);
    this.#offerHeld();
  }

  /**
   * @param {OutputPlace} each
   * @param {OutputPlace} chosen
   */
  #button(each, chosen) {
    return el(
      "button",
      {
        type: "button",
        "aria-pressed": String(each.at === chosen.at),
        title: each.says ? `${named(each.says)} ${percent(each.score ?? 0)}` : each.at,
        data: { at: each.at, ...(each.says ? { says: each.says } : {}) },
        on: { click: () => this.#ask(each.at) },
      },
      el("span", {}, each.label),
      each.says && each.says !== each.label && !each.label.endsWith(`, ${each.says}`)
        ? el("small", {}, named(each.says))
        : "",
    );
  }

  /**
   * A box over the picture, as a share of what the model saw.
   * @param {OutputPlace} each
   * @param {OutputPlace} chosen
   */
  #box(each, chosen) {
    const [x0, y0, x1, y1] = each.box ?? [0, 0, 0, 0];
    const node = el(
      "button",
      {
        type: "button",
        class: "box",
        "aria-pressed": String(each.at === chosen.at),
        "aria-label": `Ask about the box of ${each.label}`,
        on: { click: () => this.#ask(each.at) },
      },
      el("small", {}, each.says ? named(each.says) : each.label),
    );
    const share = (/** @type {number} */ value) => `${100 * Math.min(1, Math.max(0, value))}%`;
    Object.assign(node.style, { left: share(x0), top: share(y0), width: share(x1 - x0), height: share(y1 - y0) });
    return node;
  }

  /** The button for the patch that is held, where patches are places. */
  #offerHeld() {
    const { at, locked } = this.workbench.focus.value;
    const map = this.workbench.received[0];
    this.held.hidden = this.control !== "patches" || !locked || at < 0 || !map?.grid;
    if (this.held.hidden || !map?.grid) return;
    this.grid = map.grid;
    const [row, column] = this.#patch(at);
    this.held.textContent = `Ask about the patch in row ${row + 1}, column ${column + 1}`;
  }

  /** @param {number} at */
  #patch(at) {
    const columns = this.grid?.[1] ?? 1;
    return [Math.floor(at / columns), at % columns];
  }

  #askHeld() {
    const [row, column] = this.#patch(this.workbench.focus.value.at);
    this.workbench.focus.set({ at: -1, locked: false });
    this.#ask(`patch:${row},${column}`);
  }

  /** @param {string} at */
  #ask(at) {
    void this.workbench.ask({ at, targets: { target: null } });
  }

  #compare() {
    const [reference] = this.file.files ?? [];
    if (reference) void this.workbench.ask({ at: "similar", reference, targets: { target: null } });
  }
}

const LEAST = 0.01; // of a side of the picture: less was no drawing

/**
 * A sheet over the picture on which a rectangle is drawn; `onDraw` is called with the region as it is asked about.
 * @param {(region: string) => void} onDraw
 */
function drawingSheet(onDraw) {
  const frame = el("div", { class: "drawn", hidden: true });
  const sheet = el("div", { class: "drawing" }, frame);
  /** @type {number[] | null} */
  let from = null;
  /** @param {PointerEvent} event */
  const share = (event) => {
    const { left, top, width, height } = sheet.getBoundingClientRect();
    const inside = (/** @type {number} */ value) => Math.min(1, Math.max(0, value));
    return [inside((event.clientX - left) / width), inside((event.clientY - top) / height)];
  };
  /**
   * x0, y0, x1, y1 from where the drawing began to the pointer.
   * @param {number[]} start
   * @param {PointerEvent} event
   */
  const boxTo = ([x, y], event) => {
    const [toX, toY] = share(event);
    return [Math.min(x, toX), Math.min(y, toY), Math.max(x, toX), Math.max(y, toY)];
  };
  sheet.addEventListener("pointerdown", (event) => {
    event.preventDefault();
    from = share(event);
    sheet.setPointerCapture(event.pointerId);
  });
  sheet.addEventListener("pointermove", (event) => {
    if (!from) return;
    const [x0, y0, x1, y1] = boxTo(from, event).map((value) => 100 * value);
    frame.hidden = false;
    Object.assign(frame.style, { left: `${x0}%`, top: `${y0}%`, width: `${x1 - x0}%`, height: `${y1 - y0}%` });
  });
  sheet.addEventListener("pointerup", (event) => {
    if (!from) return;
    const [x0, y0, x1, y1] = boxTo(from, event);
    from = null;
    if (x1 - x0 < LEAST || y1 - y0 < LEAST) return void (frame.hidden = true);
    onDraw(`region:${[x0, y0, x1, y1].map((value) => value.toFixed(3)).join(",")}`);
  });
  return sheet;
}
