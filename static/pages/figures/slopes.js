// Two metrics side by side: the methods in the order of each, a line from place to place. Where lines cross, they
// disagree.

import { count, el, svg } from "../../core/dom.js";

/** @import { RunMetric, RunReport } from "../../core/schemas.js" */

const [ROW, TOP, LETTER, GAP] = [19, 26, 6.1, 10]; // pixels
const MARKED = 3; // of the best by the left metric

/**
 * The specs that have a value by both metrics, in the order of one of them: best first; the larger first where neither
 * end is better.
 * @param {RunReport} run
 * @param {RunMetric} metric
 * @param {string[]} specs
 */
function order(run, { name, direction }, specs) {
  const sign = direction === "lower" ? 1 : -1;
  /** @param {string} spec */
  const value = (spec) => run.results[name][spec].value ?? 0;
  return [...specs].sort((a, b) => sign * (value(a) - value(b)));
}

/**
 * The plot, `width` pixels wide: names at the left, and at the right where there is room for them.
 * @param {RunReport} run
 * @param {RunMetric[]} axes the two metrics
 * @param {number} width
 * @returns {Element}
 */
export function slopes(run, axes, width) {
  const controls = new Set(run.methods.filter(({ control }) => control).map(({ spec }) => spec));
  const titles = new Map(run.methods.map(({ spec, title }) => [spec, title]));
  const known = [...titles.keys()].filter((spec) => axes.every(({ name }) => run.results[name][spec].value !== null));
  if (!known.length) return el("p", {}, "No method has a value by both metrics.");
  const [left, right] = axes.map((axis) => order(run, axis, known));
  const longest = LETTER * Math.max(...known.map((spec) => titles.get(spec)?.length ?? 0)) + 30;
  const isWide = width - 2 * longest > 120;
  const from = Math.min(longest, width - 110);
  const to = isWide ? width - longest : width - 40;
  /** @param {string[]} list */
  const placeIn = (list) => {
    const methods = list.filter((spec) => !controls.has(spec)); // a control has no place
    return (/** @type {string} */ spec) => (controls.has(spec) ? "–" : String(methods.indexOf(spec) + 1));
  };
  const [placeLeft, placeRight] = [placeIn(left), placeIn(right)];
  /** @param {number} place */
  const y = (place) => TOP + ROW * (place + 0.5);
  const lines = left.map((spec, place) => {
    const end = right.indexOf(spec);
    const [here, there] = [placeLeft(spec), placeRight(spec)];
    const kind = controls.has(spec) ? "baseline" : Number(here) <= MARKED ? "first" : "";
    const bend = (to - from) / 2;
    const [a, b] = [from + GAP, to - GAP];
    const name = isWide ? `${there}  ${titles.get(spec)}` : there;
    return svg(
      "g",
      { class: `slope ${kind}`, "data-spec": spec, "data-places": `${here} ${there}` },
      svg("title", {}, `${titles.get(spec)}: ${here} by ${axes[0].title}, ${there} by ${axes[1].title}`),
      svg("path", { d: `M${a} ${y(place)}C${a + bend} ${y(place)} ${b - bend} ${y(end)} ${b} ${y(end)}` }),
      svg("circle", { cx: a, cy: y(place), r: 3 }),
      svg("circle", { cx: b, cy: y(end), r: 3 }),
      svg("text", { x: from, y: y(place) + 4, class: "end" }, `${titles.get(spec)}  ${here}`),
      svg("text", { x: to, y: y(end) + 4 }, name),
    );
  });
  const height = TOP + ROW * known.length + 4;
  const label = `Places of ${count(known.filter((spec) => !controls.has(spec)).length, "method")} by ${axes[0].title}, joined to their places by ${axes[1].title}`;
  return svg(
    "svg",
    { role: "img", "aria-label": label, viewBox: `0 0 ${width} ${height}`, width, height, class: "plot" },
    svg("text", { x: from + GAP, y: 14, class: "tick middle" }, axes[0].title),
    svg("text", { x: to - GAP, y: 14, class: isWide ? "tick middle" : "tick end" }, axes[1].title),
    lines,
  );
}
