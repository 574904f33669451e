// The Leaderboard page: which methods to trust, in words and maps; then the figures of a run, and two of its metrics
// side by side.

import "./frame.js";
import { getJSON } from "../core/api.js";
import { byId, count, el, say } from "../core/dom.js";
import { showProblem } from "../core/problems.js";
import { Gallery } from "./gallery.js";
import { Measuring } from "./measure.js";
import { rankingCard } from "./ranking.js";
import { remember, remembered } from "./runaddress.js";
import { showExamples } from "./runexamples.js";
import { drawTable } from "./runfigures.js";
import { ARROWS } from "./runvalues.js";
import { slopes } from "./slopes.js";

/**
 * @import { Leaderboard, Model, Ranking, RunReport } from "../core/schemas.js"
 * @import { Kind } from "./gallery.js"
 */

const WIDEST = 900; // pixels of the plot
const FEW = 5; // runs of fewer inputs are trials: nobody is ranked by them

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
  const draw = () => drawing.replaceChildren(slopes(run, axes, Math.min(WIDEST, drawing.clientWidth || WIDEST)));
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
  place.replaceChildren(
    el("h2", {}, "Do two metrics agree?"),
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
      `${metric.description} `,
      metric.source
        ? el("span", { class: "quiet" }, `${metric.source.authors}, ${metric.source.year}: ${metric.source.title}`)
        : null,
    ),
  ]);
  place.replaceChildren(el("h2", {}, "What the metrics measure"), el("dl", {}, rows));
}

/** @param {RunReport} run */
function about(run) {
  const { dataset, interval: kind, inputs, command } = run;
  const without = run.left_out ? ` (${run.left_out} left out: the model does not know their class)` : "";
  const broken = run.broken ? ` ${count(run.broken.length, "input")} could not be read and were left out.` : "";
  const unknown = Object.entries(run.unknown ?? {}).map(([label, number]) => `${label} (${number})`);
  const files = dataset.unread ? ` ${count(dataset.unread, "file")} in its folder could not be read.` : "";
  const missed = unknown.length
    ? ` Inputs of these classes are left out, as the model does not have them: ${unknown.join(", ")}.`
    : "";
  say(
    "status",
    `${count(inputs, "input")} of ${dataset.title}${without}. ${run.protocol.join(" ")} Lines: intervals of ${100 * kind.level}\u2009%. * ties for first.${missed}${broken}${files}${run.shows_inputs ? " Press a figure to see its examples." : " This run keeps no examples of its inputs."}`,
  );
  byId("command").hidden = !command;
  byId("command").querySelector("code").textContent = command ?? "";
}

/** @param {RunReport} run */
function show(run) {
  remember({ run: run.id });
  about(run);
  drawTable(run);
  showSlopes(run);
  definitions(run);
}

/**
 * Show which methods to trust on each kind of input, in words and maps, from the runs that ship.
 * @param {{[kind: string]: Ranking}} rankings
 * @param {RunReport[]} runs
 * @param {(name: string) => string} titleOf a model
 */
async function showRankings(rankings, runs, titleOf) {
  const gallery = await Gallery.load();
  /** @param {string} id */
  const onRun = (id) => {
    byId("run").value = id;
    byId("run").dispatchEvent(new Event("change"));
    byId("choice").scrollIntoView();
    byId("run").focus();
  };
  byId("rankings").replaceChildren(
    ...Object.entries(rankings).map(([kind, ranking]) => {
      const methods = runs.find(({ id }) => id === ranking.run)?.methods ?? [];
      const signed = new Map(methods.map((method) => [method.spec, method.signed]));
      return rankingCard(/** @type {Kind} */ (kind), ranking, { gallery, signed, onRun, titleOf });
    }),
  );
  byId("rankings").setAttribute("aria-busy", "false");
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
  const [{ runs, truth, rankings, problems }, { models }] = await Promise.all([
    getJSON("/api/leaderboard"),
    getJSON("/api/models"),
  ]);
  /** @param {string} name */
  const titleOf = (name) => models.find((model) => model.name === name)?.title ?? name;
  if (problems.length) showProblem(byId("wrong"), { title: "Some runs cannot be read", detail: problems.join(" ") });
  const chosen = runs.find((run) => run.id === wanted) ?? runs[0];
  byId("figures").hidden = !chosen;
  if (truth) (await import("./truth.js")).showTruth(truth);
  if (!chosen) return void say("status", EMPTY);
  /** @param {RunReport} run */
  const optionOf = (run) => {
    const way = run.plan.how ? `, tokens ${run.plan.how}` : "";
    const apart = run.shipped ? `, ${count(run.methods.length, "method")}${way}` : ` (${run.id})`;
    const title = `${titleOf(run.plan.model)} on ${run.dataset.title}, ${count(run.inputs, "input")}${apart}`;
    return el("option", { value: run.id, selected: run === chosen }, title);
  };
  /** @type {[string, RunReport[]][]} */
  const parts = [
    ["Measured here", runs.filter((run) => run.begun_here)],
    ["Runs", runs.filter((run) => !run.begun_here && run.inputs >= FEW)],
    ["Trials on too few inputs to rank methods", runs.filter((run) => !run.begun_here && run.inputs < FEW)],
  ];
  const options = parts
    .filter(([, members]) => members.length)
    .map(([label, members]) => el("optgroup", { label }, members.map(optionOf)));
  const change = (/** @type {any} */ { target }) => {
    remember({ sort: null, order: null, metric: null, method: null, x: null, y: null });
    show(runs.find((run) => run.id === target.value) ?? chosen);
  };
  byId("choice").replaceChildren(el("label", {}, "Run ", el("select", { id: "run", on: { change } }, options)));
  const metric = chosen.metrics.find(({ name }) => name === remembered("metric"));
  const method = remembered("method") ?? "";
  show(chosen);
  void showRankings(rankings, runs, titleOf);
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
    if (place.open) await (await import("./pivot.js")).showPivot();
  });
  place.open = remembered("table") === "open";
}

async function begin() {
  try {
    offerTable();
    await load(remembered("run"));
    await new Measuring((id) => void showNew(id)).show();
  } catch (problem) {
    showProblem(byId("wrong"), problem);
  }
}

void begin();
