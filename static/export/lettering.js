// The markup of figures, and texts in it: in lines no wider than their room, since SVG breaks none by itself.

import { context2d, el } from "../core/dom.js";
import { SANS } from "./typefaces.js";

/** @type {string[]} */
export const [PAPER, INK, SOFT, RULE] = ["#ffffff", "#1c1a15", "#665f52", "#ddd6c8"];

/** @param {string} text */
const escaped = (text) => String(text).replace(/[&<>"']/g, (sign) => `&#${sign.charCodeAt(0)};`);
/**
 * An element of SVG as markup.
 * @param {string} name
 * @param {{[name: string]: any}} attributes
 * @param {string} [inner]
 * @returns {string}
 */
export const tag = (name, attributes, inner = "") =>
  `<${name} ${Object.entries(attributes)
    .map(([key, value]) => `${key}="${escaped(value)}"`)
    .join(" ")}>${inner}</${name}>`;
/**
 * A number with two decimals.
 * @param {number} value
 * @returns {number}
 */
export const round = (value) => Math.round(100 * value) / 100;

const ruler = context2d(el("canvas"));
/**
 * The width of a text in this font, given as in CSS.
 * @param {string} text
 * @param {string} font
 * @returns {number}
 */
export const widthOf = (text, font) => ((ruler.font = font), ruler.measureText(text).width);

/**
 * The longest beginning of a word that fits into `most`; at least a letter.
 * @param {string} word
 * @param {string} font
 * @param {number} most
 */
function fitting(word, font, most) {
  let end = word.length;
  while (end > 1 && widthOf(word.slice(0, end), font) > most) end--;
  return word.slice(0, end);
}

/**
 * Split a text into lines no wider than `most`, between words; a wider word is split where the line ends.
 * @param {string} text
 * @param {string} font
 * @param {number} most
 */
function wrapped(text, font, most) {
  const lines = [""];
  for (const word of String(text).split(/(?<= )/)) {
    const tried = lines.at(-1) + word;
    if (widthOf(tried.trimEnd(), font) <= most) {
      lines[lines.length - 1] = tried;
      continue;
    }
    let rest = word;
    if (lines.at(-1)) lines.push("");
    while (widthOf(rest.trimEnd(), font) > most && rest.length > 1) {
      lines[lines.length - 1] = fitting(rest, font, most);
      rest = rest.slice(lines[lines.length - 1].length);
      lines.push("");
    }
    lines[lines.length - 1] = rest;
  }
  return lines;
}

/**
 * A text that begins at a baseline, in as many lines as it needs where it may be `most` wide: {markup, more}, `more`
 * the room of all lines but the first.
 * @param {number} x
 * @param {number} y
 * @param {string} text
 * @param {{[name: string]: any}} [style]
 * @returns {{markup: string, more: number}}
 */
export function paragraph(x, y, text, { size = 12, family = SANS, fill = INK, most = Infinity, ...style } = {}) {
  const font = `${style["font-style"] ?? ""} ${style["font-weight"] ?? ""} ${size}px ${family}`;
  const lines = wrapped(text, font, most);
  const leading = Math.round(1.3 * size);
  const inner =
    lines.length > 1
      ? lines.map((part, i) => tag("tspan", { x: round(x), y: round(y + i * leading) }, escaped(part))).join("")
      : escaped(text);
  return {
    markup: tag(
      "text",
      { x: round(x), y: round(y), "font-size": size, "font-family": family, fill, "xml:space": "preserve", ...style },
      inner,
    ),
    more: (lines.length - 1) * leading,
  };
}

/**
 * A text in one line.
 * @param {number} x
 * @param {number} y
 * @param {string} text
 * @param {{[name: string]: any}} style
 * @returns {string}
 */
export const line = (x, y, text, style) => paragraph(x, y, text, style).markup;

/**
 * Paragraphs below each other from `y` on, `width` wide, each [step, text, style]: {markup, y}, the last baseline.
 * @param {number} x
 * @param {number} y
 * @param {number} width
 * @param {any[][]} paragraphs
 * @returns {{markup: string, y: number}}
 */
export function below(x, y, width, paragraphs) {
  const parts = paragraphs.map(([step, text, style]) => {
    const { markup, more } = paragraph(x, (y += step), text, { most: width, ...style });
    y += more;
    return markup;
  });
  return { markup: parts.join(""), y };
}
