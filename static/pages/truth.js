// Which metrics can be believed: the order in which each puts methods, against their order by truth, in worlds where it
// is known what answers come from.

import { byId, el } from "../core/dom.js";
import { truthInWords } from "./runvalues.js";

/** @import { ControlsInWorld, MetricOnTruth, MetricTruth, TruthInWorld, TruthOfKind, TruthWorld } from "../core/schemas.js" */

const ABOUT =
  "In these worlds it is known what an answer comes from: the pixels of a drawn thing, a mark that a model was taught to go by, the only patches that a model reads, the subject of a verb. Methods whose maps name it better come first by truth. A metric that can be believed puts them in the same order: Kendall's tau is 1 for the same order, 0 for chance, -1 for the reverse, with an interval over inputs.";
const LIMITS =
  "The worlds are toys, their models small and their inputs few: other models and data may say something else. A metric in doubt may lack inputs; one that passes has passed here.";
const CONTROLS =
  "The truth itself is a map of 1 on the marked tokens and 0 elsewhere, and its inverse the reverse. They are no methods: a metric that knows the truth puts the one above every method that is measurably less true, place 1, and the other below every method. Among scenes alone it need not, for there it is not known that the model looks at all of a thing and nowhere else.";
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
 * Where a metric puts the truth itself and its inverse in a world.
 * @param {ControlsInWorld | null} controls
 */
function placesOf(controls) {
  if (!controls) return null;
  const { truth, truth_inverted: inverted } = controls.places;
  const inverse = inverted ? `, inverse ${inverted.place} of ${inverted.of + 1}` : "";
  return el("span", { class: "places" }, `truth ${truth.place} of ${truth.of + 1}${inverse}`);
}

/**
 * Above and below how many methods a metric puts the truth itself and its inverse, in all worlds whose marks are all
 * that answers come from.
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
      metric.reads_marks ? el("span", { class: "quiet" }, " is told it") : null,
      doubts.map((doubt) => el("span", { class: "doubt" }, doubt)),
    ),
    kinds.map((kind) => cell(metric.kinds[kind])),
    el("td", {}, ofTruthItself(metric)),
    worlds.map((world) =>
      cell(
        metric.worlds[world.name],
        choiceOf(metric.worlds[world.name], world),
        placesOf(metric.controls.worlds[world.name]),
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
  const heads = ["Metric", ...agreements, "The truth itself", ...worlds.map((world) => world.dataset)];
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
    el("h3", {}, "Which metric to use"),
    ...advice.map((sentence) => el("p", { class: "advice" }, sentence)),
    el("p", {}, LIMITS),
    el("h3", {}, "Each metric"),
    el("p", {}, CONTROLS),
    el("div", { class: "scroll", tabIndex: 0, role: "region", "aria-label": "Metrics against the truth" }, table),
    el("h3", {}, "What was found"),
    el(
      "ul",
      {},
      sentences.map((sentence) => el("li", {}, sentence)),
    ),
  );
  if (location.hash === "#truth") place.scrollIntoView();
}
