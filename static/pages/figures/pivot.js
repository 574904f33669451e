// All runs in one table, as it is selected. Its figures, marks and notes are made by the server, and so are its files.

import { getJSON } from "../../core/api.js";
import { byId, count, el, say } from "../../core/dom.js";
import { showProblem } from "../../core/problems.js";
import { remember, remembered } from "./address.js";

/** @import { RunTable, TableCell, TableChoices, TableRow } from "../../core/schemas.js" */

const ALL = "";
const ROWS_AT_ONCE = 40; // all metrics of all models are 3 MB
/** The selections, by their name in the address: the parameter of the call, and the initial value. */
const SELECTED = {
  tmodel: { parameter: "model", first: ALL },
  tdata: { parameter: "dataset", first: ALL },
  tmetric: { parameter: "metric", first: "mif" },
  tfamily: { parameter: "family", first: ALL },
  trows: { parameter: "rows", first: "methods" },
};

/** @typedef {keyof typeof SELECTED} Key */

const KEYS = /** @type {Key[]} */ (Object.keys(SELECTED));
let asked = 0;

/**
 * The current value of a selection. The address says "all" where that is not the initial value.
 * @param {Key} key
 */
function chosen(key) {
  const known = remembered(key);
  return known === null ? SELECTED[key].first : known === "all" ? ALL : known;
}

/**
 * @param {Key} key
 * @param {string} value
 */
function choose(key, value) {
  remember({ [key]: value === SELECTED[key].first ? null : value || "all" });
  void showPivot();
}

/** The selection as the call takes it. */
function query() {
  const parameters = new URLSearchParams();
  for (const key of KEYS) if (chosen(key) !== ALL) parameters.set(SELECTED[key].parameter, chosen(key));
  return parameters.toString();
}

/**
 * @param {Key} key
 * @param {string} label
 * @param {...Node} options
 */
function select(key, label, ...options) {
  const change = (/** @type {any} */ { target }) => choose(key, target.value);
  const control = el("select", { data: { key }, on: { change } }, options);
  control.value = chosen(key);
  return el("label", {}, `${label} `, control);
}

/**
 * @param {string} value
 * @param {string} text
 */
const option = (value, text) => el("option", { value }, text);

/** @param {TableChoices} choices */
function drawChoices({ models, datasets, metrics, metric_families: families, method_families: kinds }) {
  const ofMetrics = families.map(({ name, title }) =>
    el(
      "optgroup",
      { label: title },
      option(name, `All of ${name}`),
      metrics.filter(({ family }) => family === name).map((metric) => option(metric.name, metric.title)),
    ),
  );
  const named = (/** @type {{name: string, title: string}} */ { name, title }) => option(name, title);
  byId("pivot-choice").replaceChildren(
    select("tmetric", "Metrics", option(ALL, "All"), ...ofMetrics),
    select("tmodel", "Model", option(ALL, "All"), ...models.map((name) => option(name, name))),
    select("tdata", "Data set", option(ALL, "All"), ...datasets.map(named)),
    select("tfamily", "Methods", option(ALL, "All"), ...kinds.map(named)),
    select("trows", "Rows", option("methods", "Methods"), option("settings", "Models and data sets")),
  );
}

/** @param {TableCell} cell */
function drawCell({ printed, spread, count: of, note, best, star }) {
  return el(
    "td",
    { class: best ? "tied" : "" },
    el("span", { class: "figure" }, printed, star ? "*" : ""),
    note === null ? null : el("sup", { class: "quiet" }, String(note)),
    spread ? el("span", { class: "quiet spread" }, spread) : null,
    of ? el("span", { class: "quiet count" }, of) : null,
  );
}

/** @param {TableRow} row */
const drawRow = ({ title, spec, cells }) =>
  el(
    "tr",
    { data: { spec } },
    el("th", { scope: "row" }, el("span", { class: "title" }, title), spec ? el("code", {}, spec) : null),
    cells.map(drawCell),
  );

