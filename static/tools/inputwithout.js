// An input with some of its parts hidden: patches covered by hatching, words struck out, atoms drawn as empty rings.

import { explanationPath } from "../core/api.js";
import { count, el, svg } from "../core/dom.js";
import { outlines, radiusOf } from "../maps/molecules.js";
import { layoutOf, sheetOf } from "../maps/patches.js";
import { unitsOf, wholeText } from "../plates/words.js";
import { hatch } from "./answerchange.js";

/**
 * @import { ImageInput, TextInput } from "../core/schemas.js"
 * @import { Grid } from "../core/types.js"
 */

/**
 * Show the input of explanation `id` in `place`, without the tokens that are `hidden`.
 * @param {HTMLElement} place
 * @param {{id: string, input: ImageInput | TextInput, grid: Grid, hidden: Set<number>}} shown
 */
export async function showWithout(place, { id, input, grid, hidden }) {
  if (input.kind === "image") await showPicture(place, id, /** @type {ImageInput} */ (input), grid, hidden);
  else showWords(place, /** @type {TextInput} */ (input), hidden);
}

/**
 * @param {HTMLElement} place
 * @param {string} id
 * @param {ImageInput} input
 * @param {Grid} grid
 * @param {Set<number>} hidden
 */
async function showPicture(place, id, input, grid, hidden) {
  const clip = input.frames ? await sheetOf(input.frames) : null;
  const image = el("img", { alt: `The picture, ${count(hidden.size, "patch", "patches")} hidden` });
  if (clip) image.src = (await clip.seen(id)).src;
  else image.src = `${explanationPath(id)}/input.png`;
  const cover = el("canvas", { class: "cover", "aria-hidden": "true" });
  place.replaceChildren(el("div", { class: "sheet" }, image, cover));
  hatch(cover, hidden, layoutOf(grid, clip));
}

/**
 * @param {HTMLElement} place
 * @param {TextInput} input
 * @param {Set<number>} hidden
 */
function showWords(place, input, hidden) {
  const units = unitsOf(input, "words");
  const isHidden = units.map(({ tokens }) => tokens.some((token) => hidden.has(token)));
  const { drawing } = input.molecule ?? {};
  if (input.molecule && drawing) {
    const radius = radiusOf(input.molecule);
    const rings = drawing.places.flatMap(([x, y], i) =>
      isHidden[i] ? [svg("circle", { class: "gone", cx: x, cy: y, r: radius })] : [],
    );
    const label = `The molecule, ${count(rings.length, "atom")} hidden`;
    const box = `0 0 ${drawing.size.join(" ")}`;
    return void place.replaceChildren(
      svg("svg", { viewBox: box, role: "img", "aria-label": label }, outlines(drawing), ...rings),
    );
  }
  const text = wholeText(input);
  /** @type {(string | Node)[]} */
  const nodes = [];
  let at = 0;
  units.forEach(({ start, end }, i) => {
    nodes.push(text.slice(at, start), isHidden[i] ? el("del", {}, text.slice(start, end)) : text.slice(start, end));
    at = end;
  });
  place.replaceChildren(el("p", { class: "words" }, ...nodes, text.slice(at)));
}
