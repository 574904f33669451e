// The curves of the deletion test as a picture of their own, with a line of its own for each method, and the ranking as
// its legend.

import { number, percent } from "../core/dom.js";
import { isFailing } from "../maps/chance.js";
import { axisOf, BASELINE, BETTER, endsOf, rankedMethods, ticksOf, tickText, TITLES } from "../maps/curvepanel.js";
import { loadFonts, MONO, SERIF } from "./typefaces.js";
import { INK, line, paragraph, round, RULE, SOFT, tag } from "./lettering.js";
import { GAP, heading, MARGIN, sheet } from "./sheet.js";

/**
 * @import { Ends } from "../core/colour.js"
 * @import { DeletionAnswer, Explanation } from "../core/types.js"
 */

const PANEL = { width: 460, height: 300, left: 54, right: 8, top: 40, bottom: 44 };
// one for each of the usual methods and the control; the first are told apart by those who see few colours, too
const HUES = [
  ...["#0072b2", "#d55e00", "#009e73", "#a6468c", "#2f9bd6", "#b07a00", "#5b5b5b"],
  ...["#7a3b1e", "#6f5bd6", "#7a8f00", "#d0559b", "#008c95"],
];
const DASHES = ["none", "7 3", "2 2.5", "8 3 2 3", "12 4"];
const DASHED = { stroke: INK, "stroke-width": 1.4, "stroke-dasharray": "4 4" };
const ROW = 19;
const COLUMNS = [66, 84, 560, 690, 820]; // of the table: rank, method, and the right ends of its numbers
const small = { size: 11, family: MONO, fill: SOFT };

/**
 * The stroke of the curve of the `i`-th method in the ranking.
 * @param {number} i
 */
const styleOf = (i) => ({
  stroke: HUES[i % HUES.length],
  "stroke-width": i ? 1.5 : 2.6,
  "stroke-dasharray": DASHES[Math.floor(i / HUES.length) % DASHES.length],
});

/**
 * @param {string} order
 * @param {DeletionAnswer} answer
 * @param {Ends} ends
 * @param {Map<string, {stroke: string, "stroke-width": number, "stroke-dasharray": string}>} styles
 */
function panel(order, answer, ends, styles) {
  const { width, height, left, right, top, bottom } = PANEL;
  /** @param {number} share */
  const x = (share) => round(left + share * (width - left - right));
  /** @param {number} value */
  const y = (value) => round(top + ((ends[1] - value) / (ends[1] - ends[0])) * (height - top - bottom));
  /**
   * @param {number[] | undefined} values
   * @param {object} more
   */
  const curve = (values = [], more) =>
    tag("polyline", {
      points: values.map((value, i) => `${x(answer.counts[i] / answer.tokens)},${y(value)}`).join(" "),
      fill: "none",
      "stroke-linejoin": "round",
      ...more,
    });
  const grid = ticksOf(ends, 5).map(
    (value) =>
      tag("line", { x1: left, x2: width - right, y1: y(value), y2: y(value), stroke: RULE }) +
      line(left - 7, y(value) + 4, tickText(value, answer.read), { ...small, "text-anchor": "end" }),
  );
  const ticks = [0, 0.25, 0.5, 0.75, 1].map((share) =>
    line(x(share), height - bottom + 18, `${100 * share}`, { ...small, "text-anchor": "middle" }),
  );
  const curves = answer.curves.filter((entry) => entry.order === order);
  const drawn = [...styles].reverse().map(([method, style]) =>
    curve(curves.find((entry) => entry.method === method)?.[answer.read], {
      class: "curve",
      "data-spec": method,
      ...style,
    }),
  );
  return [
    line(left, 16, TITLES[order], { size: 15, family: SERIF, "font-weight": 600 }),
    line(width - right, 16, BETTER[order], { size: 12, fill: SOFT, "text-anchor": "end" }),
    ...grid,
    ...ticks,
    line(x(0.5), height - 6, "% of the tokens removed", { size: 12, fill: SOFT, "text-anchor": "middle" }),
    curve(answer.random[answer.read], { class: "baseline", ...DASHED }),
    ...drawn, // the best one last, above the others
  ].join("");
}

/**
 * The ranking, each row with the line of its method: {markup, height}.
 * @param {DeletionAnswer} answer
 * @param {Map<string, string>} names
 * @param {Map<string, {stroke: string, "stroke-width": number, "stroke-dasharray": string}>} styles
 */
function legend(answer, names, styles) {
  const format = answer.read === "probability" ? percent : number;
  /** @type {string[]} */
  const parts = [];
  let y = 12;
  /**
   * @param {{stroke: string, "stroke-width": number, "stroke-dasharray": string} | undefined | null} style
   * @param {string[]} cells
   * @param {{fill?: string, size?: number}} [more]
   */
  const row = (style, cells, more = {}) => {
    const drawn = cells.map((text, k) =>
      paragraph(COLUMNS[k], y, text, {
        size: 12,
        ...(k === 1 ? { most: 330 } : { family: MONO, "text-anchor": "end" }),
        ...more,
      }),
    );
    parts.push(
      style ? tag("line", { x1: 0, x2: 38, y1: y - 4, y2: y - 4, ...style }) : "",
      ...drawn.map(({ markup }) => markup),
    );
    y += ROW + Math.max(...drawn.map((cell) => cell.more));
  };
  row(null, ["rank", "method", "area, most first", "area, least first", "gap"], { fill: SOFT, size: 11 });
  for (const { method, rank, most = NaN, least = NaN, gap = NaN, control } of answer.ranking) {
    const fails = rank && isFailing(answer, { method, rank, gap }) ? ", fails" : "";
    const name = control ? `${BASELINE} (${answer.random.seeds} draws)` : `${names.get(method) ?? method}${fails}`;
    row(
      control ? DASHED : styles.get(method),
      [rank || "–", name, format(most), format(least), number(gap, 2)].map(String),
    );
  }
  return { markup: parts.join(""), height: y - ROW + 6 };
}

/**
 * The curves that the page shows, as a figure: {svg, width, height}. `answer` is that of the API, `names` what methods
 * are called.
 * @param {{answer: DeletionAnswer, names: Map<string, string>, explanation: Explanation}} options
 * @returns {Promise<{svg: string, width: number, height: number}>}
 */
export async function curveFigure({ answer, names, explanation }) {
  await loadFonts();
  const width = 2 * MARGIN + 2 * PANEL.width + GAP;
  const how = answer.how === "painted" ? "painted grey" : "taken from the model's input";
  const above = heading(
    [explanation],
    `${axisOf(answer)} at ${answer.counts.length} points`,
    width,
    `Tokens are ${how} in the order of each map. Area: the mean over the whole range.`,
  );
  const ends = endsOf(answer);
  const maps = [...rankedMethods(answer.ranking), ...answer.ranking.filter(({ rank, control }) => !rank && !control)];
  const styles = new Map(maps.map(({ method }, i) => [method, styleOf(i)]));
  /**
   * @param {number} left
   * @param {number} top
   * @param {string} markup
   */
  const at = (left, top, markup) => tag("g", { transform: `translate(${left} ${round(top)})` }, markup);
  const top = above.height + GAP;
  const under = legend(answer, names, styles);
  const panels = ["most", "least"].map((order, i) =>
    at(MARGIN + i * (PANEL.width + GAP), top, panel(order, answer, ends, styles)),
  );
  return sheet(
    above.markup + panels.join("") + at(MARGIN, top + PANEL.height + GAP, under.markup),
    width,
    top + PANEL.height + GAP + under.height + MARGIN,
  );
}