/** @param {RunTable} made */
function drawTable({ rows_are: rowsAre, upper_heads: upper, columns, rows }) {
  const upperRows = upper.map((heads, i) =>
    el(
      "tr",
      {},
      i ? null : el("td", { rowSpan: upper.length }),
      heads.map(({ head, columns: width }) => el("th", { scope: "colgroup", colSpan: width }, head)),
    ),
  );
  const heads = [rowsAre, ...columns.map(({ printed }) => printed.replace(/ (?=[%↑↓])/g, "\u00a0"))];
  byId("pivot-table").hidden = !rows.length;
  byId("pivot-table").replaceChildren(
    el(
      "table",
      {},
      el(
        "thead",
        {},
        upperRows,
        el(
          "tr",
          {},
          heads.map((text) => el("th", { scope: "col" }, text)),
        ),
      ),
      el("tbody", {}, rows.map(drawRow)),
    ),
  );
}

/** @param {RunTable} made */
function drawNotes({ legend, notes, numbered_notes: numbered }) {
  byId("pivot-notes").replaceChildren(
    ...[...legend, ...notes].map((note) => el("p", {}, note)),
    el(
      "ol",
      {},
      numbered.map((note) => el("li", {}, note)),
    ),
  );
}

/** @param {string} selection */
function drawFiles(selection) {
  const link = (/** @type {string} */ ending, /** @type {string} */ name) =>
    el("a", { class: "act plain", href: `/api/leaderboard/table.${ending}?${selection}`, download: "" }, name);
  byId("pivot-files").replaceChildren(link("csv", "CSV"), link("tex", "LaTeX"));
}

/**
 * A part of the table of a selection: all heads and notes, and its next rows.
 * @param {string} selection
 * @param {number} offset
 * @returns {Promise<RunTable>}
 */
function readPart(selection, offset) {
  const parameters = new URLSearchParams(selection);
  parameters.set("limit", String(ROWS_AT_ONCE));
  if (offset) parameters.set("offset", String(offset));
  return getJSON(`/api/leaderboard/table?${parameters}`);
}

/**
 * Say how much of the table is there, and offer the next rows, where there are some.
 * @param {string} selection
 * @param {RunTable} made
 * @param {number} shown rows
 */
function offerMore(selection, made, shown) {
  const rows = shown < made.row_count ? `${shown} of ${count(made.row_count, "row")}` : count(shown, "row");
  say("pivot-status", `${rows}, ${count(made.columns.length, "column")}.`);
  const next = Math.min(ROWS_AT_ONCE, made.row_count - shown);
  const more = el(
    "button",
    { type: "button", class: "act plain", on: { click: () => void showMore(selection, shown) } },
    `Show ${next} more ${next === 1 ? "row" : "rows"}`,
  );
  byId("pivot-more").replaceChildren(...(next > 0 ? [more] : []));
}

/**
 * Draw the next rows below those that are shown.
 * @param {string} selection
 * @param {number} shown
 */
async function showMore(selection, shown) {
  const now = asked;
  const button = byId("pivot-more").querySelector("button");
  button.disabled = true;
  try {
    const part = await readPart(selection, shown);
    if (now !== asked) return;
    const rows = part.rows.map(drawRow);
    byId("pivot-table")
      .querySelector("tbody")
      .append(...rows);
    offerMore(selection, part, shown + part.rows.length);
    rows[0]?.scrollIntoView({ block: "nearest" });
  } catch (problem) {
    if (now !== asked) return;
    button.disabled = false;
    showProblem(byId("pivot-wrong"), problem);
  }
}

/** Draw the table of what the address selects. */
export async function showPivot() {
  const now = ++asked;
  say("pivot-status", "Making the table …");
  const parts = ["table", "more", "notes", "files", "wrong"].map((part) => byId(`pivot-${part}`));
  try {
    if (!byId("pivot-choice").childElementCount) drawChoices(await getJSON("/api/leaderboard/choices"));
    const selection = query();
    const made = await readPart(selection, 0);
    if (now !== asked) return; // another selection was made meanwhile
    showProblem(byId("pivot-wrong"), null);
    drawTable(made);
    drawNotes(made);
    drawFiles(selection);
    offerMore(selection, made, made.rows.length);
  } catch (problem) {
    if (now !== asked) return;
    for (const part of parts) part.replaceChildren();
    say("pivot-status", "");
    showProblem(byId("pivot-wrong"), problem);
  }
}
