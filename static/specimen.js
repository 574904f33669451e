// The picture that was given: as the model saw it, or the original with the crop marked; and the ways to give another.

import { explanationPath, getBlob, loadImage } from "./api.js";
import { greyBase } from "./canvas/heatmap.js";
import { segment } from "./controls.js";
import { el } from "./dom.js";
import { followPointer, outline, patchName } from "./face.js";
import { Lens } from "./lens.js";

const BASE = 448; // pixels of the longer side of the grey base

const seenPath = (id) => `${explanationPath(id)}/input.png`;

function grey(seen) {
  const scale = BASE / Math.max(seen.naturalWidth, seen.naturalHeight);
  return greyBase(seen, Math.round(seen.naturalWidth * scale), Math.round(seen.naturalHeight * scale));
}

/** What the model of explanation `id` saw, in grey, as maps are drawn on it. */
export const seenBase = async (id) => grey(await loadImage(seenPath(id)));

export class Specimen {
  constructor(root, { focus, view }) {
    Object.assign(this, { focus, view, id: null, input: null, grid: null });
    this.image = el("img", { alt: "" });
    this.patch = el("div", { class: "patch", hidden: true });
    this.region = el("div", { class: "region" }, this.patch);
    this.sheet = el("div", { class: "sheet", hidden: true }, this.image, this.region);
    this.text = el("span");
    this.lens = new Lens({ focus, view });
    const choice = segment(view, "shown", "Show", { seen: "as seen", original: "original" }, "seg small");
    choice.querySelector("legend").className = "hidden";
    root.append(el("div", { class: "mount" }, this.sheet, this.lens.node), el("div", { class: "caption" }, this.text, choice));
    followPointer(this.region, focus, () => this.grid);
    focus.follow(() => this.#mark());
    view.follow((now, before) => now.shown !== before.shown && this.#draw());
  }

  /** Show the input of explanation `id`; resolves to the grey base of the maps, or null if another came in between. */
  async show(id, input) {
    Object.assign(this, { id, input });
    const seen = await loadImage(seenPath(id));
    if (this.id !== id) return null;
    this.lens.show(id, input, seen);
    this.#draw();
    return grey(seen);
  }

  /** The grid that the patches lie on, [rows, columns]; known with the first map. */
  setGrid(grid) {
    this.grid = grid;
    this.lens.setGrid(grid);
    this.#mark();
  }

  #draw() {
    if (!this.input) return;
    const { width, height, crop, seen } = this.input;
    const [x0, y0, x1, y1] = crop;
    const original = this.view.value.shown === "original";
    const aspect = original ? width / height : (x1 - x0) / (y1 - y0);
    this.image.src = `${explanationPath(this.id)}/${original ? "original.jpg" : "input.png"}`;
    this.image.alt = original ? "The original picture; the part that the model saw is marked" : "The picture as the model saw it";
    this.sheet.hidden = false;
    this.sheet.style.width = aspect >= 1 ? "100%" : `${100 * aspect}%`;
    this.sheet.style.aspectRatio = String(aspect);
    const box = original ? [x0 / width, y0 / height, (x1 - x0) / width, (y1 - y0) / height] : [0, 0, 1, 1];
    ["left", "top", "width", "height"].forEach((side, i) => (this.region.style[side] = `${100 * box[i]}%`));
    const whole = x0 === 0 && y0 === 0 && x1 === width && y1 === height;
    this.region.classList.toggle("crop", original && !whole);
    this.caption = original
      ? `${width}×${height}${whole ? ", all of it seen" : ", the seen part marked"}`
      : `as the model saw it, ${seen[0]}×${seen[1]}`;
    this.#mark();
  }

  #mark() {
    const { at, locked } = this.focus.value;
    outline(this.patch, at, this.grid, locked);
    this.text.textContent = this.grid && at >= 0 ? patchName(at, this.grid) + (locked ? ", held" : "") : (this.caption ?? "");
  }
}

/** Said of what is explained anew from the picture that the server keeps. */
const STORED = "Explained anew from the copy that the server keeps (JPEG, at most 1024 pixels a side), so numbers can differ a little from those of the file.";

/** What an explanation that was opened by its address was made from, as far as the server keeps it. */
export const storedPicture = (id) => ({ fetch: () => getBlob(`${explanationPath(id)}/original.jpg`), stored: STORED });

/** Choose, drop or paste a picture, anywhere on the page. `onFile(file)` gets the first one. */
export function acceptPictures(root, onFile) {
  const field = el("input", { type: "file", accept: "image/*", class: "hidden", tabIndex: -1, "aria-label": "Picture file" });
  const button = el("button", { type: "button", class: "act", on: { click: () => field.click() } }, "Choose a picture");
  root.append(button, field, el("span", { class: "quiet" }, "or drop or paste one"));
  const take = (files) => files?.length && onFile(files[0]);
  field.addEventListener("change", () => {
    take(field.files);
    field.value = "";
  });
  const carriesFiles = (event) => event.dataTransfer?.types.includes("Files");
  let depth = 0;
  const shade = (on) => document.body.classList.toggle("dropping", on);
  document.addEventListener("dragenter", (event) => carriesFiles(event) && shade(++depth > 0));
  document.addEventListener("dragleave", (event) => carriesFiles(event) && shade(--depth > 0));
  document.addEventListener("dragover", (event) => carriesFiles(event) && event.preventDefault());
  document.addEventListener("drop", (event) => {
    if (!carriesFiles(event)) return;
    event.preventDefault();
    shade(((depth = 0), false));
    take(event.dataTransfer.files);
  });
  document.addEventListener("paste", (event) => {
    if (!event.clipboardData?.files.length) return;
    event.preventDefault();
    take(event.clipboardData.files);
  });
}
