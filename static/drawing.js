// Plates as one picture: text stays text, patches become rectangles where nothing is smoothed. Ink on paper, also at night.

import { explanationPath, getBlob } from "./api.js";
import { paint } from "./canvas/heatmap.js";
import { spoken } from "./classes.js";
import { chosen, colourAt, coloursOf, place, ramp } from "./colour.js";
import { el, number, percent } from "./dom.js";
import { byLine, ruleName } from "./label.js";

export const [PAPER, INK, SOFT, RULE] = ["#fffefb", "#1c1a15", "#665f52", "#ddd6c8"];
export const SERIF = "'Iowan Old Style', 'Palatino Linotype', Palatino, P052, 'Book Antiqua', Georgia, serif";
const SANS = "system-ui, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif";
export const MONO = "ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', monospace";
export const [MARGIN, GAP] = [28, 22];
const LINE = 27;
const NARROW = 760; // a figure that has no room for long lines
const WIDTH = { picture: 220, alone: 448, text: 440 };
const MIX = 0.48; // of a word's ground at full score, as on the page
const SHARP = 2; // pixels of a picture a unit of the figure
const MOST = 60_000_000; // pixels of a PNG

const escaped = (text) => String(text).replace(/[&<>"]/g, (sign) => `&#${sign.charCodeAt(0)};`);
export const tag = (name, attributes, inner = "") => `<${name} ${Object.entries(attributes).map(([key, value]) => `${key}="${escaped(value)}"`).join(" ")}>${inner}</${name}>`;
export const round = (value) => Math.round(100 * value) / 100;
const rgb = (colour) => `rgb(${colour.map(Math.round).join(",")})`;

const ruler = new OffscreenCanvas(1, 1).getContext("2d");
const widthOf = (text, font) => ((ruler.font = font), ruler.measureText(text).width);

/** A line of text, cut where it is too long. */
export function line(x, y, text, { size = 12, family = SANS, fill = INK, most = Infinity, ...more } = {}) {
  const font = `${more["font-style"] ?? ""} ${more["font-weight"] ?? ""} ${size}px ${family}`;
  let shown = text;
  while (shown.length > 1 && widthOf(shown, font) > most) shown = `${shown.slice(0, -2).trimEnd()}…`;
  return tag("text", { x: round(x), y: round(y), "font-size": size, "font-family": family, fill, "xml:space": "preserve", ...more }, escaped(shown));
}

const image = (href, width, height) => tag("image", { href, x: 0, y: 0, width: round(width), height: round(height), preserveAspectRatio: "none" });

/** The patches that are gone, in the colour of the paper, and a hairline around the whole. */
function holes({ map: { grid: [rows, columns] }, cut }, width, height) {
  if (!cut?.gone.size) return "";
  const [across, down] = [width / columns, height / rows];
  const d = [...cut.gone].map((i) => `M${round((i % columns) * across)} ${round(Math.floor(i / columns) * down)}h${round(across)}v${round(down)}h${round(-across)}z`).join("");
  return tag("path", { class: "gone", "data-gone": cut.gone.size, d, fill: PAPER, "shape-rendering": "crispEdges" }) + tag("rect", { width: round(width), height: round(height), fill: "none", stroke: RULE });
}

/** A map over its picture, `width` wide: {markup, height}. */
function pictureBody(plate, width, view) {
  const { face, map } = plate;
  const { base, ends } = face;
  const height = (width * base.height) / base.width;
  const canvas = el("canvas", { width: SHARP * width, height: Math.round(SHARP * height) });
  const smooth = view.grid !== "patches";
  paint(canvas, base, smooth ? map : null, ends, view);
  const under = image(canvas.toDataURL(), width, height);
  if (smooth) return { markup: under + holes(plate, width, height), height };
  const [rows, columns] = map.grid;
  const name = coloursOf(view, map.signed);
  const cells = map.scores.map((score, i) => {
    const [colour, cover] = colourAt(place(chosen(score, map.signed, view.evidence), ends, map.signed), map.signed, name);
    const box = { x: round(((i % columns) * width) / columns), y: round((Math.floor(i / columns) * height) / rows), width: round(width / columns), height: round(height / rows) };
    return tag("rect", { class: "patch", ...box, fill: rgb(colour), "fill-opacity": round((cover * view.opacity) / 100) });
  });
  return { markup: under + tag("g", { "shape-rendering": "crispEdges" }, cells.join("")) + holes(plate, width, height), height };
}

/** The colour of a word for, against, or of a strength. */
function hue(t, signed, view) {
  const stops = ramp(signed, coloursOf(view, signed));
  return signed ? stops[t > 0 ? 5 : 1] : stops[6];
}

/** A text with its words on their colours: {markup, height}. */
function textBody({ base, values, ends, variant, cut }, width, view) {
  const font = `15px ${SERIF}`;
  const segments = [];
  let at = 0;
  base.units.forEach(({ start, end, tokens }, i) => {
    const struck = tokens.some((token) => cut?.gone.has(token)) && { fill: SOFT, "text-decoration": "line-through" };
    const t = struck ? 0 : place(chosen(values[i], variant.signed, view.evidence), ends, variant.signed);
    segments.push({ text: base.text.slice(at, start), t: 0 }, { text: base.text.slice(start, end), t, struck });
    at = end;
  });
  segments.push({ text: base.text.slice(at), t: 0 });
  const parts = [];
  let [x, y] = [0, 18];
  for (const { text, t, struck } of segments) {
    for (const piece of text.split(/(\s+)/).filter(Boolean)) {
      const long = widthOf(piece, font);
      if (/\n/.test(piece)) [x, y] = [0, y + LINE];
      else if (!piece.trim()) x += x ? long : 0;
      else {
        if (x && x + long > width) [x, y] = [0, y + LINE];
        const fill = rgb(hue(t, variant.signed, view));
        const thick = Math.round(4 * Math.abs(t));
        if (t) parts.push(tag("rect", { x: round(x), y: y - 15, width: round(long), height: 20, fill, "fill-opacity": round(MIX * Math.abs(t)) }));
        if (thick) parts.push(tag("line", { x1: round(x), x2: round(x + long), y1: y + 5 + thick / 2, y2: y + 5 + thick / 2, stroke: fill, "stroke-width": thick, ...(t < 0 && variant.signed ? { "stroke-dasharray": `${thick} ${thick}` } : {}) }));
        parts.push(line(x, y, piece, { size: 15, family: SERIF, ...struck }));
        x += long;
      }
    }
  }
  return { markup: parts.join(""), height: y + 14 };
}

/** The colours of the bar under a plate, from its low end to its high end. */
function bar(plate, view) {
  const { signed } = plate.variant;
  const stops = ramp(signed, coloursOf(view, signed));
  if (plate.face) return stops;
  const ground = [255, 254, 251]; // the paper, on which words are coloured
  return signed ? [stops[1], ground, stops[5]] : [ground, stops[6]];
}

/** One plate with its label: {markup, height}. */
function cell(plate, width, view, i) {
  const { variant, map, target } = plate;
  const body = plate.face ? pictureBody(plate, width, view) : textBody(plate, width, view);
  const ends = plate.face ? plate.face.ends : plate.ends;
  const stops = bar(plate, view);
  const gradient = tag("linearGradient", { id: `ramp-${i}` }, stops.map((colour, k) => tag("stop", { offset: round(k / (stops.length - 1)), "stop-color": rgb(colour) })).join(""));
  let y = body.height;
  const below = (step, text, style) => line(0, (y += step), text, { most: width, ...style });
  const label = [
    below(21, variant.title, { size: 15, family: SERIF, "font-weight": 600 }),
    below(16, target === null ? byLine(variant) : target === map.target ? target : `${target}: ${map.target}`, target === null ? { fill: SOFT } : { fill: SOFT, "font-style": "italic", family: SERIF, size: 14 }),
    gradient,
    tag("rect", { x: 0, y: (y += 9), width, height: 7, fill: `url(#ramp-${i})`, stroke: RULE }),
  ];
  y += 19;
  const small = { size: 10.5, family: MONO, fill: SOFT };
  label.push(line(0, y, number(ends[0], 2), small), line(width, y, number(ends[1], 2), { ...small, "text-anchor": "end" }));
  if (variant.signed) label.push(line(width / 2, y, "0", { ...small, "text-anchor": "middle" }));
  const rule = variant.rule && !variant.title.includes("·") ? `${ruleName(variant.rule)} · ` : "";
  label.push(below(15, `${rule}range ${number(map.range[0], 2)} … ${number(map.range[1], 2)}`, small));
  if (plate.cut?.told) label.push(below(15, plate.cut.told, { ...small, fill: INK }));
  return { markup: body.markup + label.join(""), height: y };
}

async function inputCell(explanation, width, face) {
  const bytes = await getBlob(`${explanationPath(explanation.id)}/input.png`);
  const href = await new Promise((resolve, reject) => {
    const reader = Object.assign(new FileReader(), { onload: () => resolve(reader.result), onerror: () => reject(reader.error) });
    reader.readAsDataURL(bytes);
  });
  const height = (width * face.base.height) / face.base.width;
  const caption = line(0, height + 21, "The picture as the model saw it", { size: 15, family: SERIF, most: width });
  return { markup: image(href, width, height) + caption, height: height + 21 };
}

/**
 * The plates of an explanation, or of two by two models, as a figure: {svg, width, height}. `columns` 0: as many as look well. A single plate is drawn large;
 * several plates of a picture come with the picture itself.
 */
export async function figure({ plates, view, columns, explanations }) {
  const alone = plates.length === 1;
  const kind = plates[0].face ? (alone ? "alone" : "picture") : "text";
  const width = WIDTH[kind];
  const cells = plates.map((plate, i) => cell(plate, width, view, i));
  if (kind === "picture" && explanations[0].input.kind === "image") {
    const own = await inputCell(explanations[0], width, plates[0].face);
    if (columns) for (let i = 0; i < columns; i++) cells.splice(i, 0, i ? { markup: "", height: 0 } : own);
    else cells.unshift(own);
  }
  const across = alone ? 1 : columns || Math.min(cells.length, kind === "text" ? 2 : 4);
  const whole = 2 * MARGIN + across * width + (across - 1) * GAP;
  const parts = [];
  const above = heading(explanations, `evidence ${view.evidence}, scale ${view.scale}`, whole, takenAway(plates, explanations));
  parts.push(above.markup);
  let y = above.height + GAP;
  for (let i = 0; i < cells.length; i += across) {
    const row = cells.slice(i, i + across);
    row.forEach(({ markup }, k) => parts.push(tag("g", { transform: `translate(${MARGIN + k * (width + GAP)} ${round(y)})` }, markup)));
    y += Math.max(...row.map(({ height }) => height)) + GAP;
  }
  return sheet(parts.join(""), whole, y + MARGIN - GAP);
}

/** The lines over a figure `width` wide, about one or several explanations: {markup, height}. `choices` says how it is drawn, `more` is a line of its own. */
export function heading(explanations, choices, width, more = "") {
  const about = (target) => `${spoken(target)}: logit ${number(target.logit)}${target.probability === undefined ? "" : `, ${percent(target.probability)}`}`;
  const [{ created, versions }] = explanations;
  const digests = explanations.map((one) => one.weights_digest.slice(0, 12)).join(", ");
  const made = `${created.slice(0, 16).replace("T", " ")} UTC · weights ${digests}`;
  const how = `Vitrine ${versions.vitrine} · ${choices}`;
  const asked = [...new Set(explanations.flatMap(({ targets }) => targets.map(spoken)))];
  const fine = { size: 11, family: MONO, fill: SOFT };
  const lines = [
    [26, `“${asked.join("”, “")}”`, { size: 24, family: SERIF, "font-style": "italic" }],
    ...explanations.map(({ model, targets }, i) => [i ? 18 : 24, `${model} · ${targets.map(about).join(" · ")}`, { size: 13 }]),
    ...(width < NARROW ? [[18, made, fine], [16, how, fine]] : [[18, `${made} · ${how}`, fine]]),
    ...(more ? [[19, more, { size: 13 }]] : []),
  ];
  let y = MARGIN;
  const parts = lines.map(([step, text, style]) => line(MARGIN, (y += step), text, { most: width - 2 * MARGIN, ...style }));
  return { markup: parts.join(""), height: y };
}

/** What the dock has taken away from the plates; empty where it is nothing. */
function takenAway(plates, explanations) {
  const cuts = explanations.map(({ id, model }) => ({ model, ...plates.find((plate) => plate.take.id === id && plate.cut?.gone.size)?.cut }));
  const some = cuts.filter(({ gone }) => gone);
  const counts = some.map(({ gone, of, model }) => `${gone.size} of ${of}${explanations.length > 1 ? ` (${model})` : ""}`);
  return some.length ? `Taken away: the ${some[0].which} tokens of each map, ${counts.join(", ")}.` : "";
}

/** A drawing on its paper: {svg, width, height}. */
export function sheet(markup, width, tall) {
  const height = Math.ceil(tall);
  const size = { width, height, viewBox: `0 0 ${width} ${height}` };
  return { svg: tag("svg", { xmlns: "http://www.w3.org/2000/svg", ...size }, tag("rect", { width, height, fill: PAPER }) + markup), width, height };
}

/** A figure as a PNG file, twice as many pixels as units where that is not too many. */
export async function raster({ svg, width, height }) {
  const href = URL.createObjectURL(new Blob([svg], { type: "image/svg+xml" }));
  try {
    const picture = new Image();
    picture.src = href;
    await picture.decode();
    const scale = SHARP ** 2 * width * height > MOST ? 1 : SHARP;
    const canvas = el("canvas", { width: scale * width, height: scale * height });
    canvas.getContext("2d").drawImage(picture, 0, 0, canvas.width, canvas.height);
    return await new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
  } finally {
    URL.revokeObjectURL(href);
  }
}
