// Which maps earn a claim: how often each method does in the runs that measured it, and how small its set is.

import { byId, count, el } from "../../core/dom.js";

/** @import { MethodClaims, RunClaims } from "../../core/schemas.js" */

const ABOUT =
  "A claim says that hiding the few parts a map puts first lowers the answer more than hiding random parts. A map of random numbers earns one in at most 5 % of inputs.";

/** @param {number} share */
const percent = (share) => (share > 0 && share < 0.1 ? (100 * share).toFixed(1) : (100 * share).toFixed(0));

/**
 * How often a method earns a claim, with the interval of the share: "5 of 6 (36 to 100 %)".
 * @param {MethodClaims} method
 * @returns {[string, string]}
 */
export const earned = ({ count: claims, inputs, low, high }) => [
  `${claims} of ${inputs}`,
  `${percent(low)} to ${percent(high)} %`,
];

/**
 * The mean size of a method's claims, with its interval where there is one: "4.1 %", "3.0 to 5.6".
 * @param {MethodClaims} method
 * @returns {[string, string]}
 */
export const sized = ({ size, size_low: low, size_high: high }) => [
  size === null ? "–" : `${percent(size)} %`,
  low === null || high === null ? "" : `${percent(low)} to ${percent(high)} %`,
];

/**
 * The specs of all methods, those that earn the largest share of claims over all runs first.
 * @param {RunClaims[]} runs
 * @returns {string[]}
 */
export function order(runs) {
  /** @type {Map<string, number[]>} */
  const shares = new Map();
  for (const { methods } of runs)
    for (const { spec, count: claims, inputs } of methods)
      shares.set(spec, [...(shares.get(spec) ?? []), inputs ? claims / inputs : 0]);
  /** @param {string} spec */
  const mean = (spec) => {
    const values = shares.get(spec) ?? [];
    return values.reduce((sum, value) => sum + value, 0) / values.length;
  };
  return [...shares.keys()].sort((a, b) => mean(b) - mean(a));
}

/** @param {[string, string]} parts */
const cell = ([value, spread]) => el("td", {}, value, spread ? el("span", { class: "spread quiet" }, spread) : null);

/**
 * A method with its claims in each run.
 * @param {string} spec
 * @param {RunClaims[]} runs
 */
function row(spec, runs) {
  const inRuns = runs.map((run) => run.methods.find((method) => method.spec === spec));
  const title = inRuns.find(Boolean)?.title ?? spec;
  const name = el("th", { scope: "row" }, title, " ", el("code", {}, spec));
  const cells = inRuns.flatMap((method) =>
    method ? [cell(earned(method)), cell(sized(method))] : [cell(["–", ""]), cell(["–", ""])],
  );
  return el("tr", { data: { spec } }, name, cells);
}

/**
 * Show the claims that methods earned in `runs`.
 * @param {RunClaims[]} runs
 */
export function showClaims(runs) {
  const place = byId("claims");
  place.hidden = !runs.length;
  const groups = runs.map(({ model, dataset, inputs }) =>
    el("th", { scope: "colgroup", colSpan: 2 }, `${model}, ${count(inputs, "input")} of ${dataset}`),
  );
  const columns = runs.flatMap(() => [
    el("th", { scope: "col" }, "earns a claim ↑"),
    el("th", { scope: "col" }, "size of its set ↓"),
  ]);
  const head = el(
    "thead",
    {},
    el("tr", {}, el("th", { scope: "col", rowSpan: 2 }, "Method"), groups),
    el("tr", {}, columns),
  );
  const body = el(
    "tbody",
    {},
    order(runs).map((spec) => row(spec, runs)),
  );
  const level = runs.length ? `Ranges: intervals of ${100 * runs[0].level} %. ` : "";
  place.lastElementChild?.replaceChildren(
    el("p", {}, ABOUT),
    el(
      "p",
      { class: "quiet" },
      `${level}Size: the share of an input's parts, of the inputs with a claim alone. Few inputs: ranges are wide.`,
    ),
    el(
      "div",
      { class: "scroll", tabIndex: 0, role: "region", "aria-label": "Which maps earn a claim" },
      el("table", {}, head, body),
    ),
  );
}
