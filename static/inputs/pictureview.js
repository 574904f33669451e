// The picture that was given: as the model saw it, or the original with the crop marked; and the ways to give another.

import { explanationPath, loadImage } from "../core/api.js";
import { segment } from "../core/controls.js";
import { el, svg } from "../core/dom.js";
import { outlineOf, seenPicture, seenSize, sheetOf } from "../maps/patches.js";
import { followPointer, outline, patchName } from "../maps/mapcanvas.js";
import { greyBase } from "../maps/heatmap.js";
import { Input } from "./input.js";
import { windowInWords } from "./greywindow.js";
import { Lens } from "./lens.js";

/**
 * @import { ImageInput } from "../core/schemas.js"
 * @import { Store } from "../core/state.js"
 * @import { Focus, Grid, Subject, View } from "../core/types.js"
 * @import { ContactSheet } from "../maps/contactsheet.js"
 * @import { GreyBase } from "../maps/types.js"
 */

const BASE = 448; // pixels of the longer side of the grey base

/**
 * Draw the base of maps: the picture in grey; of a clip the sheet of its frames.
 * @param {HTMLImageElement} seen
 * @param {ContactSheet | null} sheet
 * @returns {GreyBase}
 */
function grey(seen, sheet) {
  const scale = ((sheet ? 2 : 1) * BASE) / Math.max(seen.naturalWidth, seen.naturalHeight);
  const base = greyBase(seen, Math.round(seen.naturalWidth * scale), Math.round(seen.naturalHeight * scale));
  return Object.assign(base, { sheet });
}

/**
 * Load the base of maps for explanation `id`: the picture that its model saw, in grey; of several in a text the one in the
 * file of this name.
 * @param {string} id
 * @param {{input?: any, name?: string}} info
 * @returns {Promise<GreyBase>}
 */
export async function seenBase(id, { input, name }) {
  const sheet = await sheetOf(input?.frames);
  return grey(await seenPicture(id, sheet, name), sheet);
}

/** Seconds in words. */
const stretch = (/** @type {number} */ seconds) => seconds.toFixed(2);

/** The picture that is asked about. */
export class PictureView {
  #showing = 0;
  /** @type {Input | null} */
  #awaited = null; // that is asked about
  /** @type {Input | null} */
  #laid = null; // whose picture is on show before its answer
  /** @type {HTMLImageElement | null} */
  #seen = null; // the picture as the model saw it
  /** @type {{id: string, picture: Promise<HTMLImageElement | null>} | null} */
  #fetched = null; // that of an explanation whose answer is on its way

