// Plates as one picture: text stays text, patches become rectangles where nothing is smoothed. Ink on paper, also at
// night.

import { explanationPath, getBlob } from "../core/api.js";
import { chosen, colourAt, coloursOf, place, ramp, twoSided } from "../core/colour.js";
import { el, number } from "../core/dom.js";
import { ruleName } from "../core/rules.js";
import { layoutOf, seenSize } from "../maps/patches.js";
import { paint } from "../maps/heatmap.js";
import { drawnAs, byLine, endTexts, meaningOf, oneSignNote, remarks } from "../maps/caption.js";
import { halvesOf, outlines, radiusOf } from "../maps/molecules.js";
import { dataURL, loadFonts, MONO, SERIF } from "./typefaces.js";
import { below, INK, line, PAPER, round, RULE, SOFT, tag, widthOf } from "./lettering.js";
import { GAP, heading, MARGIN, SHARP, sheet } from "./sheet.js";

/**
 * @import { Drawing, ImageInput, MoleculePart } from "../core/schemas.js"
 * @import { Explanation, Unit, View } from "../core/types.js"
 * @import { Drawable, MapPlate } from "../maps/types.js"
 */

const LINE_HEIGHT = 27;
const PICTURE_GAP = 8; // between pictures in a text, and above the words
const WIDTH = { picture: 220, alone: 448, text: 440 };
const FULL_SCORE_OPACITY = 0.48; // of the colour behind a word, as on the page

/** @param {number[]} colour */
const rgb = (colour) => `rgb(${colour.map(Math.round).join(",")})`;

/**
 * @param {string} href
 * @param {number} width
 * @param {number} height
 * @param {{style: string} | {style?: undefined}} [more]
 */
const image = (href, width, height, more = {}) =>
  tag("image", { href, x: 0, y: 0, width: round(width), height: round(height), preserveAspectRatio: "none", ...more });

/**
 * The patches that are removed, in the colour of the paper, and a hairline around the whole.
 * @param {MapPlate} plate
 * @param {number} width
 * @param {number} height
 */
function removedPatches({ map, removal, mapCanvas }, width, height) {
  if (!map?.grid || !removal?.removed.size) return "";
  const { rows, columns, place: placeOf } = layoutOf(map.grid, mapCanvas.sheet);
  const [across, down] = [width / columns, height / rows];
  const d = [...removal.removed]
    .map(placeOf)
    .map(
      ([row, column]) =>
        `M${round(column * across)} ${round(row * down)}h${round(across)}v${round(down)}h${round(-across)}z`,
    )
    .join("");
  return (
    tag("path", {
      class: "removed",
      "data-removed": removal.removed.size,
      d,
      fill: PAPER,
      "shape-rendering": "crispEdges",
    }) + tag("rect", { width: round(width), height: round(height), fill: "none", stroke: RULE })
  );
}

/**
 * A map over its picture, `width` wide: {markup, height}.
 * @param {MapPlate} plate
 * @param {number} width
 * @param {View} view
 */
function pictureBody(plate, width, view) {
  const { mapCanvas } = plate;
  const { base, ends } = plate;
  /** @type {[Drawable, View]} */
  const [map, look] = mapCanvas.look(view);
  const height = (width * base.height) / base.width;
  const canvas = el("canvas", { width: SHARP * width, height: Math.round(SHARP * height) });
  const smooth = view.grid !== "patches" || map !== mapCanvas.map; // so many pixels are a picture
  paint(canvas, base, smooth ? map : null, ends, look);
  const under = image(canvas.toDataURL(), width, height);
  if (smooth) return { markup: under + removedPatches(plate, width, height), height };
  const { rows, columns, place: placeOf } = layoutOf(map.grid, mapCanvas.sheet);
  const signed = twoSided(ends, map.signed);
  const name = coloursOf(view, signed);
  const cells = map.scores.map((score, i) => {
    const [colour, cover] = colourAt(place(chosen(score, signed, view.evidence), ends, signed), signed, name);
    const [row, column] = placeOf(i);
    const box = {
      x: round((column * width) / columns),
      y: round((row * height) / rows),
      width: round(width / columns),
      height: round(height / rows),
    };
    return tag("rect", {
      class: "patch",
      ...box,
      fill: rgb(colour),
      "fill-opacity": round((cover * view.opacity) / 100),
    });
  });
  return {
    markup:
      under + tag("g", { "shape-rendering": "crispEdges" }, cells.join("")) + removedPatches(plate, width, height),
    height,
  };
}

/**
 * The colour of a word for, against, or of a strength.
 * @param {number} t
 * @param {boolean} signed
 * @param {View} view
 */
