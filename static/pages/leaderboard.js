// The Leaderboard page: which methods to trust, in words and maps; then methods by metrics of a run, sorted by any
// column; a figure opens its examples under itself; two metrics side by side.

import { getJSON } from "../core/api.js";
import { byId, count, el, number, say } from "../core/dom.js";
import { showProblem } from "../core/problems.js";
import { svg } from "../core/svg.js";
import { Gallery, wordStrip } from "./gallery.js";
import { csvButton, runRows } from "../export/csv.js";
import { Measuring } from "./measure.js";
import { rankingCard } from "./ranking.js";
import { slopes } from "./slopes.js";

const ARROWS = { higher: "↑", lower: "↓" };
const BETTER = { higher: "higher is better", lower: "lower is better" };
const BAR = { width: 76, height: 8 };
const WIDEST = 900; // pixels of the plot
const FEW = 5; // runs of fewer inputs are trials: nobody is ranked by them

const state = new URLSearchParams(location.search);

/** Keep what is chosen in the address. */
function remember(values) {
  for (const [name, value] of Object.entries(values)) {
    if (value) state.set(name, value);
    else state.delete(name);
  }
  const query = state.toString();
  history.replaceState(history.state, "", query ? `?${query}` : location.pathname);
}

/** A value as it is printed: a share in per cent. */
const shown = (value, unit) => (value === null ? "–" : unit === "share" ? number(100 * value) : number(value));

const unitOf = (metric) => (metric.unit === "share" ? " %" : "");

/**
 * The methods of a run in the order of a column; those without a value come last, and so does a tie in the order of the
 * run.
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

/** The interval of a figure, on the scale of its column. */
function interval(figure, ends) {
  const at = (value) => (ends[1] > ends[0] ? (BAR.width * (value - ends[0])) / (ends[1] - ends[0]) : BAR.width / 2);
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
    svg("line", { x1: at(figure.low), x2: at(figure.high), y1: middle, y2: middle }),
    svg("circle", { cx: at(figure.value), cy: middle, r: 2.5 }),
  );
}

function endsOf(run, metric) {
  const figures = Object.values(run.results[metric.name]).filter((figure) => figure.value !== null);
  return [Math.min(...figures.map((figure) => figure.low)), Math.max(...figures.map((figure) => figure.high))];
}

/** Of how many inputs a value is, where other methods have more: "48 of 60". */
function counted(run, metric, spec) {
  const figures = run.results[metric.name];
  const most = Math.max(...Object.values(figures).map((figure) => figure.inputs ?? 0));
  return (figures[spec].inputs ?? 0) < most ? `${figures[spec].inputs} of ${most}` : "";
}

function cell(run, metric, spec, ends) {
  const figure = run.results[metric.name][spec];
  if (figure.value === null)
    return el(
      "td",
      {},
      el("span", { class: "quiet", title: "This metric has no meaning for this method or its maps" }, "–"),
    );
  const of = counted(run, metric, spec);
  const tied = figure.tied ? ", cannot be told from the best" : "";
  const label = `${metric.title} of ${spec}: ${shown(figure.value, metric.unit)}${unitOf(metric)}, interval ${shown(figure.low, metric.unit)} to ${shown(figure.high, metric.unit)}${tied}${of ? `, ${of} inputs have a value` : ""}`;
  const text = [
    shown(figure.value, metric.unit),
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
  const value = run.shows_inputs ? el("button", asks, text) : el("span", { class: "figure", title: label }, text);
  const kind = figure.tied ? "tied" : metric.cannot_tell ? "muted" : "";
  return el(
    "td",
    { class: kind, data: { metric: metric.name } },
    value,
    of ? el("span", { class: "quiet count" }, of) : null,
    interval(figure, ends),
  );
}

function table(run) {
  const column = state.get("sort") ?? run.metrics[0].name;
  const reversed = state.get("order") === "reversed";
  const sort = (name) => {
    remember({ sort: name, order: name === column && !reversed ? "reversed" : null });
    drawTable(run);
    byId("figures")
      .querySelector(`[data-sort="${CSS.escape(name)}"]`)
      .focus();
  };
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
    );
  };
  const heads = [
    head("method", "Method", "Sort by name"),
    ...run.metrics.map((metric) =>
      head(
        metric.name,
        `${metric.title}${unitOf(metric)} ${ARROWS[metric.direction] ?? ""}`.replace(/ (?=[%↑↓])/g, "\u00a0"),
        `${metric.description} ${BETTER[metric.direction] ?? ""}`,
      ),
    ),
  ];
  const titles = new Map(run.methods.map((method) => [method.spec, method]));
  const ends = new Map(run.metrics.map((metric) => [metric.name, endsOf(run, metric)]));
  const rows = sorted(run, column, reversed).map((spec) => {
    const { title, by, year } = titles.get(spec);
    const name = el(
      "th",
      { scope: "row" },
      el("a", { href: `/methods/${spec.split(/[:?]/)[0]}` }, title),
      el("code", {}, spec),
      el("span", { class: "quiet" }, [by, year].filter(Boolean).join(", ")),
    );
    return el(
      "tr",
      { data: { spec } },
      name,
      run.metrics.map((metric) => cell(run, metric, spec, ends.get(metric.name))),
    );
  });
  return el("table", {}, el("thead", {}, el("tr", {}, heads)), el("tbody", {}, rows));
}

