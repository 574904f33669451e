// The Leaderboard page: methods by metrics of a run, sorted by any column; a figure opens its examples; two metrics
// against each other.

import { getJSON } from "../core/api.js";
import { byId, count, el, number, say } from "../core/dom.js";
import { showProblem } from "../core/problems.js";
import { svg } from "../core/svg.js";
import { csvButton, runRows } from "../export/csv.js";
import { Measuring } from "./measure.js";

const ARROWS = { higher: "↑", lower: "↓" };
const BETTER = { higher: "higher is better", lower: "lower is better" };
const BAR = { width: 76, height: 8 };
const [LETTER, LINE, RADIUS] = [6.7, 11, 4.5]; // of names and of points in the plot, in its units
const PLOT = { widest: 640, height: 320, left: 52, bottom: 40, top: 12, right: 24 };

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

function cell(run, metric, spec, ends) {
  const figure = run.results[metric.name][spec];
  if (figure.value === null)
    return el("td", {}, el("span", { class: "quiet", title: "This metric has no meaning for this method" }, "–"));
  const tied = figure.tied ? ", cannot be told from the best" : "";
  const label = `${metric.title} of ${spec}: ${shown(figure.value, metric.unit)}${unitOf(metric)}, interval ${shown(figure.low, metric.unit)} to ${shown(figure.high, metric.unit)}${tied}`;
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
  return el("td", { class: figure.tied ? "tied" : "", data: { metric: metric.name } }, value, interval(figure, ends));
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
    const falling = run.metrics.find((metric) => metric.name === name)?.direction !== "lower";
    const direction = name === "method" ? !reversed : falling === reversed;
    return el(
      "th",
      { scope: "col", "aria-sort": chosen ? (direction ? "ascending" : "descending") : null },
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
  document.querySelector(".csv")?.remove();
  const take = csvButton(
    () => runRows(run),
    () => [run.id],
  );
  byId("status").after(take);
}

/** The words of a text, each on a ground as strong as its score; underlined too, dotted where it speaks against. */
function words(list) {
  return el(
    "p",
    { class: "words" },
    list.flatMap(({ text, score }) => [
      el("span", { class: `${score < 0 ? "against" : "for"} s${Math.round(4 * Math.abs(score))}` }, text),
      " ",
    ]),
  );
}

function example(run, metric, sample, end) {
  const about = `${end}: ${shown(sample.value, metric.unit)}${unitOf(metric)}`;
  const map = sample.words
    ? words(sample.words)
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

async function showExamples(run, metric, spec) {
  const place = byId("examples");
  remember({ metric: metric.name, method: spec });
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
            place.replaceChildren();
            remember({ metric: null, method: null });
          },
        },
      },
      "Close",
    );
    place.replaceChildren(
      el("h2", { tabIndex: -1 }, `${metric.title} of ${spec}: where it did best and worst`),
      el("div", { class: "cases" }, figures),
      close,
    );
    place.querySelector("h2").focus();
  } catch (problem) {
    showProblem(place, problem);
  }
}

/** Whether two boxes {left, right, middle} of lines of text lie over each other. */
const overlap = (a, b) => a.right > b.left && a.left < b.right && Math.abs(a.middle - b.middle) < LINE;

/**
 * A point a method, its name to the right of it or to the left. A name that would lie over another one, over a point or
 * outside of the plot is left out; pointing at its point tells it.
 */
function points(run, specs, axes, at, width) {
  const values = specs.map((spec) => axes.map(({ name }) => run.results[name][spec].value));
  const taken = values.map(([x, y]) => ({ left: at.x(x) - RADIUS, right: at.x(x) + RADIUS, middle: at.y(y) }));
  return specs.map((spec, number) => {
    const { left, right, middle } = taken[number];
    const place = { cx: (left + right) / 2, cy: middle, r: RADIUS, class: spec === "random" ? "baseline" : "" };
    const figures = axes.map(
      (metric, i) => `${metric.title} ${shown(values[number][i], metric.unit)}${unitOf(metric)}`,
    );
    const dot = svg("circle", place, svg("title", {}, `${spec}: ${figures.join(", ")}`));
    const long = LETTER * spec.length;
    const name = [
      { left: right + 3, right: right + 3 + long, middle },
      { left: left - 3 - long, right: left - 3, middle },
    ].find((box) => box.left > PLOT.left && box.right < width && !taken.some((other) => overlap(box, other)));
    if (!name) return svg("g", {}, dot);
    taken.push(name);
    return svg("g", {}, dot, svg("text", { x: name.left, y: middle + 4 }, spec));
  });
}