function hue(t, signed, view) {
  const stops = ramp(signed, coloursOf(view, signed));
  return signed ? stops[t > 0 ? 5 : 1] : stops[6];
}

/**
 * A text with its words on their colours: {markup, height}.
 * @param {MapPlate} mapPlate
 * @param {number} width
 * @param {View} view
 */
function textBody({ base, values, ends, variant, removal }, width, view) {
  const font = `15px ${SERIF}`;
  const signed = twoSided(ends, variant.signed);
  /** @type {{text: string, t: number, struck?: object | false}[]} */
  const segments = [];
  let at = 0;
  /** @type {Unit[]} */ (base.units).forEach(({ start, end, tokens }, i) => {
    const struck = tokens.some((token) => removal?.removed.has(token)) && {
      fill: SOFT,
      "text-decoration": "line-through",
    };
    const t = struck ? 0 : place(chosen(values[i], signed, view.evidence), ends, signed);
    segments.push({ text: base.text.slice(at, start), t: 0 }, { text: base.text.slice(start, end), t, struck });
    at = end;
  });
  segments.push({ text: base.text.slice(at), t: 0 });
  const parts = [];
  let [x, y] = [0, 18];
  for (const { text, t, struck } of segments) {
    for (const piece of text.split(/(\s+)/).filter(Boolean)) {
      const long = widthOf(piece, font);
      if (/\n/.test(piece)) [x, y] = [0, y + LINE_HEIGHT];
      else if (!piece.trim()) x += x ? long : 0;
      else {
        if (x && x + long > width) [x, y] = [0, y + LINE_HEIGHT];
        const fill = rgb(hue(t, signed, view));
        const thick = Math.round(4 * Math.abs(t));
        if (t)
          parts.push(
            tag("rect", {
              x: round(x),
              y: y - 15,
              width: round(long),
              height: 20,
              fill,
              "fill-opacity": round(FULL_SCORE_OPACITY * Math.abs(t)),
            }),
          );
        if (thick)
          parts.push(
            tag("line", {
              x1: round(x),
              x2: round(x + long),
              y1: y + 5 + thick / 2,
              y2: y + 5 + thick / 2,
              stroke: fill,
              "stroke-width": thick,
              ...(t < 0 && signed ? { "stroke-dasharray": `${thick} ${thick}` } : {}),
            }),
          );
        parts.push(line(x, y, piece, { size: 15, family: SERIF, ...struck }));
        x += long;
      }
    }
  }
  return { markup: parts.join(""), height: y + 14 };
}

/**
 * Pictures above the words of their prompt, two in a row: {markup, height}.
 * @param {MapPlate} plate
 * @param {number} width
 * @param {View} view
 */
function promptBody(plate, width, view) {
  /** @type {{mapCanvas: any}[]} */
  const pictures = plate.picture.pictures;
  const bodies = pictures.map(({ mapCanvas }) => {
    const { base, ends, map } = mapCanvas;
    return pictureBody({ ...plate, mapCanvas, base, ends, map, removal: null }, WIDTH.picture - PICTURE_GAP, view);
  });
  let [top, markup] = [0, ""];
  /**
   * @param {string} what
   * @param {number} x
   */
  const put = (what, x) => (markup += tag("g", { transform: `translate(${x} ${round(top)})` }, what));
  for (let i = 0; i < bodies.length; i += 2) {
    const row = bodies.slice(i, i + 2);
    row.forEach((body, j) => put(body.markup, j * WIDTH.picture));
    top += Math.max(...row.map(({ height }) => height)) + PICTURE_GAP;
  }
  const words = textBody(plate, width, view);
  put(words.markup, 0);
  return { markup, height: top + words.height };
}

/**
 * A molecule with its atoms on their colours, `width` wide: {markup, height}.
 * @param {MapPlate} plate
 * @param {number} width
 * @param {View} view
 */
