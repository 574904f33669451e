// On the Leaderboard page: what a ranking means, in sentences, with the maps of the methods to trust next to its plot.

import { el, unbroken } from "../../core/dom.js";
import { dateInWords, shortly, variantPage } from "./values.js";

/**
 * @import { Model, RunSummary } from "../../core/schemas.js"
 * @import { Gallery, Kind } from "../gallery/gallery.js"
 */

/** @type {{[kind: string]: string}} */
const KINDS = { image: "On photos", clip: "On prompts", text: "On reviews", molecule: "On molecules" };

const TESTED = /known truth/; // what the page of all figures shows in full

/**
 * Return whether the weights of a loaded model are others than those that were measured.
 * @param {{model: string, weights_digest?: string | null}} measured
 * @param {{name: string, weights_digest?: string | null}[]} models
 * @returns {boolean}
 */
export function isOfEarlierModel({ model, weights_digest: digest }, models) {
  const now = models.find(({ name }) => name === model)?.weights_digest;
  return Boolean(digest && now && digest !== now);
}

/**
 * What it means to tie for first; "" where one method alone is first by one metric. Ties are judged by the differences on
 * each input,
 * and by a second metric where there is one, so that the values alone may seem to say otherwise.
 * @param {{places: {group: string, value: number}[], metric: {direction: string | null},
 *   second?: {title: string, line: string} | null}} ranking
 * @returns {string}
 */
export function tieLine({ places, metric, second }) {
  const sign = metric.direction === "lower" ? -1 : 1;
  const [first, behind] = ["first", "behind"].map((wanted) =>
    places.filter(({ group }) => group === wanted).map(({ value }) => sign * value),
  );
  if (first.length < 2 && !second) return "";
  const isOdd = behind.some((value) => first.some((tied) => value > tied));
  const odd = isOdd ? ", so one with a better value can still be behind" : "";
  const tie = "Methods tie where their difference may be chance";
  return second
    ? `${tie}. The first are also among the best by “${second.title}”${odd}. ${second.line}`
    : `${tie}${odd}.`;
}

/**
 * What was measured and what the metric asks, in a few sentences.
 * @param {RunSummary} ranking
 * @param {Model[]} models
 */
function facts({ metric, why, second, random, model, measured, date, weights_digest, places }, models) {
  const unit = metric.unit === "share" ? "\u2009%" : "";
  const chance = random === null ? "" : ` Chance: ${shortly(random, metric.unit)}${unit}.`;
  const title = models.find(({ name }) => name === model)?.title ?? model;
  const ties = tieLine({ places, metric, second });
  const isOld = isOfEarlierModel({ model, weights_digest }, models);
  return [
    el("p", {}, el("strong", {}, `${metric.title}: `), unbroken(`${metric.line}${chance}`)),
    el(
      "p",
      { class: "why" },
      unbroken(`${why} `),
      TESTED.test(why) ? el("a", { href: "/leaderboard/figures#truth" }, "How this was tested") : null,
    ),
    ties ? el("p", {}, unbroken(ties)) : null,
    el("p", {}, `Measured with ${title} on ${measured}${date ? `, ${dateInWords(date)}` : ""}.`),
    isOld ? el("p", { class: "warn" }, "The model has changed since: its methods may rank otherwise now.") : null,
  ];
}

/**
 * Draw one task: its sentences, maps and facts, and the plot next to them.
 * @param {HTMLElement} place
 * @param {Kind} kind
 * @param {RunSummary} ranking
 * @param {{models: Model[], gallery: Gallery}} page what the page knows
 * @param {HTMLElement} plot
 */
export function drawRanking(place, kind, ranking, { models, gallery }, plot) {
  const maps = ranking.trust.filter(({ spec }) => gallery.has(kind, spec));
  const figures = maps.map((entry) =>
    el(
      "li",
      { data: { spec: entry.spec } },
      gallery.thumbnail(kind, entry.spec, entry.signed, entry.title),
      el("p", {}, el("a", { href: variantPage(entry.readout, entry.spec) }, entry.title)),
    ),
  );
  const label = gallery.labelOf(kind);
  const shows = maps.length
    ? el(
        "p",
        { class: "quiet" },
        `Their maps of “${label}”. `,
        gallery.legend(
          kind,
          maps.map(({ signed }) => signed),
        ),
      )
    : null;
  place.replaceChildren(
    el(
      "div",
      { class: "told" },
      el("h2", {}, KINDS[kind]),
      el(
        "ul",
        { class: "sentences" },
        ranking.sentences.map((sentence) => el("li", {}, unbroken(sentence))),
      ),
      maps.length ? el("ul", { class: "maps" }, figures) : null,
      shows,
      el("div", { class: "facts quiet" }, facts(ranking, models)),
      el(
        "p",
        {},
        el("a", { href: `/leaderboard/figures?run=${encodeURIComponent(ranking.run)}` }, "All figures of this run"),
      ),
    ),
    el("div", { class: "scroll", tabIndex: 0, role: "region", "aria-label": "Methods, best first" }, plot),
  );
}
