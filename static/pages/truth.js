// Which metrics can be believed: the order in which each puts methods, against their order by truth, in worlds where it
// is known what answers come from.

import { byId, el } from "../core/dom.js";
import { truthInWords } from "./runvalues.js";

/** @import { MetricOnTruth, MetricTruth, TruthInWorld, TruthOfKind, TruthWorld } from "../core/schemas.js" */

const ABOUT =
  "In these worlds it is known what an answer comes from: the pixels of a drawn thing, a mark that a model was taught to go by, the only patches that a model reads, the subject of a verb. Methods whose maps name it better come first by truth. A metric that can be believed puts them in the same order: Kendall's tau is 1 for the same order, 0 for chance, -1 for the reverse, with an interval over inputs. Other models and data may say something else.";
/** @type {{[kind: string]: string}} */
const KINDS = { image: "pictures", text: "sentences" };

/**
 * @param {TruthOfKind | TruthInWorld | null} figure
 * @param {string} [title]
 */
const cell = (figure, title) => el("td", { title: title ?? null }, figure ? truthInWords(figure) : "–");

/**
 * Which method a metric puts first in a world, and where that stands by truth.
 * @param {TruthInWorld | null} figure
 * @param {TruthWorld} world
 */
function choiceOf(figure, { methods }) {
  if (!figure) return "Not measured here, or too few methods have a value";
  const title = methods.find(({ spec }) => spec === figure.first)?.title ?? figure.first;
  return `It puts ${title} first, whose place by truth is ${figure.first_place} of ${methods.length}`;
}

/**
 * A metric with its agreement on each kind of input and in each world.
 * @param {MetricOnTruth} metric
 * @param {string[]} kinds
 * @param {TruthWorld[]} worlds
 */
const row = (metric, kinds, worlds) =>
  el(
    "tr",
    { data: { metric: metric.name } },
    el("th", { scope: "row" }, metric.title, metric.reads_marks ? el("span", { class: "quiet" }, " is told it") : null),
    kinds.map((kind) => cell(metric.kinds[kind])),
    worlds.map((world) => cell(metric.worlds[world.name], choiceOf(metric.worlds[world.name], world))),
  );

/**
 * Draw the section.
 * @param {MetricTruth} truth
 */
export function showTruth({ worlds, metrics, sentences }) {
  const kinds = Object.keys(KINDS).filter((kind) => worlds.some((world) => world.kind === kind));
  /** @param {MetricOnTruth} metric */
  const rank = (metric) => -Math.max(...kinds.map((kind) => metric.kinds[kind]?.tau ?? -2));
  const sorted = [...metrics].sort((a, b) => rank(a) - rank(b));
  const heads = ["Metric", ...kinds.map((kind) => `On ${KINDS[kind]}`), ...worlds.map((world) => world.dataset)];
  const table = el(
    "table",
    {},
    el(
      "thead",
      {},
      el(
        "tr",
        {},
        heads.map((head) => el("th", { scope: "col" }, head)),
      ),
    ),
    el(
      "tbody",
      {},
      sorted.map((metric) => row(metric, kinds, worlds)),
    ),
  );
  const place = byId("truth");
  place.hidden = false;
  place.replaceChildren(
    el("h2", { id: "truth-title" }, "Which metric can be believed?"),
    el("p", {}, ABOUT),
    el(
      "ul",
      {},
      sentences.map((sentence) => el("li", {}, sentence)),
    ),
    el("div", { class: "scroll", tabIndex: 0, role: "region", "aria-label": "Metrics against the truth" }, table),
  );
  if (location.hash === "#truth") place.scrollIntoView();
}