function moleculeBody({ base, values, ends, variant, removal }, width, view) {
  /** @type {MoleculePart} */
  const molecule = base.molecule;
  const drawing = /** @type {Drawing} */ (molecule.drawing);
  const signed = twoSided(ends, variant.signed);
  const radius = radiusOf(molecule);
  const atoms = drawing.places.map(([cx, cy], i) => {
    const isRemoved = /** @type {Unit[]} */ (base.units)[i].tokens.every((token) => removal?.removed.has(token));
    if (isRemoved) return tag("circle", { class: "removed", cx, cy, r: radius, fill: PAPER, "fill-opacity": 0.88 });
    const t = place(chosen(values[i], signed, view.evidence), ends, signed);
    if (!t) return "";
    const colour = rgb(hue(t, signed, view));
    const halves = halvesOf(molecule, i).map(([x1, y1, x2, y2]) =>
      tag("line", { x1, y1, x2, y2, stroke: colour, "stroke-width": round(1.1 * radius) }),
    );
    const ring = {
      fill: "none",
      stroke: colour,
      "stroke-width": round(2.8 * Math.abs(t)),
      ...(t < 0 && signed ? { "stroke-dasharray": "1 4", "stroke-linecap": "round" } : {}),
    };
    return (
      tag(
        "g",
        { class: "atom", opacity: round(FULL_SCORE_OPACITY * Math.abs(t)) },
        halves.join("") + tag("circle", { cx, cy, r: radius, fill: colour }),
      ) + tag("circle", { cx, cy, r: radius, ...ring })
    );
  });
  const scale = width / drawing.size[0];
  const drawn = tag("g", { color: INK }, outlines(drawing).innerHTML);
  return {
    markup: tag("g", { transform: `scale(${round(scale)})` }, drawn + atoms.join("")),
    height: scale * drawing.size[1],
  };
}

/**
 * The colours of the bar under a plate, from its low end to its high end.
 * @param {MapPlate} plate
 * @param {View} view
 */
function bar(plate, view) {
  const signed = twoSided(plate.ends, plate.variant.signed);
  const stops = ramp(signed, coloursOf(view, signed));
  if (plate.mapCanvas) return stops;
  const ground = [255, 255, 255]; // the paper, on which words are coloured
  return signed ? [stops[1], ground, stops[5]] : [ground, stops[6]];
}

/**
 * One plate with its label: {markup, height, doubts}. `doubts` say why the map cannot be trusted; they stand under the
 * figure, where they leave no hole between its rows.
 * @param {MapPlate} plate
 * @param {number} width
 * @param {View} view
 * @param {number} i
 */
function cell(plate, width, view, i) {
  const { variant, map, target } = plate;
  const drawText = plate.base.molecule?.drawing ? moleculeBody : plate.picture ? promptBody : textBody;
  const drawBody = plate.mapCanvas ? pictureBody : drawText;
  const body = drawBody(plate, width, view);
  const { ends } = plate;
  const signed = twoSided(ends, variant.signed);
  const stops = bar(plate, view);
  const gradient = tag(
    "linearGradient",
    { id: `ramp-${i}` },
    stops
      .map((colour, k) => tag("stop", { offset: round(k / (stops.length - 1)), "stop-color": rgb(colour) }))
      .join(""),
  );
  const of = map?.target ?? target;
  const about = target === null ? byLine(variant) : target === of ? target : `${target}: ${of}`;
  const name = below(0, body.height, width, [
    [21, variant.title, { size: 15, family: SERIF, "font-weight": 600 }],
    [16, about, target === null ? { fill: SOFT } : { fill: SOFT, "font-style": "italic", family: SERIF, size: 14 }],
  ]);
  let y = name.y + 9;
  const label = [
    name.markup,
    gradient,
    tag("rect", { x: 0, y, width, height: 7, fill: `url(#ramp-${i})`, stroke: RULE }),
  ];
  y += 19;
  const small = { size: 10.5, family: MONO, fill: SOFT };
  const [lowEnd, highEnd] = endTexts(ends, plate.values);
  label.push(line(0, y, lowEnd, small), line(width, y, highEnd, { ...small, "text-anchor": "end" }));
  if (signed) label.push(line(width / 2, y, "0", { ...small, "text-anchor": "middle" }));
  y += 13;
  const [low, high] = meaningOf({ signed, meaning: variant.meaning });
  label.push(line(0, y, low, small), line(width, y, high, { ...small, "text-anchor": "end" }));
  const rule = variant.rule && !variant.names_rule ? `${ruleName(variant.rule)} · ` : "";
  const [least, most] = map?.range ?? ends;
  /** @type {[number, string, object][]} */
  const facts = [[15, `${rule}range ${number(least, 2)} … ${number(most, 2)}`, small]];
  const note = oneSignNote(ends, variant.signed, plate.picture ? "in the words" : undefined);
  if (note) facts.push([15, note, small]);
  const { texts, isDoubtful } = remarks(map ? [map] : []);
  const doubts = isDoubtful ? texts.map((text) => `! ${variant.title}: ${text}`) : [];
  if (isDoubtful) facts.push([15, "doubtful: see the note below", { ...small, fill: INK }]);
  if (plate.removal?.resultLine) facts.push([15, plate.removal.resultLine, { ...small, fill: INK }]);
  const under = below(0, y, width, facts);
  return { markup: body.markup + label.join("") + under.markup, height: under.y, doubts };
}