  /**
   * @param {HTMLElement} root
   * @param {{focus: Store<Focus>, view: Store<View>, agreed: Store<{patches: number[]}>}} stores
   */
  constructor(root, { focus, view, agreed }) {
    this.focus = focus;
    this.view = view;
    this.id = null;
    /** @type {ImageInput | null} */
    this.input = null;
    this.grid = null;
    /** @type {ContactSheet | null} */
    this.contacts = null; // of a clip
    this.image = el("img", { alt: "" });
    this.patch = el("div", { class: "patch", hidden: true });
    this.agreed = svg("path", { "vector-effect": "non-scaling-stroke" }); // around what most maps mark most
    this.agreement = svg("svg", { class: "agreed", preserveAspectRatio: "none", "aria-hidden": "true" }, this.agreed);
    this.region = el("div", { class: "region" }, this.agreement, this.patch);
    this.sheet = el("div", { class: "sheet", hidden: true }, this.image, this.region);
    this.text = el("span");
    this.lens = new Lens({ focus, view });
    const choice = (this.choice = segment(
      view,
      "shown",
      "Show",
      { seen: "as seen", original: "original" },
      "seg small",
    ));
    /** @type {HTMLElement} */ (choice.firstChild).className = "hidden";
    root.append(
      el("div", { class: "mount" }, this.sheet, this.lens.node),
      el("div", { class: "caption" }, this.text, choice),
    );
    followPointer(
      this.region,
      focus,
      () => this.grid,
      () => this.contacts,
    );
    focus.follow(() => this.#mark());
    agreed.follow(({ patches }) => this.#outline(patches));
    view.follow((now, before) => now.shown !== before.shown && this.#draw());
  }

  /**
   * Fetch the picture that the model saw of explanation `id`, which the server has, before its answer is here.
   * @param {string} id
   */
  fetch(id) {
    this.#fetched = { id, picture: seenPicture(id, null).catch(() => null) };
  }

  /**
   * Switch to another explanation of the same picture.
   * @param {string} id
   */
  belongsTo(id) {
    this.id = id;
    this.lens.belongsTo(id);
  }

  /**
   * Show the picture of an Input before its answer is there, and which model is asked. A file that the browser cannot
   * read stays unseen.
   * @param {Input} input
   * @param {string} model
   * @returns {Promise<void>}
   */
  async await(input, model) {
    if (input === this.#awaited) return;
    this.#awaited = input;
    const sent = (await input.sent().catch(() => null))?.image; // where it cannot be had, asking says so
    const image = Array.isArray(sent) ? sent[0] : sent;
    if (!image || input !== this.#awaited) return;
    const picture = await loadImage(URL.createObjectURL(image)).catch(() => null);
    if (input !== this.#awaited) return;
    this.#laid = input;
    this.lens.show(this.id, this.input, null);
    const isWhole = picture && this.view.value.shown === "original"; // else its middle, as most models see it
    this.#render(
      picture?.src ?? "",
      "The picture that the model is asked about",
      isWhole ? picture.naturalWidth / picture.naturalHeight : 1,
    );
    this.sheet.style.visibility = picture ? "" : "hidden";
    this.image.classList.remove("pixels");
    this.region.classList.remove("crop");
    this.caption = `asking ${model}\u2009…`;
    this.#mark();
  }

  /** Show the picture of the explanation on show again, after the awaited one was not answered. */
  restore() {
    if (!this.#awaited) return;
    this.#awaited = this.#laid = null;
    this.sheet.hidden = !this.input;
    this.sheet.style.visibility = "";
    this.caption = "";
    this.lens.show(this.id, this.input, this.input && this.#seen, this.contacts);
    this.#draw();
    this.#mark();
  }

  /**
   * Show the input of explanation `id`, which was asked about as the Input `askedInput`; resolves to the grey base of the
   * maps, or null if another came in between.
   * @param {string} id
   * @param {ImageInput} input
   * @param {Input} askedInput
   * @returns {Promise<GreyBase | null>}
   */
  async show(id, input, askedInput) {
    const ticket = ++this.#showing;
    if (this.#awaited === askedInput) this.#awaited = null;
    this.id = id;
    this.input = null;
    this.lens.show(id, input, null);
    if (!this.#awaited) {
      // the picture before keeps its room, and is not taken for this one
      if (this.#laid !== askedInput) this.sheet.style.visibility = "hidden";
      this.caption = "";
      this.#mark();
    }
    const contacts = await sheetOf(input.frames);
    const fetched = this.#fetched?.id === id && !contacts ? await this.#fetched.picture : null;
    const seen = fetched ?? (await seenPicture(id, contacts));
    if (ticket !== this.#showing) return null;
    this.contacts = contacts;
    this.input = input;
    this.#seen = seen;
    if (this.#awaited) return grey(seen, contacts); // a newer question is on show already
    this.lens.show(this.id, input, seen, contacts);
    this.#draw();
    await this.image.decode().catch(() => {}); // another source took its place, or it is broken and says so itself
    if (ticket === this.#showing) this.sheet.style.visibility = "";
    return grey(seen, contacts);
  }

  /**
   * The grid that the patches lie on, [rows, columns]; known with the first map.
   * @param {Grid | null} grid
   */
  setGrid(grid) {
    this.grid = grid;
    this.lens.setGrid(grid);
    this.#mark();
  }

  #draw() {
    if (!this.input || this.#awaited) return;
    const { width, height, crop, seen, frames, sound, window: greys } = this.input;
    const [x0, y0, x1, y1] = crop;
    this.choice.hidden = Boolean(frames || sound); // of which there is one view
    const original = this.view.value.shown === "original" && !frames && !sound;
    const shown = /** @type {HTMLImageElement} */ (this.#seen);
    const aspect = original ? width / height : shown.naturalWidth / shown.naturalHeight;
    const alt = original
      ? "The original picture; the part that the model saw is marked"
      : sound
        ? "The sound as a picture"
        : `The ${frames ? "frames" : "picture"} as the model saw ${frames ? "them" : "it"}`;
    const kept = `${explanationPath(String(this.id))}/${original ? "original.jpg" : "input.png"}`;
    this.#render(frames ? shown.src : kept, alt, aspect);
    // enlarged pixels stay squares
    this.image.classList.toggle("pixels", !original && seen[0] <= this.sheet.clientWidth);
    const box = original ? [x0 / width, y0 / height, (x1 - x0) / width, (y1 - y0) / height] : [0, 0, 1, 1];
    ["left", "top", "width", "height"].forEach((side, i) => this.region.style.setProperty(side, `${100 * box[i]}%`));
    const whole = x0 === 0 && y0 === 0 && x1 === width && y1 === height;
    this.region.classList.toggle("crop", original && !whole);
    this.caption = sound
      ? `${stretch(sound.start)} to ${stretch(sound.end)} s`
      : (original
          ? `${width}×${height}${whole ? ", all of it seen" : ", the seen part marked"}`
          : `as the model saw ${frames ? "them" : "it"}, ${seenSize(this.input)}`) + windowInWords(greys);
    this.#mark();
  }

  /**
   * @param {string} src
   * @param {string} alt
   * @param {number} aspect
   */
  #render(src, alt, aspect) {
    if (this.image.src.startsWith("blob:")) URL.revokeObjectURL(this.image.src);
    Object.assign(this.image, { src, alt });
    this.sheet.hidden = false;
    this.sheet.style.width = aspect >= 1 ? "100%" : `${100 * aspect}%`;
    this.sheet.style.aspectRatio = String(aspect);
  }

  /**
   * Draw a line around patches; a clip has its frames side by side, and none.
   * @param {number[]} patches
   */
  #outline(patches) {
    const [rows, columns] = this.grid ?? [];
    this.agreement.setAttribute("viewBox", `0 0 ${columns ?? 1} ${rows ?? 1}`);
    this.agreed.setAttribute("d", this.grid && !this.contacts ? outlineOf(patches, columns ?? 1) : "");
  }

  #mark() {
    const { locked } = this.focus.value;
    const at = this.#awaited ? -1 : this.focus.value.at;
    outline(this.patch, at, this.grid, locked, this.contacts);
    const place = this.grid && at >= 0 ? (this.#timeOf(at) ?? patchName(at, this.grid, this.contacts)) : null;
    this.text.textContent = place ? place + (locked ? ", held" : "") : (this.caption ?? "");
  }

  /**
   * The stretch of time of the patch at this place, with its row where there are several; null for a picture.
   * @param {number} at
   * @returns {string | null}
   */
  #timeOf(at) {
    const { sound } = this.input ?? {};
    if (!sound || !this.grid) return null;
    const [rows, columns] = this.grid;
    const second = (sound.end - sound.start) / columns;
    const start = sound.start + (at % columns) * second;
    const band = rows > 1 ? `, band ${rows - Math.floor(at / columns)} of ${rows}` : "";
    return `${stretch(start)} to ${stretch(start + second)} s${band}`;
  }
}

/**
 * Make a button that lets the person choose the part of the picture on show that the model shall see, and asks the same
 * about it.
 * @param {HTMLElement} root
 * @param {{subject: Store<Subject>, question: {input: Input | null}, ask: (change: {input: Input}) => Promise<void>,
 *   report: (problem: unknown, place: Element) => void}} workbench
 */
export function partButton(root, workbench) {
  const choose = async () => {
    const { id, info } = workbench.subject.value;
    const { choosePart } = await import("./crop.js");
    const crop = await choosePart(String(id), /** @type {ImageInput} */ (info?.input));
    button.focus();
    if (crop !== undefined)
      workbench.ask({ input: new Input({ source: id, crop, sample: workbench.question.input?.sample }) });
  };
  const button = el(
    "button",
    {
      type: "button",
      class: "act plain",
      disabled: true,
      title: "Choose the part of the picture that the model sees",
      on: {
        click: () =>
          choose().catch((problem) => workbench.report(problem, /** @type {Element} */ (root.nextElementSibling))),
      },
    },
    "Crop",
  );
  workbench.subject.follow(({ id, info }) => {
    const { input } = info ?? {};
    const isWhole = input?.kind === "image" && Boolean(input.frames || input.sound); // a clip or a sound
    button.disabled = !id || isWhole;
  });
  root.append(button);
}
