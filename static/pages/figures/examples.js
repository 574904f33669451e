// The examples of a figure of a run, under the row of its method: where the method did best and worst.

import { getJSON } from "../../core/api.js";
import { byId, el } from "../../core/dom.js";
import { showProblem } from "../../core/problems.js";
import { wordStrip } from "../gallery/gallery.js";
import { remember } from "./address.js";
import { shown, unitOf } from "./values.js";

/** @import { Example, Examples, RunMetric, RunReport } from "../../core/schemas.js" */

/**
 * @param {RunMetric} metric
 * @param {Example} sample
 * @param {string} end "best" or "worst"
 */
function example(metric, sample, end) {
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

/**
 * The row under that of a method, for its examples; another one that is open closes.
 * @param {RunReport} run
 * @param {string} spec
 */
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

/**
 * Show the examples of a method by a metric.
 * @param {RunReport} run
 * @param {RunMetric} metric
 * @param {string} spec
 * @returns {Promise<void>}
 */
export async function showExamples(run, metric, spec) {
  remember({ metric: metric.name, method: spec });
  const place = rowUnder(run, spec);
  const selector = `tr[data-spec="${CSS.escape(spec)}"] td[data-metric="${metric.name}"]`;
  const opened = byId("figures").querySelector(selector);
  opened.setAttribute("data-open", "");
  try {
    const path = `/api/leaderboard/${encodeURIComponent(run.id)}/examples?metric=${encodeURIComponent(metric.name)}&method=${encodeURIComponent(spec)}`;
    /** @type {Examples} */
    const { best, worst } = await getJSON(path);
    const figures = [
      ...best.map((sample) => example(metric, sample, "best")),
      ...worst.map((sample) => example(metric, sample, "worst")),
    ];
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
    const title = run.methods.find((method) => method.spec === spec)?.title ?? spec;
    const heading = el("h2", { tabIndex: -1 }, `${metric.title} of ${title}: where it did best and worst`);
    place.replaceChildren(heading, el("div", { class: "cases" }, figures), close);
    heading.focus({ preventScroll: true });
    place.scrollIntoView({ block: "nearest" });
  } catch (problem) {
    showProblem(place, problem);
  }
}