/** Two metrics against each other, a point a method, drawn `width` pixels wide. */
function plot(run, axes, width) {
  const specs = run.methods
    .map((method) => method.spec)
    .filter((spec) => axes.every((axis) => run.results[axis.name][spec].value !== null));
  if (!specs.length) return el("p", {}, "No method has a value for both metrics.");
  const spans = axes.map((axis) => {
    const values = specs.map((spec) => run.results[axis.name][spec].value);
    const [low, high] = [Math.min(...values), Math.max(...values)];
    const margin = (high - low || 1) * 0.06;
    return [low - margin, high + margin];
  });
  const along = (i, from, to) => (value) => from + ((value - spans[i][0]) / (spans[i][1] - spans[i][0])) * (to - from);
  const at = { x: along(0, PLOT.left, width - PLOT.right), y: along(1, PLOT.height - PLOT.bottom, PLOT.top) };
  const ticks = [0, 0.5, 1].flatMap((t) => {
    const [x, y] = spans.map(([low, high]) => low + t * (high - low));
    return [
      svg("text", { x: at.x(x), y: PLOT.height - PLOT.bottom + 16, class: "tick middle" }, shown(x, axes[0].unit)),
      svg("text", { x: PLOT.left - 6, y: at.y(y) + 4, class: "tick end" }, shown(y, axes[1].unit)),
    ];
  });
  const frame = svg("path", {
    class: "axes",
    d: `M${PLOT.left} ${PLOT.top}V${PLOT.height - PLOT.bottom}H${width - PLOT.right}`,
  });
  const label = `${axes[1].title} against ${axes[0].title}, a point for each of ${count(specs.length, "method")}`;
  return svg(
    "svg",
    { role: "img", "aria-label": label, viewBox: `0 0 ${width} ${PLOT.height}`, class: "plot" },
    frame,
    ticks,
    points(run, specs, axes, at, width),
  );
}

function scatter(run) {
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
    "aria-label": "Two metrics against each other",
  });
  const draw = () =>
    drawing.replaceChildren(
      plot(
        run,
        names.map((name) => run.metrics.find((metric) => metric.name === name)),
        Math.min(PLOT.widest, drawing.clientWidth || PLOT.widest),
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
    el("h2", {}, "Two metrics against each other"),
    el("div", { class: "choice" }, select(0, "across "), select(1, "up ")),
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
  const how = plan.how ? `tokens ${plan.how}` : "tokens taken away as suits the model";
  const without = run.left_out ? ` (${run.left_out} left out, of classes that the model does not know)` : "";
  say(
    "status",
    `${count(inputs, "input")} of ${dataset.title}${without}, ${plan.target} class explained, ${how}. Lines: intervals of ${100 * kind.level}\u2009%. * cannot be told from the best.${run.shows_inputs ? "" : " The inputs may not be passed on, so no examples are shown."}`,
  );
  byId("command").hidden = !command;
  byId("command").querySelector("code").textContent = command ?? "";
}

function show(run) {
  remember({ run: run.id });
  about(run);
  drawTable(run);
  byId("examples").replaceChildren();
  scatter(run);
  definitions(run);
}

/** What is said where no run is known. */
const EMPTY =
  "No run is known yet. Measure one with vitrine evaluate, and start the server with --runs and the folder of the run.";

/** Fill the choice of runs, and show the one called `wanted`, else the first. */
async function load(wanted) {
  const [{ runs, problems }, { models }] = await Promise.all([getJSON("/api/leaderboard"), getJSON("/api/models")]);
  const titleOf = (name) => models.find((model) => model.name === name)?.title ?? name;
  if (problems.length) showProblem(byId("wrong"), { title: "Some runs cannot be read", detail: problems.join(" ") });
  const chosen = runs.find((run) => run.id === wanted) ?? runs[0];
  byId("figures").hidden = !chosen;
  if (!chosen) return void say("status", EMPTY);
  const options = runs.map((run) => {
    const way = run.plan.how ? `, tokens ${run.plan.how}` : "";
    const apart = run.shipped ? `, ${count(run.methods.length, "method")}${way}` : ` (${run.id})`;
    const title = `${titleOf(run.plan.model)} on ${run.dataset.title}, ${count(run.inputs, "input")}${apart}`;
    return el("option", { value: run.id, selected: run === chosen }, title);
  });
  const change = (event) => {
    remember({ sort: null, order: null, metric: null, method: null, x: null, y: null });
    show(runs.find((run) => run.id === event.target.value));
  };
  byId("choice").replaceChildren(el("label", {}, "Run ", el("select", { id: "run", on: { change } }, options)));
  const [metric, method] = [chosen.metrics.find(({ name }) => name === state.get("metric")), state.get("method")];
  show(chosen);
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
