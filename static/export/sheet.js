// The paper of a figure: the lines over it, the sheet with its fonts, and the sheet as a PNG file.

import { context2d, el, number, percent } from "../core/dom.js";
import { ownName, targetInWords } from "../core/targets.js";
import { titleOf } from "./titles.js";
import { embedFonts, MONO, SERIF } from "./typefaces.js";
import { below, PAPER, SOFT, tag } from "./lettering.js";

/**
 * @import { Target } from "../core/schemas.js"
 * @import { Explanation } from "../core/types.js"
 */

/** @type {number[]} */
export const [MARGIN, GAP] = [28, 22];
/** Pixels of a picture a unit of the figure. */
export const SHARP = 2;
const NARROW = 760; // a figure that has no room for long lines
const MOST = 60_000_000; // pixels of a PNG

/**
 * The lines over a figure `width` wide, about one or several explanations: {markup, height}. `choices` says how it is
 * drawn, `more` is a line of its own.
 * @param {Explanation[]} explanations
 * @param {string} choices
 * @param {number} width
 * @param {string} [more]
 * @returns {{markup: string, height: number}}
 */
export function heading(explanations, choices, width, more = "") {
  /** @param {Target} target */
  const about = (target) =>
    `${targetInWords(target)}: ${target.probability === undefined && !target.against ? "value" : "logit"} ${number(target.logit)}${target.probability === undefined ? "" : `, ${percent(target.probability)}`}`;
  const [{ created, versions }] = explanations;
  const digests = explanations.map((explanation) => explanation.weights_digest.slice(0, 12)).join(", ");
  const provenance = `${created.slice(0, 16).replace("T", " ")} UTC · weights ${digests}`;
  const how = `Vitrine ${versions.vitrine} · ${choices}`;
  const fine = { size: 11, family: MONO, fill: SOFT };
  const titles = [...new Set(explanations.map(({ title }) => title).filter(Boolean))];
  const paragraphs = [
    ...(titles.length ? [[20, titles.join(" · "), { size: 15, family: SERIF }]] : []),
    [24, titleOf(explanations), { size: 21, family: SERIF }],
    ...explanations.map(({ model, targets }, i) => [
      i ? 18 : 24,
      `${explanations.length > 1 ? `${ownName(model)} · ` : ""}${targets.map(about).join(" · ")}`,
      { size: 13 },
    ]),
    ...(width < NARROW
      ? [
          [18, provenance, fine],
          [16, how, fine],
        ]
      : [[18, `${provenance} · ${how}`, fine]]),
    ...(more ? [[19, more, { size: 13 }]] : []),
  ];
  const { markup, y } = below(MARGIN, MARGIN, width - 2 * MARGIN, paragraphs);
  return { markup, height: y };
}

/**
 * A drawing on its paper, with its fonts: {svg, width, height}.
 * @param {string} markup
 * @param {number} width
 * @param {number} tall
 * @returns {Promise<{svg: string, width: number, height: number}>}
 */
export async function sheet(markup, width, tall) {
  const height = Math.ceil(tall);
  const size = { width, height, viewBox: `0 0 ${width} ${height}` };
  return {
    svg: tag(
      "svg",
      { xmlns: "http://www.w3.org/2000/svg", ...size },
      tag("style", {}, await embedFonts(markup)) + tag("rect", { width, height, fill: PAPER }) + markup,
    ),
    width,
    height,
  };
}

/**
 * A figure as a PNG file, twice as many pixels as units where that is not too many.
 * @param {{svg: string, width: number, height: number}} options
 * @returns {Promise<Blob>}
 */
export async function raster({ svg, width, height }) {
  const href = URL.createObjectURL(new Blob([svg], { type: "image/svg+xml" }));
  try {
    const picture = new Image();
    picture.src = href;
    await picture.decode();
    const scale = SHARP ** 2 * width * height > MOST ? 1 : SHARP;
    const canvas = el("canvas", { width: scale * width, height: scale * height });
    context2d(canvas).drawImage(picture, 0, 0, canvas.width, canvas.height);
    return await new Promise((resolve) => canvas.toBlob((blob) => resolve(/** @type {Blob} */ (blob)), "image/png"));
  } finally {
    URL.revokeObjectURL(href);
  }
}