/**
 * @param {string} id
 * @param {ImageInput} input
 * @param {number} width
 * @param {MapPlate} plate
 */
async function inputCell(id, { seen, frames }, width, { base }) {
  const href = base.sheet
    ? (await base.sheet.seen(id)).src
    : await dataURL(await getBlob(`${explanationPath(id)}/input.png`));
  const height = (width * base.height) / base.width;
  const caption = below(0, height, width, [
    [21, "As the model saw it", { size: 15, family: SERIF }],
    [16, `${seenSize({ seen, frames })} pixels`, { size: 10.5, family: MONO, fill: SOFT }],
  ]);
  const drawn = image(href, width, height, seen[0] < SHARP * width ? { style: "image-rendering: pixelated" } : {});
  return { markup: drawn + caption.markup, height: caption.y, doubts: [] };
}

/**
 * Choose how many tiles stand in a row: the first of the `choices` that leaves the fewest gaps, if possible not a tile
 * alone in the last row.
 * @param {number} tiles
 * @param {...number} choices
 * @returns {number}
 */
export function tilesPerRow(tiles, ...choices) {
  if (tiles <= choices[0]) return tiles;
  /** @param {number} across */
  const gaps = (across) => (across - (tiles % across)) % across;
  /** @param {number} across */
  const cost = (across) => gaps(across) + (across > 2 && tiles % across === 1 ? tiles : 0);
  return choices.reduce((best, across) => (cost(across) < cost(best) ? across : best));
}

/**
 * The plates of an explanation, or of two by two models, as a figure: {svg, width, height}. `columns` 0: as many as
 * look well. A single plate is drawn large; several plates of a picture come with the picture itself.
 * @param {{plates: MapPlate[], view: View, columns: number, explanations: Explanation[]}} options
 * @returns {Promise<{svg: string, width: number, height: number}>}
 */
export async function figure({ plates, view, columns, explanations }) {
  await loadFonts();
  const alone = plates.length === 1;
  const kind = plates[0].mapCanvas ? (alone ? "alone" : "picture") : "text";
  const width = WIDTH[kind];
  const cells = plates.map((plate, i) => cell(plate, width, view, i));
  const [{ id, input: asked }] = explanations;
  if (kind === "picture" && asked.kind === "image") {
    const input = await inputCell(id, asked, width, plates[0]);
    if (columns)
      for (let i = 0; i < columns; i++) cells.splice(i, 0, i ? { markup: "", height: 0, doubts: [] } : input);
    else cells.unshift(input);
  }
  const across = alone ? 1 : columns || tilesPerRow(cells.length, ...(kind === "text" ? [2, 3] : [4, 5, 3, 6]));
  const whole = 2 * MARGIN + across * width + (across - 1) * GAP;
  const parts = [];
  const signed = plates.map(({ ends, variant }) => twoSided(ends, variant.signed));
  const above = heading(explanations, drawnAs(view, signed), whole, removedLine(plates, explanations));
  parts.push(above.markup);
  let y = above.height + GAP;
  for (let i = 0; i < cells.length; i += across) {
    const row = cells.slice(i, i + across);
    row.forEach(({ markup }, k) =>
      parts.push(tag("g", { transform: `translate(${MARGIN + k * (width + GAP)} ${round(y)})` }, markup)),
    );
    y += Math.max(...row.map(({ height }) => height)) + GAP;
  }
  const doubts = [...new Set(cells.flatMap((each) => each.doubts))].map((text) => [17, text, { size: 12 }]);
  const notes = below(MARGIN, y - GAP + 8, whole - 2 * MARGIN, doubts);
  parts.push(notes.markup);
  return sheet(parts.join(""), whole, (doubts.length ? notes.y : y - GAP) + MARGIN);
}

/**
 * One line on what the deletion test removed from the plates; empty where it is nothing.
 * @param {MapPlate[]} plates
 * @param {Explanation[]} explanations
 */
function removedLine(plates, explanations) {
  const begun = explanations.flatMap(({ id, model }) => {
    const removal = plates.find((plate) => plate.actions.id === id && plate.removal?.removed.size)?.removal;
    return removal ? { model, ...removal } : [];
  });
  const counts = begun.map(
    ({ removed, of, model }) => `${removed.size} of ${of}${explanations.length > 1 ? ` (${model})` : ""}`,
  );
  return begun.length ? `Removed: the ${begun[0].which} tokens of each map, ${counts.join(", ")}.` : "";
}