function drawTable(run) {
  byId("figures").replaceChildren(table(run));
  const muted = run.metrics.filter((metric) => metric.cannot_tell);
  byId("undecided").replaceChildren(
    ...muted.map((metric) => el("li", {}, el("strong", {}, metric.title), `, in grey: ${metric.cannot_tell}`)),
  );
  document.querySelector(".csv")?.remove();
  const take = csvButton(
    () => runRows(run),
    () => [run.id],
  );
  byId("status").after(take);
}

function example(run, metric, sample, end) {
  const about = `${end}: ${shown(sample.value, metric.unit)}${unitOf(metric)}`;
  const map = sample.words
    ? wordStrip(sample.words)
    : el("img", {
        src: sample.image,
        width: 160,
        height: 160,
        alt: `Map on ${sample.name}, explained as ${sample.target}`,
      });
  return el(
    "figure",
    {},
    map,
    el("figcaption", {}, about, el("br"), el("span", { class: "quiet" }, `${sample.target} · ${sample.name}`)),
  );
}

/** The row under that of a method, for its examples; another one that is open closes. */
function rowUnder(run, spec) {
  closeExamples();
  const row = byId("figures").querySelector(`tbody tr[data-spec="${CSS.escape(spec)}"]`);
  const place = el("div", { class: "examples", "aria-live": "polite", role: "group", "aria-label": "Examples" });
  row.after(el("tr", { class: "open" }, el("td", { colSpan: run.metrics.length + 1 }, place)));
  return place;
}

function closeExamples() {
  byId("figures").querySelector("tr.open")?.remove();
  byId("figures").querySelector("td[data-open]")?.removeAttribute("data-open");
}

async function showExamples(run, metric, spec) {
  remember({ metric: metric.name, method: spec });
  const place = rowUnder(run, spec);
  const selector = `tr[data-spec="${CSS.escape(spec)}"] td[data-metric="${metric.name}"]`;
  const opened = byId("figures").querySelector(selector);
  opened.setAttribute("data-open", "");
  try {
    const path = `/api/leaderboard/${encodeURIComponent(run.id)}/examples?metric=${encodeURIComponent(metric.name)}&method=${encodeURIComponent(spec)}`;
    const examples = await getJSON(path);
    const figures = ["best", "worst"].flatMap((end) =>
      examples[end].map((sample) => example(run, metric, sample, end)),
    );
    const close = el(
      "button",
      {
        type: "button",
        class: "act plain",
        on: {
          click: () => {
            closeExamples();
            remember({ metric: null, method: null });
            opened.querySelector("button").focus();
          },
        },
      },
      "Close",
    );
    const { title } = run.methods.find((method) => method.spec === spec);
    place.replaceChildren(
      el("h3", { tabIndex: -1 }, `${metric.title} of ${title}: where it did best and worst`),
      el("div", { class: "cases" }, figures),
      close,
    );
    place.querySelector("h3").focus({ preventScroll: true });
    place.scrollIntoView({ block: "nearest" });
  } catch (problem) {
    showProblem(place, problem);
  }
}

function showSlopes(run) {
  const place = byId("scatter");
  place.hidden = run.metrics.length < 2;
  if (place.hidden) return;
  const names = [state.get("x"), state.get("y")].map((name, i) =>
    run.metrics.some((metric) => metric.name === name) ? name : run.metrics[Math.min(i, run.metrics.length - 1)].name,
  );
  const drawing = el("div", {
    class: "scroll",
    tabIndex: 0,
    role: "region",
    "aria-label": "Two metrics side by side",
  });
  const draw = () =>
    drawing.replaceChildren(
      slopes(
        run,
        names.map((name) => run.metrics.find((metric) => metric.name === name)),
        Math.min(WIDEST, drawing.clientWidth || WIDEST),
      ),
    );
  const select = (i, label) => {
    const change = (event) => {
      names[i] = event.target.value;
      remember({ x: names[0], y: names[1] });
      draw();
    };
    const options = run.metrics.map((metric) =>
      el("option", { value: metric.name, selected: metric.name === names[i] }, metric.title),
    );
    return el("label", {}, label, el("select", { on: { change } }, options));
  };
  place.replaceChildren(
    el("h2", {}, "Do two metrics agree?"),
    el("p", {}, "The methods in the order of each metric, best at the top. Where lines cross, the metrics disagree."),
    el("div", { class: "choice" }, select(0, "left "), select(1, "right ")),
    drawing,
  );
  draw();
}

