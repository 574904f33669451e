// The cells of one row of a collection: the picture with its maps, or the text with its words, the answer, the reasons.

import { count, el, MINUS, number, percent } from "../core/dom.js";
import { limits } from "../core/colour.js";
import { greyBase, paint } from "../maps/heatmap.js";

/** @import { CollectionFlag, CollectionRowMap, CollectionRow } from "../core/schemas.js" */

const SIDE = 60; // pixels of a thumbnail in the table
const NEAR = "400px 0px"; // from the view, within which pictures are drawn
const MOST_DRAWING = 6; // rows whose pictures are fetched and drawn at a time
const LEVELS = 4; // of the underlines of words
const BEFORE = 6; // words shown before the first that matters
const VIEW = { evidence: "both", grid: "patches", opacity: 78 }; // smoothing would take most of the time of a row

// how the pictures of a row are fetched and drawn, until they are
/** @type {WeakMap<Element, () => Promise<void>>} */
const jobs = new WeakMap();
// those near the view that are not drawn yet, in the order in which they came
/** @type {Set<Element>} */
const wanted = new Set();
let drawing = 0; // rows whose pictures are fetched or drawn now

// a row that leaves the view before its turn costs nothing
const nearView = new IntersectionObserver(
  (entries) => {
    for (const { target, isIntersecting } of entries) {
      wanted.delete(target);
      if (isIntersecting && jobs.has(target)) wanted.add(target);
    }
    drawWanted();
  },
  { scrollMargin: NEAR },
);

function drawWanted() {
  while (drawing < MOST_DRAWING && wanted.size) {
    const [target] = wanted;
    const job = jobs.get(target);
    wanted.delete(target);
    jobs.delete(target);
    nearView.unobserve(target);
    drawing++;
    job?.().finally(() => {
      drawing--;
      drawWanted();
    });
  }
}

/**
 * The picture of a row, and next to it each map over it in grey, as a button that enlarges them; both are fetched and
 * drawn when they come near the view.
 * @param {CollectionRow} row
 * @param {string} source of the thumbnail
 * @param {string[]} titles of the methods whose maps are shown
 * @param {() => void} onEnlarge
 * @returns {HTMLElement}
 */
export function pictures(row, source, titles, onEnlarge) {
  const image = el("img", { alt: "", class: "seen", width: SIDE, height: SIDE });
  const maps = titles.map((title, i) => ({ map: row.maps[i], canvas: mapCanvas(title) }));
  const click = (/** @type {Event} */ event) => {
    event.stopPropagation(); // the row would open
    onEnlarge();
  };
  const name = `Enlarge ${row.input}`;
  const node = el(
    "button",
    { type: "button", class: "pictures", title: name, "aria-label": name, on: { click } },
    image,
    ...maps.map(({ canvas }) => canvas),
  );
  jobs.set(node, async () => {
    image.src = source;
    try {
      await image.decode();
    } catch {
      return; // it has no picture
    }
    const base = greyBase(image, 2 * SIDE, 2 * SIDE);
    for (const { map, canvas } of maps) drawMap(canvas, base, map, row.grid);
  });
  nearView.observe(node);
  return node;
}

/** @param {string} title of its method */
const mapCanvas = (title) =>
  el("canvas", { width: 2 * SIDE, height: 2 * SIDE, title, role: "img", "aria-label": `Map of ${title}` });

/**
 * Draw a map over a picture in grey.
 * @param {HTMLCanvasElement} canvas
 * @param {OffscreenCanvas} base
 * @param {CollectionRowMap} map
 * @param {number[]} grid
 */
export function drawMap(canvas, base, map, grid) {
  const signed = map.scores.some((score) => score < 0);
  paint(canvas, base, { scores: map.scores, grid, signed }, limits([map.scores], signed), VIEW);
}

/**
 * The words of a text, underlined as the first map has them, from a little before the first one that matters.
 * @param {CollectionRow} row
 * @returns {HTMLElement}
 */
