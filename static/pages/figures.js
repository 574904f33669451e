// The page of all figures: a run in sentences and as a table, two of its metrics side by side, what metrics measure and
// which can be believed, all runs in one table, and the form to measure here.

import "./frame.js";
import { getJSON } from "../core/api.js";
import { byId, count, el, say, unbroken } from "../core/dom.js";
import { showProblem } from "../core/problems.js";
import { Measuring } from "./measuring/form.js";
import { isOfEarlierModel } from "./figures/ranking.js";
import { remember, remembered } from "./figures/address.js";
import { showExamples } from "./figures/examples.js";
import { drawTable } from "./figures/table.js";
import { RunChoice } from "./figures/choice.js";
import { ARROWS } from "./figures/values.js";
import { slopes } from "./figures/slopes.js";

/** @import { Leaderboard, Model, RunReport } from "../core/schemas.js" */

const WIDEST = 900; // pixels of the plot
/** @type {Model[]} */
let models = [];
/** @type {() => void} */
let drawSlopes = () => {}; // once the plot can be seen

/**
 * What is inside a part that folds.
 * @param {HTMLElement} place
 */
const inner = (place) => /** @type {HTMLElement} */ (place.lastElementChild);

/** @param {RunReport} run */
function showSlopes(run) {
  const place = byId("scatter");
  place.hidden = run.metrics.length < 2;
  if (place.hidden) return;
  const axes = ["x", "y"].map(
    (axis, i) =>
      run.metrics.find((metric) => metric.name === remembered(axis)) ??
      run.metrics[Math.min(i, run.metrics.length - 1)],
  );
  const drawing = el("div", {
    class: "scroll",
    tabIndex: 0,
    role: "region",
    "aria-label": "Two metrics side by side",
  });
  const draw = () => {
    if (place.open) drawing.replaceChildren(slopes(run, axes, Math.min(WIDEST, drawing.clientWidth || WIDEST)));
  };
  drawSlopes = draw;
  /**
   * @param {number} i
   * @param {string} label
   */
  const select = (i, label) => {
    const change = (/** @type {any} */ { target }) => {
      axes[i] = run.metrics[target.selectedIndex];
      remember({ x: axes[0].name, y: axes[1].name });
      draw();
    };
    const options = run.metrics.map((metric) =>
      el("option", { value: metric.name, selected: metric === axes[i] }, metric.title),
    );
    return el("label", {}, label, el("select", { on: { change } }, options));
  };
  inner(place).replaceChildren(
    el(
      "p",
      {},
      "Each column ranks the methods by one metric, best at the top. Where lines cross, the metrics disagree.",
    ),
    el("div", { class: "choice" }, select(0, "left "), select(1, "right ")),
    drawing,
  );
  draw();
}

/** @param {RunReport} run */
function definitions(run) {
  const place = byId("metrics");
  place.hidden = false;
  const rows = run.metrics.flatMap((metric) => [
    el("dt", {}, `${metric.title} ${metric.direction ? ARROWS[metric.direction] : ""}`),
    el(
      "dd",
      {},
      metric.line,
      el("br"),
      el("span", { class: "quiet" }, `${metric.description} `),
      metric.source
        ? el("span", { class: "quiet" }, `${metric.source.authors}, ${metric.source.year}: ${metric.source.title}`)
        : null,
    ),
  ]);
  inner(place).replaceChildren(el("dl", {}, rows));
}

