// The Leaderboard's first section: which methods to trust, in words and maps, for each kind of input.

import { count, el, number } from "../core/dom.js";
import { ordinal } from "../maps/caption.js";

/**
 * @import { RankedMethod, Ranking, TrustedMethod } from "../core/schemas.js"
 * @import { Gallery, Kind } from "./gallery.js"
 */

/** @type {{[kind: string]: string}} */
const KINDS = { image: "photos", clip: "prompts", text: "reviews", molecule: "molecules" };
const COUNTED = ["no method", "this one", "these two", "these three"];

/** @param {RankedMethod} entry */
const pageOf = ({ readout }) => `/methods/${readout}`;
/** @param {RankedMethod} entry */
const linked = (entry) => el("a", { href: pageOf(entry), title: entry.spec }, entry.title);

/**
 * "A, B and C", as links.
 * @param {RankedMethod[]} entries
 */
function listed(entries) {
  return entries.flatMap((entry, i) => [i === 0 ? "" : i === entries.length - 1 ? " and " : ", ", linked(entry)]);
}

/**
 * @param {number | null} value
 * @param {{unit: string}} metric
 */
const shown = (value, { unit }) =>
  value === null ? "–" : unit === "share" ? `${number(100 * value)}\u2009%` : number(value);

/**
 * Make the warning about methods that are no better than random numbers, or worse.
 * @param {Ranking} ranking
 */
function warning({ by_chance: byChance, worse }) {
  const lines = [];
  if (byChance.length) lines.push(el("p", { class: "chance" }, "No better than chance: ", listed(byChance), "."));
  if (worse.length) lines.push(el("p", { class: "chance" }, "Worse than random numbers: ", listed(worse), "."));
  if (!lines.length) lines.push(el("p", { class: "chance" }, "All other methods beat random numbers."));
  return lines;
}

/**
 * One kind of input: its three best, with their maps, and those to leave alone.
 * @param {Kind} kind
 * @param {Ranking} ranking
 * @param {{gallery: Gallery, signed: Map<string, boolean>, onRun: (id: string) => void,
 *   titleOf: (model: string) => string}} page what the page knows: maps, which methods have signs, what shows a run,
 *   names of models
 * @returns {HTMLElement}
 */
export function rankingCard(kind, ranking, { gallery, signed, onRun, titleOf }) {
  const { trust, metric, second, measured, tied, of, random, model } = ranking;
  /** @param {TrustedMethod} entry */
  const figuresOf = (entry) =>
    second
      ? `${metric.title} ${shown(entry.value, metric)}, ${second.title} ${shown(entry.second_value, second)}`
      : shown(entry.value, metric);
  const figures = trust.map((entry) =>
    el(
      "li",
      { data: { spec: entry.spec } },
      gallery.thumbnail(kind, entry.spec, signed.get(entry.spec) ?? false, entry.title),
      el("h3", {}, linked(entry)),
      el("p", { class: "quiet" }, `${ordinal(entry.rank)} of ${of} · ${figuresOf(entry)}`),
    ),
  );
  const alike = tied > trust.length ? ` ${count(tied, "method")} tie for first.` : "";
  const about = `${metric.title} with ${titleOf(model)} on ${measured} (random numbers: ${shown(random, metric)}).${alike}`;
  return el(
    "section",
    { class: "kind", data: { kind } },
    el("h2", {}, `On ${KINDS[kind]}, trust ${COUNTED[trust.length]}`),
    el("ol", {}, figures),
    warning(ranking),
    el(
      "p",
      { class: "quiet" },
      `${about} `,
      el("button", { type: "button", class: "link", on: { click: () => onRun(ranking.run) } }, "All its figures"),
    ),
  );
}