export function words(row) {
  const texts = [row.text, row.text_pair].map((text) => [...(text ?? "")]);
  const scores = row.maps[0]?.scores ?? [];
  const most = Math.max(1, ...scores.map(Math.abs));
  const level = (/** @type {number} */ score) => Math.round((LEVELS * Math.abs(score)) / most);
  const first = scores.findIndex((score) => level(score) === LEVELS);
  const from = first > 2 * BEFORE ? first - BEFORE : 0;
  /** @type {(string | Node)[]} */
  const parts = from ? ["… "] : [];
  row.words.slice(from).forEach(([start, end, part], i) => {
    const [, before, partBefore] = row.words[from + i - 1] ?? [0, 0, 0];
    const gap = i && part === partBefore ? texts[part].slice(before, start).join("") : i ? " · " : "";
    const score = scores[from + i] ?? 0;
    const mark = `${score < 0 ? "against" : "for"} s${level(score)}`;
    parts.push(gap, el("span", { class: mark }, texts[part].slice(start, end).join("")));
  });
  return el("div", { class: "words" }, parts.length > 1 ? parts : (row.text ?? ""));
}

/**
 * The label and the answer, marked where it is wrong.
 * @param {CollectionRow} row
 * @param {boolean} [isOpener] whether the answer is the button that opens the row
 * @returns {HTMLElement}
 */
export function answerCell(row, isOpener = false) {
  const { labels, answer, right, probability, runner_up: second, runner_up_probability: of } = row;
  const sure = probability === null ? "" : percent(probability);
  const mark = right === null ? null : el("i", { class: right ? "right" : "wrong" }, right ? "right" : "wrong");
  const other = right === false ? `label: ${labels.join(", ")}` : second && of ? `then ${second}, ${percent(of)}` : "";
  return el(
    "div",
    { class: "answer" },
    isOpener
      ? el("button", { type: "button", class: "link what open", title: `Open ${row.input} in the workbench` }, answer)
      : el("span", { class: "what", title: answer }, answer),
    el("span", { class: "figure" }, sure, mark),
    el("span", { class: "quiet", title: other }, other),
  );
}

/**
 * How suspicious a row is, and why.
 * @param {CollectionRow} row
 * @param {CollectionFlag[]} flags
 * @returns {HTMLElement}
 */
export function reasons({ suspicion, flags: has }, flags) {
  const bar = el("meter", { min: 0, max: 1, value: suspicion, title: `suspicion ${number(suspicion, 2)} of 1` });
  const named = flags.filter(({ name }) => has.includes(name));
  return el(
    "div",
    { class: "reasons" },
    bar,
    el(
      "span",
      { class: "chips" },
      named.map(({ title, says }) => el("span", { class: "chip", title: says }, title)),
    ),
  );
}

/**
 * The name of a row, as the button that opens it, and its own columns.
 * @param {CollectionRow} row
 * @returns {HTMLElement}
 */
export function nameCell({ input, own_columns: own, notes, doubt }) {
  const more = [
    ...Object.entries(own).map(([name, value]) => `${name} ${value}`),
    ...(doubt ? ["the model abstains"] : []),
  ];
  const noted = notes.length ? count(notes.length, "note") : "";
  return el(
    "div",
    { class: "named" },
    el("button", { type: "button", class: "link open", title: `Open ${input} in the workbench` }, breakable(input)),
    el("span", { class: "quiet", title: notes.join(" ") }, [...more, ...(noted ? [noted] : [])].join(" · ")),
  );
}

/**
 * A path, of which lines may break after each folder.
 * @param {string} path
 */
const breakable = (path) => path.split(/(?<=\/)/).flatMap((part, i) => (i ? [el("wbr"), part] : [part]));

/** @param {number | null} value */
export const share = (value) => (value === null ? "–" : percent(value));

/**
 * Format a correlation with two decimals, a zero without its sign.
 * @param {number | null} value
 */
export const correlation = (value) =>
  value === null ? "–" : Math.abs(value) < 0.005 ? "0" : value.toFixed(2).replace("-", MINUS);
