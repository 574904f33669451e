// The figures of a run as a table, a row a method, a column a metric, sorted by any of them.

import { byId, el, svg } from "../../core/dom.js";
import { reportProblem } from "../../core/problems.js";
import { csvButton, runRows } from "../../export/csv.js";
import { stem } from "../../export/titles.js";
import { remember, remembered } from "./address.js";
import { showExamples } from "./examples.js";
import { ARROWS, shown, truthInWords, unitOf, variantPage } from "./values.js";

/** @import { RunFigure, RunMetric, RunReport } from "../../core/schemas.js" */

const BETTER = { higher: "higher is better", lower: "lower is better" };
const MOST_COLUMNS = 4; // before all are asked for
const BAR = { width: 76, height: 8 };

/**
 * The methods of a run in the order of a column; those without a value come last, and so does a tie in the order of the
 * run.
 * @param {RunReport} run
 * @param {string} column
 * @param {boolean} reversed
 */
function sorted(run, column, reversed) {
  const metric = run.metrics.find((candidate) => candidate.name === column);
  const specs = run.methods.map((method) => method.spec);
  if (!metric) return reversed ? specs.sort().reverse() : specs.sort();
  const values = run.results[metric.name];
  const sign = (metric.direction === "lower" ? 1 : -1) * (reversed ? -1 : 1);
  return specs.sort((a, b) => {
    const [x, y] = [values[a].value, values[b].value];
    if (x === null || y === null) return Number(x === null) - Number(y === null);
    return sign * (x - y);
  });
}

/**
 * The interval of a figure, on the scale of its column.
 * @param {RunFigure & {value: number}} figure
 * @param {number[]} ends
 */
function interval({ value, low, high }, ends) {
  /** @param {number} end */
  const at = (end) => (ends[1] > ends[0] ? (BAR.width * (end - ends[0])) / (ends[1] - ends[0]) : BAR.width / 2);
  const middle = BAR.height / 2;
  return svg(
    "svg",
    {
      class: "interval",
      width: BAR.width,
      height: BAR.height,
      viewBox: `0 0 ${BAR.width} ${BAR.height}`,
      "aria-hidden": "true",
    },
    svg("line", { x1: at(low ?? value), x2: at(high ?? value), y1: middle, y2: middle }),
    svg("circle", { cx: at(value), cy: middle, r: 2.5 }),
  );
}

/**
 * The smallest and the largest end of the intervals of a column.
 * @param {RunReport} run
 * @param {RunMetric} metric
 */
function endsOf(run, metric) {
  const figures = Object.values(run.results[metric.name]);
  const lows = figures.flatMap(({ value, low }) => low ?? value ?? []);
  const highs = figures.flatMap(({ value, high }) => high ?? value ?? []);
  return [Math.min(...lows), Math.max(...highs)];
}

/**
 * The number of inputs that a value is of, where other methods have more: "48 of 60".
 * @param {RunReport} run
 * @param {RunMetric} metric
 * @param {string} spec
 */
function counted(run, metric, spec) {
  const figures = run.results[metric.name];
  const most = Math.max(...Object.values(figures).map((figure) => figure.inputs ?? 0));
  return (figures[spec].inputs ?? 0) < most ? `${figures[spec].inputs} of ${most}` : "";
}

/**
 * @param {RunReport} run
 * @param {RunMetric} metric
 * @param {string} spec
 * @param {number[]} ends of the column
 */
function cell(run, metric, spec, ends) {
  const figure = run.results[metric.name][spec];
  const { value, low, high } = figure;
  if (value === null)
    return el("td", {}, el("span", { class: "quiet", title: "This metric does not apply to this method" }, "–"));
  const of = counted(run, metric, spec);
  const tied = figure.tied ? ", tied for first" : "";
  const label = `${metric.title} of ${spec}: ${shown(value, metric.unit)}${unitOf(metric)}, interval ${shown(low, metric.unit)} to ${shown(high, metric.unit)}${tied}${of ? `, ${of} inputs have a value` : ""}`;
  const text = [
    shown(value, metric.unit),
    figure.tied ? el("span", { class: "star", "aria-hidden": "true" }, "*") : null,
  ];
  const open = () => showExamples(run, metric, spec);
  const asks = {
    type: "button",
    class: "figure",
    "aria-label": `${label}. Show examples`,
    title: `${label}. Show examples`,
    on: { click: open },
  };
  const printed = run.shows_inputs ? el("button", asks, text) : el("span", { class: "figure", title: label }, text);
  const kind = figure.tied ? "tied" : metric.cannot_tell ? "muted" : "";
  return el(
    "td",
    { class: kind, data: { metric: metric.name } },
    printed,
    of ? el("span", { class: "quiet count" }, of) : null,
    interval({ ...figure, value }, ends),
  );
}

/**
 * Make the mark of how far a metric can be trusted: its agreement with the truth, where that is known.
 * @param {RunMetric} metric
 */
