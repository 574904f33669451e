// A picture of the way back: what a signal carries through one block of a model under a rule, at every operator. The
// numbers are those of the photo of the gallery; recipes/assets/method_gallery.py computed them.

import { el, number, svg } from "../../core/dom.js";

/** @import { Way } from "./gallery.js" */

const SIZE = { width: 460, height: 420 };
const [PATH, BRANCH] = [96, 290]; // where the residual path and the branches lie
const THICKEST = 30; // pixels
const ROUNDING = 1e-5; // of the largest number of a picture
// operators on the branches, from the output back: kind, name, the stages after and before it, place
const OPERATORS = [
  { kind: "activation", name: "activation", from: "activation_output", to: "activation_input", y: 84 },
  { kind: "norm", name: "norm", from: "mlp_norm_output", to: "mlp_norm_input", y: 150 },
  { kind: "attention", name: "attention", from: "attention_output", to: "attention_input", y: 272 },
  { kind: "norm", name: "norm", from: "attention_input", to: "attention_norm_input", y: 338 },
];
/** @type {{[end: string]: number}} */
const ENDS = { output: 22, between: 206, input: 398 };

/**
 * Describe in a word the change of a number at an operator.
 * @param {number} before
 * @param {number} after
 * @returns {string}
 */
function fate(before, after) {
  const share = after / before;
  if (!Number.isFinite(share) || Math.abs(share) < 0.02) return "lost";
  if (Math.abs(share - 1) < 0.02) return "kept whole";
  if (Math.abs(share - 0.5) < 0.08) return "halved";
  return share < 0 ? "turned round" : share < 1 ? "made less" : "made more";
}

/**
 * Format a number of the picture; one that is only rounding next to the largest is 0.
 * @param {number} value
 * @param {number} largest
 * @returns {string}
 */
export const withoutRounding = (value, largest) => (Math.abs(value) < ROUNDING * largest ? "0" : number(value));

/**
 * The picture of one rule, and its operators in words.
 * @param {{block: number, of: number, stages: string[], rules: {[rule: string]: Way}}} way
 * @param {string} rule
 * @param {(kind: string) => string} choiceOf what the rule does at a kind of operator, in a word
 * @param {string} unit of the numbers, as "logits"
 * @returns {HTMLElement}
 */
export function wayPicture(way, rule, choiceOf, unit) {
  const { carried, norms } = way.rules[rule];
  /** @param {string} stage */
  const at = (stage) => carried[way.stages.indexOf(stage)];
  /** @param {string} stage */
  const lengthAt = (stage) => norms[way.stages.indexOf(stage)];
  const largest = Math.max(...carried.map(Math.abs));
  /** @param {number} value */
  const thickness = (value) => Math.max(1, (THICKEST * Math.abs(value)) / largest);
  /**
   * @param {string} d
   * @param {number} value
   */
  const flow = (d, value) => [
    svg("path", { d, class: value < 0 ? "flow against" : "flow", "stroke-width": thickness(value) }),
    svg("path", { d, class: "pulse", "stroke-width": Math.min(3, Math.max(1, thickness(value) / 3)) }),
  ];
  /**
   * @param {string} upper
   * @param {string} lower
   * @param {string} branch
   */
  const skip = (upper, lower, branch) => flow(`M${PATH} ${ENDS[upper] + 8}V${ENDS[lower] - 8}`, at(lower) - at(branch));
  /**
   * @param {string} end
   * @param {{kind: string, name: string, from: string, to: string, y: number}} operator
   */
  const leaving = (end, operator) =>
    flow(
      `M${PATH} ${ENDS[end] + 8}C${PATH} ${ENDS[end] + 40} ${BRANCH} ${ENDS[end]} ${BRANCH} ${operator.y - 15}`,
      at(operator.from),
    );
  /**
   * @param {{kind: string, name: string, from: string, to: string, y: number}} operator
   * @param {string} end
   */
  const coming = (operator, end) =>
    flow(
      `M${BRANCH} ${operator.y + 15}C${BRANCH} ${ENDS[end]} ${PATH} ${ENDS[end] - 44} ${PATH} ${ENDS[end] - 8}`,
      at(operator.to),
    );
  /**
   * @param {{kind: string, name: string, from: string, to: string, y: number}} first
   * @param {{kind: string, name: string, from: string, to: string, y: number}} second
   * @param {number} value
   */
  const between = (first, second, value) => flow(`M${BRANCH} ${first.y + 15}V${second.y - 15}`, value);
  const [activation, mlpNorm, attention, attentionNorm] = OPERATORS;
  /** @param {{kind: string, name: string, from: string, to: string, y: number}} item */
  const box = ({ name, kind, y }) => [
    svg("rect", { x: BRANCH - 62, y: y - 15, width: 124, height: 30, rx: 3 }),
    svg("text", { x: BRANCH, y: y + 4, class: "middle" }, `${name}: ${choiceOf(kind)}`),
  ];
  /** @param {number} value */
  const text = (value) => withoutRounding(value, largest);
  /**
   * @param {number} x
   * @param {number} y
   * @param {number} value
   * @param {string} [anchor]
   */
  const figure = (x, y, value, anchor = "start") =>
    svg("text", { x, y, class: "figure-of", "text-anchor": anchor }, text(value));
  const label = `What the signal carries through block ${way.block} of ${way.of}, in ${unit}`;
  const drawing = svg(
    "svg",
    { role: "img", "aria-label": label, viewBox: `0 0 ${SIZE.width} ${SIZE.height}`, class: "way" },
    skip("output", "between", mlpNorm.to),
    skip("between", "input", attentionNorm.to),
    leaving("output", activation),
    between(activation, mlpNorm, at(mlpNorm.from)),
    coming(mlpNorm, "between"),
    leaving("between", attention),
    between(attention, attentionNorm, at(attention.to)),
    coming(attentionNorm, "input"),
    OPERATORS.flatMap(box),
    OPERATORS.flatMap(({ from, to, y }) => [
      figure(BRANCH + 70, y - 14, at(from)),
      figure(BRANCH + 70, y + 24, at(to)),
    ]),
    Object.entries(ENDS).flatMap(([stage, y]) => [
      svg("circle", { cx: PATH, cy: y, r: 8, class: "end-of" }),
      figure(PATH - 16, y + 4, at(stage), "end"),
    ]),
    svg("text", { x: PATH + 14, y: ENDS.output - 4, class: "soft" }, `block’s output, in ${unit}`),
    svg("text", { x: PATH - 16, y: ENDS.between - 14, class: "soft", "text-anchor": "end" }, "residual"),
    svg("text", { x: PATH + 14, y: ENDS.input + 16, class: "soft" }, "block’s input"),
  );
  const rows = OPERATORS.map(({ kind, name, from, to }) => {
    const lengths = `norm of the signal ${number(lengthAt(from))} → ${number(lengthAt(to))}`;
    return el(
      "li",
      { data: { operator: name } },
      el("strong", {}, `${name}, ${choiceOf(kind)}: `),
      el("span", { class: "num" }, `${text(at(from))} → ${text(at(to))} ${unit}`),
      `, ${fate(at(from), at(to))} `,
      el("span", { class: "quiet" }, `(${lengths})`),
    );
  });
  return el("div", { class: "way-back" }, drawing, el("ul", {}, rows));
}
