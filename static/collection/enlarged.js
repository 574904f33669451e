// One row at a size at which it can be looked at: its picture and each of its maps, with the names of their methods.

import { getBlob } from "../core/api.js";
import { context2d, el } from "../core/dom.js";
import { greyBase } from "../maps/heatmap.js";
import { drawMap } from "./rowcells.js";

/** @import { CollectionAbout, CollectionRow } from "../core/schemas.js" */

const SIDE = 640; // pixels of a drawn picture

/**
 * The part of a row's picture that the model saw, of the picture itself where that is there, else its thumbnail.
 * @param {string} path of the calls about the collection
 * @param {CollectionRow} row
 * @returns {Promise<CanvasImageSource>}
 */
async function seen(path, { index, crop }) {
  try {
    const address = URL.createObjectURL(await getBlob(`${path}/inputs/${index}`));
    const image = el("img", { src: address });
    await image.decode().finally(() => URL.revokeObjectURL(address));
    const [left, top, right, bottom] = crop;
    const part = new OffscreenCanvas(right - left, bottom - top);
    context2d(part).drawImage(image, -left, -top);
    return part;
  } catch {
    const image = el("img", { src: `${path}/thumbnails/${index}.jpg` });
    await image.decode();
    return image;
  }
}

/**
 * Show a row in a dialog until it is closed; `onOpen` is called where its workbench is asked for.
 * @param {CollectionAbout} about
 * @param {string} path of the calls about the collection
 * @param {CollectionRow} row
 * @param {() => void} onOpen
 * @returns {Promise<void>}
 */
export async function enlarge(about, path, row, onOpen) {
  const canvas = (/** @type {string} */ label) =>
    el("canvas", { width: SIDE, height: SIDE, role: "img", "aria-label": label });
  const picture = canvas(row.input);
  const maps = row.maps.map((map, i) => ({ map, canvas: canvas(`Map of ${about.method_titles[i]}`) }));
  const figure = (/** @type {HTMLElement} */ drawn, /** @type {string} */ caption) =>
    el("figure", {}, drawn, el("figcaption", {}, caption));
  const close = el("button", { type: "button", class: "act plain", on: { click: () => dialog.close() } }, "Close");
  const open = el("button", { type: "button", class: "act", on: { click: onOpen } }, "Open in the workbench");
  const answered = `${row.answer}${row.right === false ? `, label: ${row.label}` : ""}`;
  const dialog = el(
    "dialog",
    { class: "enlarged", "aria-label": row.input },
    el("div", { class: "head" }, el("h2", {}, row.input), el("span", { class: "quiet" }, answered), open, close),
    el(
      "div",
      { class: "figures" },
      figure(picture, "Picture, as the model saw it"),
      maps.map(({ canvas: drawn }, i) => figure(drawn, about.method_titles[i])),
    ),
  );
  dialog.addEventListener("close", () => dialog.remove());
  dialog.addEventListener("click", ({ target }) => target === dialog && dialog.close());
  (document.querySelector("main") ?? document.body).append(dialog);
  dialog.showModal();
  const image = await seen(path, row);
  context2d(picture).drawImage(image, 0, 0, SIDE, SIDE);
  const base = greyBase(image, SIDE, SIDE);
  for (const { map, canvas: drawn } of maps) drawMap(drawn, base, map, row.grid);
}