function truthMark({ truth, doubts }) {
  const compared = truth
    ? `How well this metric's order of methods agrees with known truth: Kendall's tau ${truthInWords(truth)}`
    : "Not compared with known truth: there is none for such inputs, or the metric has no better end";
  const title = [compared, ...doubts.map((doubt) => `It ${doubt}`)].join(". ");
  const ends = truth ? el("span", {}, `${truth.low.toFixed(2)} to ${truth.high.toFixed(2)}`) : null;
  const doubt = doubts.length ? el("span", { class: "doubt" }, "in doubt") : null;
  return el(
    "a",
    { class: "truth", href: "#truth", title },
    truth ? `agrees with known truth: ${truth.tau.toFixed(2)} ` : "truth unknown",
    ends,
    doubt,
  );
}

/**
 * The metrics of a run, the one that decides first; of many, the first few and those that the address names, unless all
 * are asked for.
 * @param {RunReport} run
 */
function columnsOf(run) {
  const metrics = [...run.metrics].sort((a, b) => Number(b.name === run.ranked_by) - Number(a.name === run.ranked_by));
  if (remembered("columns") === "all" || metrics.length <= MOST_COLUMNS + 1) return metrics; // one more needs no button
  const named = [remembered("sort"), remembered("metric")];
  return metrics.filter((metric, i) => i < MOST_COLUMNS || named.includes(metric.name));
}

/**
 * Show in one line each what the columns say, and a button for the columns that are left out.
 * @param {RunReport} run
 * @param {RunMetric[]} metrics those that are shown
 */
function showMeanings(run, metrics) {
  const entry = (/** @type {RunMetric} */ metric) =>
    el(
      "div",
      {},
      el("dt", {}, metric.title, metric.name === run.ranked_by ? el("span", { class: "quiet" }, " decides") : null),
      el("dd", {}, metric.line),
    );
  byId("meanings").replaceChildren(...metrics.slice(0, MOST_COLUMNS + 1).map(entry)); // all are under “The metrics, exactly”
  const all = () => {
    remember({ columns: "all" });
    drawTable(run);
    byId("figures").focus();
  };
  const left = run.metrics.length - metrics.length;
  byId("more-columns").replaceChildren(
    ...(left
      ? [
          el(
            "button",
            { type: "button", class: "act plain", on: { click: all } },
            `Show all ${run.metrics.length} metrics`,
          ),
        ]
      : []),
  );
}

/** @param {RunReport} run */
function table(run) {
  const column = remembered("sort") ?? run.ranked_by ?? run.metrics[0].name;
  const reversed = remembered("order") === "reversed";
  /** @param {string} name */
  const sort = (name) => {
    remember({ sort: name, order: name === column && !reversed ? "reversed" : null });
    drawTable(run);
    byId("figures")
      .querySelector(`[data-sort="${CSS.escape(name)}"]`)
      .focus();
  };
  /**
   * @param {string} name
   * @param {string} title
   * @param {string} note
   */
  const head = (name, title, note) => {
    const chosen = name === column;
    const metric = run.metrics.find((candidate) => candidate.name === name);
    const falling = metric?.direction !== "lower";
    const direction = name === "method" ? !reversed : falling === reversed;
    return el(
      "th",
      {
        scope: "col",
        class: metric?.cannot_tell ? "muted" : "",
        "aria-sort": chosen ? (direction ? "ascending" : "descending") : null,
      },
      el(
        "button",
        { type: "button", class: "sort", data: { sort: name }, title: note, on: { click: () => sort(name) } },
        title,
      ),
      metric ? truthMark(metric) : null,
    );
  };
  const metrics = columnsOf(run);
  showMeanings(run, metrics);
  const heads = [
    head("method", "Method", "Sort by name"),
    ...metrics.map((metric) =>
      head(
        metric.name,
        `${metric.title}${unitOf(metric)} ${metric.direction ? ARROWS[metric.direction] : ""}`.replace(
          / (?=[%↑↓])/g,
          "\u00a0",
        ),
        `${metric.line} ${metric.direction ? BETTER[metric.direction] : ""}`,
      ),
    ),
  ];
  const columns = metrics.map((metric) => ({ metric, ends: endsOf(run, metric) }));
  const rows = sorted(run, column, reversed).map((spec) => {
    const { readout, title, by, year } = run.methods.find((method) => method.spec === spec) ?? {
      readout: spec,
      title: spec,
    };
    const name = el(
      "th",
      { scope: "row" },
      el("a", { href: variantPage(readout, spec), title: spec }, title),
      el("span", { class: "quiet" }, [by, year].filter(Boolean).join(", ")),
    );
    return el(
      "tr",
      { data: { spec } },
      name,
      columns.map(({ metric, ends }) => cell(run, metric, spec, ends)),
    );
  });
  return el("table", {}, el("thead", {}, el("tr", {}, heads)), el("tbody", {}, rows));
}

/**
 * Draw the figures of a run, with ties marked and a way to download them.
 * @param {RunReport} run
 */
export function drawTable(run) {
  byId("figures").replaceChildren(table(run));
  const muted = columnsOf(run).filter((metric) => metric.cannot_tell);
  byId("undecided").replaceChildren(
    ...muted.map((metric) => el("li", {}, el("strong", {}, metric.title), `, in grey: ${metric.cannot_tell}`)),
  );
  document.querySelector(".csv")?.remove();
  const take = csvButton(
    () => runRows(run),
    () => stem(run.id),
    (problem) => reportProblem(problem, byId("status")),
  );
  byId("more-columns").append(take);
}