/** @param {RunReport} run */
function about(run) {
  const { dataset, interval: kind, inputs, command } = run;
  byId("why").textContent = run.why ?? "";
  byId("marks").hidden = false;
  byId("marks").textContent =
    `Lines are ${100 * kind.level}\u2009% intervals; * ties for first. Press a column's name to sort by it.`;
  byId("protocol").hidden = false;
  inner(byId("protocol")).textContent = run.protocol.join(" ");
  const without = run.left_out ? ` (${run.left_out} left out: the model does not know their class)` : "";
  const broken = run.broken ? ` ${count(run.broken.length, "input")} could not be read and were left out.` : "";
  const unknown = Object.entries(run.unknown ?? {}).map(([label, number]) => `${label} (${number})`);
  const files = dataset.unread
    ? ` ${count(dataset.unread, "file")} in the folder of the data set ${dataset.unread > 1 ? "were" : "was"} not read.`
    : "";
  const missed = unknown.length
    ? ` Inputs of these classes are left out, as the model does not have them: ${unknown.join(", ")}.`
    : "";
  say(
    "status",
    `${count(inputs, "input")} of ${dataset.title}${without}.${missed}${broken}${files}${run.shows_inputs ? " Press a figure to see its examples." : " This run keeps no examples of its inputs."}`,
  );
  byId("command").hidden = !command;
  byId("command").querySelector("code").textContent = command ?? "";
}

/** @param {RunReport} run */
function show(run) {
  remember({ run: run.id });
  const old = "The model has changed since: its methods may rank otherwise now.";
  const said = isOfEarlierModel({ ...run, model: run.plan.model }, models) ? [...run.sentences, old] : run.sentences;
  byId("sentences").replaceChildren(...said.map((sentence) => el("li", {}, unbroken(sentence))));
  about(run);
  drawTable(run);
  showSlopes(run);
  definitions(run);
}

/** The text where no run is known. */
const EMPTY =
  "There is no run yet. Measure one with vitrine evaluate, and start the server with --runs and its folder.";

/**
 * Fill the choice of runs, and show the one called `wanted`, else the first.
 * @param {string | null} wanted
 */
async function load(wanted) {
  /** @type {[Leaderboard, {models: Model[]}]} */
  const [{ runs, truth, claims, problems }, listed] = await Promise.all([
    getJSON("/api/leaderboard"),
    getJSON("/api/models"),
  ]);
  models = listed.models;
  if (problems.length) showProblem(byId("wrong"), { title: "Some runs cannot be read", detail: problems.join(" ") });
  const chosen = runs.find((run) => run.id === wanted) ?? runs[0];
  byId("figures").hidden = !chosen;
  if (truth) (await import("./figures/truth.js")).showTruth(truth);
  if (claims.length) (await import("./figures/claims.js")).showClaims(claims);
  if (!chosen) return void say("status", EMPTY);
  const choice = new RunChoice(runs, models, (run) => {
    remember({ sort: null, order: null, columns: null, metric: null, method: null, x: null, y: null });
    show(run);
  });
  choice.draw(byId("choice"), chosen);
  const metric = chosen.metrics.find(({ name }) => name === remembered("metric"));
  const method = remembered("method") ?? "";
  show(chosen);
  if (metric && chosen.shows_inputs && chosen.results[metric.name][method]) await showExamples(chosen, metric, method);
}

/**
 * Show the figures of a run that was started here and has ended, or those of the first where it is gone.
 * @param {string | null} id
 */
async function showNew(id) {
  remember({ sort: null, order: null, metric: null, method: null, x: null, y: null });
  await load(id);
}

/** The table over all runs, once it is asked for. */
function offerTable() {
  const place = byId("pivot");
  place.addEventListener("toggle", async () => {
    remember({ table: place.open ? "open" : null });
    if (place.open) await (await import("./figures/pivot.js")).showPivot();
  });
  place.open = remembered("table") === "open";
}

/** Open the part that the address names, and go to it. */
function openNamed() {
  const part = document.getElementById(location.hash.slice(1));
  if (!(part instanceof HTMLDetailsElement) || part.hidden) return;
  part.open = true;
  part.scrollIntoView();
}

async function begin() {
  try {
    offerTable();
    byId("scatter").addEventListener("toggle", () => drawSlopes());
    addEventListener("hashchange", openNamed);
    await load(remembered("run"));
    await new Measuring((id) => void showNew(id)).show();
    openNamed();
  } catch (problem) {
    showProblem(byId("wrong"), problem);
  }
}

void begin();
