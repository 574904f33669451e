// Which metrics can be believed: the order in which each puts methods, against their order by truth, in worlds where it
// is known what answers come from.

import { byId, el } from "../../core/dom.js";
import { truthInWords } from "./values.js";

/** @import { ControlsInWorld, MetricOnTruth, MetricTruth, TruthInWorld, TruthOfKind, TruthWorld } from "../../core/schemas.js" */

const RANKED =
  "Each run ranks its methods by the metric that agrees best with the truth among those that it measured. Where none of them was tested, symmetric relevance gain decides, else segmentation AP.";
const ABOUT =
  "In these test worlds we know what an answer comes from, such as the pixels of a drawn thing. The true order puts the methods first whose maps show it best. A metric that can be believed ranks methods in the same order. Kendall's tau is 1 for the same order, 0 for chance, −1 for the reverse; the interval is over inputs.";
const LIMITS =
  "The worlds are toys with small models and few inputs; other models and data may differ. A metric in doubt may only need more inputs.";
const CONTROLS =
  "The truth itself is a map of 1 on the marked tokens and 0 elsewhere; its inverse is the reverse. A metric that knows the truth ranks the first above every method that is measurably less true. It ranks the inverse below every method.";
/**
 * Say which worlds are left out of what a metric says of the truth itself.
 * @param {TruthWorld[]} worlds
 */
const leftOut = (worlds) =>
  worlds.length
    ? ` ${worlds.map(({ dataset }) => dataset).join(", ")} does not count for this: the outline of a thing is known, but a model may look at a part of it.`
    : "";
/** @type {{[kind: string]: string}} */
const KINDS = { image: "pictures", text: "sentences" };

/**
 * @param {TruthOfKind | TruthInWorld | null} figure
 * @param {string} [title]
 * @param {HTMLElement | null} [places]
 */
const cell = (figure, title, places) =>
  el("td", { title: title ?? null }, figure ? truthInWords(figure) : "–", places ?? null);

/**
 * Say which method a metric ranks first in a world, and the rank of that method by truth.
 * @param {TruthInWorld | null} figure
 * @param {TruthWorld} world
 */
function choiceOf(figure, { methods }) {
  if (!figure) return "Not measured here, or too few methods have a value";
  const title = methods.find(({ spec }) => spec === figure.first)?.title ?? figure.first;
  return `It ranks ${title} first; by truth that is ${figure.first_place} of ${methods.length}`;
}

/**
 * Show the ranks that a metric gives the truth itself and its inverse in a world; the outline, where it may not be the
 * truth.
 * @param {ControlsInWorld | null} controls
 * @param {TruthWorld} world
 */
function placesOf(controls, { marks_alone: isTruth }) {
  if (!controls) return null;
  const { truth, truth_inverted: inverted } = controls.places;
  const inverse = inverted ? `, inverse ${inverted.place} of ${inverted.of + 1}` : "";
  return el(
    "span",
    { class: "places" },
    `${isTruth ? "truth" : "outline"} ${truth.place} of ${truth.of + 1}${inverse}`,
  );
}

/**
 * Show the ranks that a metric gives the truth itself and its inverse, in all worlds whose marks are all that answers
 * come from.
 * @param {MetricOnTruth} metric
 */
function ofTruthItself({ controls }) {
  const kinds = Object.values(controls.kinds).filter((kind) => kind && kind.first !== null);
  if (!kinds.length) return "–";
  if (kinds.every((kind) => kind?.first)) return ["first", el("span", { class: "places" }, "its inverse last")];
  /** @param {string} name */
  const sum = (name) => {
    const figures = kinds.map((kind) => kind?.controls[name]).filter((figure) => figure !== undefined);
    return [figures.reduce((total, { right }) => total + right, 0), figures.reduce((total, { of }) => total + of, 0)];
  };
  const [above, of] = sum("truth");
  const [below, ofInverse] = sum("truth_inverted");
  return [`above ${above} of ${of}`, el("span", { class: "places" }, `its inverse below ${below} of ${ofInverse}`)];
}

/**
 * A metric with its agreement on each kind of input, what it says of the truth itself, and both in each world.
 * @param {MetricOnTruth} metric
 * @param {string[]} kinds
 * @param {TruthWorld[]} worlds
 */
function row(metric, kinds, worlds) {
  const doubts = kinds.flatMap((kind) => metric.doubts[kind] ?? []);
  return el(
    "tr",
    { data: { metric: metric.name } },
    el(
      "th",
      { scope: "row" },
      metric.title,
      metric.reads_marks ? el("span", { class: "quiet" }, " (it is given the truth)") : null,
      doubts.map((doubt) => el("span", { class: "doubt" }, doubt)),
    ),
    kinds.map((kind) => cell(metric.kinds[kind])),
    el("td", {}, ofTruthItself(metric)),
    worlds.map((world) =>
      cell(
        metric.worlds[world.name],
        choiceOf(metric.worlds[world.name], world),
        placesOf(metric.controls.worlds[world.name], world),
      ),
    ),
  );
}

/**
 * Draw the section.
 * @param {MetricTruth} truth
 */
export function showTruth({ worlds, metrics, advice, sentences }) {
  const kinds = Object.keys(KINDS).filter((kind) => worlds.some((world) => world.kind === kind));
  /** @param {MetricOnTruth} metric */
  const rank = (metric) => -Math.max(...kinds.map((kind) => metric.kinds[kind]?.tau ?? -2));
  const sorted = [...metrics].sort((a, b) => rank(a) - rank(b));
  const agreements = kinds.map((kind) => `On ${KINDS[kind]}`);
  const outlines = worlds.filter((world) => !world.marks_alone);
  const without = outlines.length ? ` (without ${outlines.map(({ dataset }) => dataset).join(", ")})` : "";
  const heads = ["Metric", ...agreements, `The truth itself${without}`, ...worlds.map((world) => world.dataset)];
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
  place.querySelector("section").replaceChildren(
    el("p", {}, ABOUT),
    el("h3", {}, "Which metric to use"),
    ...advice.map((sentence) => el("p", { class: "advice" }, sentence)),
    el("p", {}, RANKED),
    el("p", {}, LIMITS),
    el("h3", {}, "Each metric"),
    el("p", {}, `${CONTROLS}${leftOut(outlines)}`),
    el("div", { class: "scroll", tabIndex: 0, role: "region", "aria-label": "Metrics against the truth" }, table),
    el(
      "details",
      { class: "aside" },
      el("summary", {}, "What was found, world by world"),
      el(
        "ul",
        {},
        sentences.map((sentence) => el("li", {}, sentence)),
      ),
    ),
  );
}
