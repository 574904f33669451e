// A panel of the figure of the deletion test: one order of removal, a line a method.

import { MINUS, number } from "../core/dom.js";

/**
 * @import { Ends } from "../core/colour.js"
 * @import { DeletionAnswer } from "../core/types.js"
 */

const BOX = { width: 600, height: 270, top: 30, bottom: 40 };
const DIGIT = 7.3; // width of a character of a tick
const LETTER = 6.6; // and of a name, at most
const AXIS = 22; // room for the title of the axis
const GAP = 6; // between a tick and its line
/** The number of methods that are named. */
export const NAMED = 3; // the best methods, which have a colour and a name
const LINE = 14; // between two names
const ROUNDING = 1e-9; // of a step: what an end may miss a tick by
const LONGEST = 24; // characters of a line of a name next to a curve
/** @type {{[order: string]: string}} */
export const TITLES = { most: "Most relevant first", least: "Least relevant first" };
/** @type {{[order: string]: string}} */
export const BETTER = { most: "the sooner it falls, the better", least: "the longer it stays, the better" };
/**
 * The title of the axis of values.
 * @param {{read: string, target: string, isContrast?: boolean}} options
 * @returns {string}
 */
export const axisOf = ({ read, target, isContrast }) =>
  isContrast ? "logit difference" : read === "value" ? target : read;

/** The name of the random order, which knows nothing. */
export const BASELINE = "random baseline";
/**
 * The methods of a ranking, best first: controls, the random baseline and a map of random numbers, have no rank.
 * @template {{rank: number}} Row
 * @param {Row[]} ranking
 * @returns {Row[]}
 */
export const rankedMethods = (ranking) => ranking.filter(({ rank }) => rank > 0);
/**
 * @param {string} tag
 * @param {{[name: string]: any}} [attributes]
 * @param {...any} children
 */
function svg(tag, attributes = {}, ...children) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children.flat());
  return node;
}

/**
 * The ends of the axis of values: probabilities from 0, logits and values from the smallest.
 * @param {DeletionAnswer} answer
 * @returns {Ends}
 */
export function endsOf(answer) {
  const values = [...answer.curves, answer.random].flatMap((curve) => curve[answer.read] ?? []);
  const high = values.reduce((a, b) => Math.max(a, b));
  if (answer.read === "probability") return [0, high > 0.5 ? 1 : Math.ceil(high * 20) / 20 || 0.05];
  const low = values.reduce((a, b) => Math.min(a, b));
  return high > low ? [low, high] : [low - 1, high + 1];
}

/**
 * Round values on an axis between these ends, at most `most` of them: steps are 1, 2, 2.5 or 5 times a power of ten.
 * @param {Ends} ends
 * @param {number} most
 * @returns {number[]}
 */
export function ticksOf([low, high], most) {
  const power = 10 ** Math.floor(Math.log10(high - low) - 1);
  for (const step of [1, 2, 2.5, 5, 10, 20, 25, 50, 100].map((times) => times * power)) {
    const first = Math.ceil(low / step - ROUNDING);
    const count = Math.floor(high / step + ROUNDING) - first + 1;
    if (count <= most) return Array.from({ length: count }, (_, i) => Number(((first + i) * step).toPrecision(12)));
  }
  return [];
}

/**
 * Format a tick with all its digits: as many as tell it from its neighbours.
 * @param {number} value
 * @param {string} read
 * @returns {string}
 */
export function tickText(value, read) {
  if (read === "probability") return `${Number((100 * value).toFixed(1))}\u2009%`;
  const size = Math.abs(value);
  return size && (size < 1e-3 || size >= 1e6) ? number(value, 2) : String(value).replace("-", MINUS);
}

/**
 * Break a name at its spaces into lines that fit next to a curve; a longer word is a line of its own, whole.
 * @param {string} name
 * @returns {string[]}
 */
export function linesOf(name) {
  /** @type {string[]} */
  const lines = [];
  for (const word of name.split(" ")) {
    const longer = lines.length ? `${lines[lines.length - 1]} ${word}` : word;
    if (lines.length && longer.length <= LONGEST) lines[lines.length - 1] = longer;
    else lines.push(word);
  }
  return lines;
}

/**
 * Move overlapping labels apart; `ends` are their heights, `sizes` how many lines each has. Gives the heights of the
 * first lines of the labels, in the same order.
 * @param {number[]} ends
 * @param {number} top
 * @param {number} bottom
 * @param {number[]} sizes
 * @returns {number[]}
 */
export function spread(ends, top, bottom, sizes) {
  const order = [...ends.keys()].sort((a, b) => ends[a] - ends[b]);
  const placed = [];
  let free = top;
  for (const i of order) {
    placed[i] = Math.max(ends[i], free);
    free = placed[i] + LINE * sizes[i];
  }
  let most = bottom;
  for (const i of order.reverse()) {
    placed[i] = Math.min(placed[i], most - LINE * (sizes[i] - 1));
    most = placed[i] - LINE;
  }
  return placed;
}

/**
 * One order: a line a method. The best and the random baseline have a colour and a name at their ends, the others when
 * they are pointed at.
 */