function definitions(run) {
  const place = byId("metrics");
  place.hidden = false;
  const rows = run.metrics.flatMap((metric) => [
    el("dt", {}, `${metric.title} ${ARROWS[metric.direction] ?? ""}`),
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

function about(run) {
  const { plan, dataset, interval: kind, inputs, command } = run;
  const how = plan.how ? `tokens ${plan.how}` : "tokens removed as suits the model";
  const without = run.left_out ? ` (${run.left_out} left out, of classes that the model does not know)` : "";
  const unknown = Object.entries(run.unknown ?? {}).map(([label, number]) => `${label} (${number})`);
  const files = dataset.unread ? ` ${count(dataset.unread, "file")} in its folder not read.` : "";
  const missed = unknown.length
    ? ` Not explained, for the model knows no class of the name: ${unknown.join(", ")}.`
    : "";
  say(
    "status",
    `${count(inputs, "input")} of ${dataset.title}${without}, ${plan.target} class explained, ${how}. Lines: intervals of ${100 * kind.level}\u2009%. * cannot be told from the best.${missed}${files}${run.shows_inputs ? " A figure opens its examples." : " This run keeps no examples of its inputs."}`,
  );
  byId("command").hidden = !command;
  byId("command").querySelector("code").textContent = command ?? "";
}

function show(run) {
  remember({ run: run.id });
  about(run);
  drawTable(run);
  showSlopes(run);
  definitions(run);
}

/** What to trust on each kind of input, in words and maps, from the runs that ship. */
async function showRankings(rankings, runs, titleOf) {
  const gallery = await Gallery.load();
  const onRun = (id) => {
    byId("run").value = id;
    byId("run").dispatchEvent(new Event("change"));
    byId("choice").scrollIntoView();
    byId("run").focus();
  };
  byId("rankings").replaceChildren(
    ...Object.entries(rankings).map(([kind, ranking]) => {
      const { methods } = runs.find(({ id }) => id === ranking.run);
      const signed = new Map(methods.map((method) => [method.spec, method.signed]));
      return rankingCard(kind, ranking, { gallery, signed, onRun, titleOf });
    }),
  );
  byId("rankings").setAttribute("aria-busy", "false");
}

/** What is said where no run is known. */
const EMPTY =
  "No run is known yet. Measure one with vitrine evaluate, and start the server with --runs and the folder of the run.";

/** Fill the choice of runs, and show the one called `wanted`, else the first. */
async function load(wanted) {
  const [{ runs, rankings, problems }, { models }] = await Promise.all([
    getJSON("/api/leaderboard"),
    getJSON("/api/models"),
  ]);
  const titleOf = (name) => models.find((model) => model.name === name)?.title ?? name;
  if (problems.length) showProblem(byId("wrong"), { title: "Some runs cannot be read", detail: problems.join(" ") });
  const chosen = runs.find((run) => run.id === wanted) ?? runs[0];
  byId("figures").hidden = !chosen;
  if (!chosen) return void say("status", EMPTY);
  const optionOf = (run) => {
    const way = run.plan.how ? `, tokens ${run.plan.how}` : "";
    const apart = run.shipped ? `, ${count(run.methods.length, "method")}${way}` : ` (${run.id})`;
    const title = `${titleOf(run.plan.model)} on ${run.dataset.title}, ${count(run.inputs, "input")}${apart}`;
    return el("option", { value: run.id, selected: run === chosen }, title);
  };
  const parts = [
    ["Runs", runs.filter((run) => run.inputs >= FEW)],
    ["Trials of a few inputs, too few to rank anything", runs.filter((run) => run.inputs < FEW)],
  ];
  const options = parts
    .filter(([, members]) => members.length)
    .map(([label, members]) => el("optgroup", { label }, members.map(optionOf)));
  const change = (event) => {
    remember({ sort: null, order: null, metric: null, method: null, x: null, y: null });
    show(runs.find((run) => run.id === event.target.value));
  };
  byId("choice").replaceChildren(el("label", {}, "Run ", el("select", { id: "run", on: { change } }, options)));
  const [metric, method] = [chosen.metrics.find(({ name }) => name === state.get("metric")), state.get("method")];
  show(chosen);
  void showRankings(rankings, runs, titleOf);
  if (metric && chosen.shows_inputs && chosen.results[metric.name][method]) await showExamples(chosen, metric, method);
}

/** A run that was begun here has ended: show its figures. */
async function showNew(id) {
  remember({ sort: null, order: null, metric: null, method: null, x: null, y: null });
  await load(id);
}

try {
  await load(state.get("run"));
  await new Measuring((id) => void showNew(id)).show();
} catch (problem) {
  showProblem(byId("wrong"), problem);
}