export class Panel {
  /**
   * @param {string} order
   * @param {DeletionAnswer} answer
   * @param {Map<string, string>} names
   * @param {Ends} ends
   * @param {(spec: string | null) => void} onPoint
   */
  constructor(order, answer, names, ends, onPoint) {
    const { width, height, top, bottom } = BOX;
    const { read } = answer;
    const tickValues = ticksOf(ends, 4);
    const left = AXIS + DIGIT * Math.max(...tickValues.map((value) => tickText(value, read).length)) + GAP;
    const lines = [BASELINE, ...names.values()].flatMap(linesOf);
    const right = 10 + LETTER * Math.max(...lines.map(({ length }) => length));
    /** @param {number} share */
    const x = (share) => left + share * (width - left - right);
    /** @param {number} value */
    const y = (value) => top + ((ends[1] - value) / (ends[1] - ends[0])) * (height - top - bottom);
    const removed = answer.counts.map((at) => at / answer.tokens);
    /**
     * @param {number[] | undefined} values
     * @param {{[name: string]: string}} attributes
     */
    const line = (values = [], attributes) => {
      const points = values.map((value, i) => [x(removed[i]), y(value)]);
      const d = points.map((point, i) => `${i ? "L" : "M"}${point.map((at) => at.toFixed(1)).join(" ")}`).join("");
      return svg(
        "g",
        attributes,
        svg("path", { d, class: "near" }),
        svg("path", { d }),
        points.map(([cx, cy]) => svg("circle", { cx: cx.toFixed(1), cy: cy.toFixed(1), r: 1.7 })),
      );
    };
    /**
     * @param {number} at
     * @param {number} down
     * @param {string} label
     * @param {string} anchor
     * @param {string} [className]
     */
    const text = (at, down, label, anchor, className = "") =>
      svg("text", { x: at, y: down, "text-anchor": anchor, class: className }, label);
    const grid = tickValues.flatMap((value) => [
      svg("path", { class: "grid", d: `M${left} ${y(value)}H${width - right}` }),
      text(left - GAP, y(value) + 4, tickText(value, read), "end", "tick"),
    ]);
    const ticks = [0, 0.25, 0.5, 0.75, 1].map((share) =>
      text(x(share), height - bottom + 17, `${100 * share}`, "middle"),
    );
    const curves = answer.curves.filter((curve) => curve.order === order);
    this.lines = new Map(
      curves.map((curve) => [curve.method, line(curve[answer.read], { class: "line", "data-spec": curve.method })]),
    );
    /** @param {string} method */
    const lineOf = (method) => /** @type {SVGElement} */ (this.lines.get(method));
    const baseline = line(answer.random[answer.read], { class: "line baseline" });
    const ranked = rankedMethods(answer.ranking).filter((row) => this.lines.has(row.method));
    const [best] = ranked;
    const named = ranked.slice(0, NAMED);
    named.forEach(({ method }, i) => lineOf(method).classList.add("named", `hue-${i + 1}`));
    const endOf = (values = [0]) => y(values[values.length - 1]);
    const endHeights = new Map(curves.map((curve) => [curve.method, endOf(curve[answer.read])]));
    /** @param {string} method */
    const nameOf = (method) => names.get(method) ?? method;
    const heights = spread(
      [...named.map(({ method }) => endHeights.get(method) ?? 0), endOf(answer.random[answer.read])],
      top + 4,
      height - bottom - LINE,
      [...named.map(({ method }) => linesOf(nameOf(method)).length), 1],
    ); // clear of the numbers of the axis
    /**
     * @param {Element} node
     * @param {string} name
     * @param {number} at
     */
    const label = (node, name, at) =>
      node.append(...linesOf(name).map((part, k) => text(width - right + 8, at + 4 + k * LINE, part, "start", "end")));
    named.forEach(({ method }, i) => label(lineOf(method), nameOf(method), heights[i]));
    label(baseline, BASELINE, heights[heights.length - 1]);
    for (const [method, node] of this.lines) {
      if (!node.querySelector(".end")) label(node, nameOf(method), endHeights.get(method) ?? 0);
      node.addEventListener("pointerenter", () => onPoint(method));
      node.addEventListener("pointerleave", () => onPoint(null));
    }
    const title = axisOf(answer);
    const isLong = title.length > LONGEST;
    const axis = svg(
      "text",
      { transform: `translate(14 ${(top + height - bottom) / 2}) rotate(-90)`, "text-anchor": "middle", class: "axis" },
      isLong ? `${title.slice(0, LONGEST - 1)}…` : title,
      isLong ? svg("title", {}, title) : "",
    );
    this.cursor = svg("path", { class: "cursor", d: `M${left} ${top}V${height - bottom}`, visibility: "hidden" });
    this.x = x;
    const described = `${TITLES[order]}: ${answer.read} of ${answer.target} while its ${answer.tokens} parts are removed. ${best ? `Best of all methods: ${names.get(best.method) ?? best.method}. ` : ""}The table has the numbers.`;
    this.node = svg(
      "svg",
      { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": described, "data-order": order },
      text(left, 16, TITLES[order], "start", "title"),
      text(width - 4, 16, BETTER[order], "end"),
      grid,
      ticks,
      text(x(0.5), height - 6, "% removed", "middle"),
      axis,
      this.cursor,
      baseline,
      [...this.lines.values()],
    );
    for (const { method } of named.reverse()) this.node.append(lineOf(method)); // drawn last, above the others
  }

  /** @param {number | null} share */
  mark(share) {
    this.cursor.setAttribute("visibility", share === null ? "hidden" : "visible");
    if (share !== null) this.cursor.setAttribute("transform", `translate(${(this.x(share) - this.x(0)).toFixed(1)} 0)`);
  }

  /** @param {string} spec */
  pick(spec) {
    for (const [name, line] of this.lines) line.classList.toggle("picked", name === spec);
    const line = this.lines.get(spec);
    if (line) this.node.append(line);
  }

  /**
   * Highlight the curve of `spec` while it is pointed at; null: none.
   * @param {string | null} spec
   */
  point(spec) {
    for (const [name, line] of this.lines) line.classList.toggle("pointed", name === spec);
    this.node.classList.toggle("pointing", spec !== null && this.lines.has(spec));
  }
}
