// The plot of a ranking: a row a method with its value and interval on one scale, ties first, chance as a line.

import { count, el } from "../../core/dom.js";
import { ARROWS, shortly, variantPage } from "./values.js";

/** @import { PlacedMethod, RunSummary } from "../../core/schemas.js" */

const MARGIN = 0.02; // of the scale, at both ends
const NEAR = 0.36; // of the scale: labels that lie nearer would run together

/**
 * The ends of the scale: all values, intervals and chance lie on it.
 * @param {{value: number, low: number | null, high: number | null}[]} places
 * @param {number | null} chance
 * @returns {[number, number]}
 */
export function endsOf(places, chance) {
  const all = places.flatMap(({ value, low, high }) => [low ?? value, high ?? value, value]);
  if (chance !== null) all.push(chance);
  return [Math.min(...all), Math.max(...all)];
}

/**
 * The place of a value on the scale, as a share of its length; the middle where all values are equal.
 * @param {number} value
 * @param {[number, number]} ends
 * @returns {number}
 */
export const placeOn = (value, [from, to]) =>
  to > from ? MARGIN + ((1 - 2 * MARGIN) * (value - from)) / (to - from) : 0.5;

/**
 * The methods in their groups, each with its heading; empty groups are left out.
 * @param {{places: PlacedMethod[], random: number | null}} ranking
 * @returns {[string, PlacedMethod[]][]}
 */
export function groupsOf({ places, random }) {
  /** @param {string} group */
  const of = (group) => places.filter((place) => place.group === group);
  const [first, behind] = [of("first"), of("behind")];
  const them = first.length === 1 ? "it" : "them";
  const behindThem = first.length ? `${behind.length} behind ${them}` : count(behind.length, "method");
  /** @type {[string, PlacedMethod[]][]} */
  const groups = [
    [first.length === 1 ? "First" : `${first.length} tie for first`, first],
    [random === null ? behindThem : `${behindThem}, better than chance`, behind],
    [`${of("chance").length} no better than chance`, of("chance")],
    [`${of("worse").length} worse than chance`, of("worse")],
  ];
  return groups.filter(([, members]) => members.length);
}

/**
 * Say which of the methods that tie for first no page recommends, as their maps depend on the other prompts; "" where
 * there is none.
 * @param {{group: string, comparing: boolean, title: string}[]} members
 * @returns {string}
 */
export function notRecommended(members) {
  const titles = members.filter(({ group, comparing }) => group === "first" && comparing).map(({ title }) => title);
  return titles.length ? `. Not recommended: ${titles.join("; ")}, as it depends on them` : "";
}

/**
 * The place of a label: centred on its line, but inside the plot near its ends.
 * @param {number} share
 */
const labelAt = (share) =>
  `${at(share)}; transform: translateX(${(-100 * Math.min(1, Math.max(0, 2 * share - 0.5))).toFixed(1)}%)`;

/** @param {number} share */
const at = (share) => `left: ${(100 * share).toFixed(2)}%`;

/**
 * @param {PlacedMethod} place
 * @param {RunSummary} ranking
 * @param {[number, number]} ends
 */
function row(place, { metric, random }, ends) {
  const { title, spec, readout, rank, of, value, low, high } = place;
  const unit = metric.unit === "share" ? "\u2009%" : "";
  const interval = low === null || high === null ? "" : `${shortly(low, metric.unit)} to ${shortly(high, metric.unit)}`;
  const [from, to] = [placeOn(low ?? value, ends), placeOn(high ?? value, ends)];
  const marks = [
    random === null ? null : el("span", { class: "chance-line", style: at(placeOn(random, ends)) }),
    interval ? el("span", { class: "range", style: `${at(from)}; width: ${(100 * (to - from)).toFixed(2)}%` }) : null,
    el("span", { class: "dot", style: at(placeOn(value, ends)) }),
  ];
  return el(
    "tr",
    { data: { spec }, title: `${title} (${spec}): ${rank} of ${of}` },
    el("th", { scope: "row" }, el("a", { href: variantPage(readout, spec) }, title)),
    el("td", { class: "track" }, marks),
    el("td", { class: "num" }, `${shortly(value, metric.unit)}${unit} `, el("span", { class: "quiet" }, interval)),
  );
}

/**
 * The scale in the head of the plot: its ends, and chance where it is not too near to one of them.
 * @param {RunSummary} ranking
 * @param {[number, number]} ends
 */
function scale({ metric, random }, ends) {
  const unit = metric.unit === "share" ? "\u2009%" : "";
  /** @param {number} value */
  const text = (value) => `${shortly(value, metric.unit)}${unit}`;
  const chance = random === null ? null : placeOn(random, ends);
  /** @param {number} share */
  const isFree = (share) => chance === null || Math.abs(share - chance) > NEAR;
  return el(
    "div",
    { class: "scale" },
    isFree(0) ? el("span", { class: "from" }, text(ends[0])) : null,
    chance === null
      ? null
      : el("span", { class: "of-chance", style: labelAt(chance) }, `chance: ${text(Number(random))}`),
    isFree(1) ? el("span", { class: "to" }, text(ends[1])) : null,
  );
}

/**
 * Draw the methods of a ranking, best first, each with its interval.
 * @param {RunSummary} ranking
 * @returns {HTMLElement}
 */
export function placesTable(ranking) {
  const { places, metric, random, level } = ranking;
  if (!places.length) return el("p", {}, "No method has a value.");
  const ends = endsOf(places, random);
  const hasIntervals = places.some(({ low, high }) => low !== null && high !== null);
  const values = hasIntervals ? `Value, ${100 * level}\u2009% interval` : "Value";
  const arrow = metric.direction ? ` ${ARROWS[/** @type {"higher" | "lower"} */ (metric.direction)]}` : "";
  const head = el(
    "tr",
    {},
    el("th", { scope: "col" }, `${metric.title}${arrow}`),
    el("td", {}, scale(ranking, ends)),
    el("th", { scope: "col", class: "num" }, values),
  );
  const bodies = groupsOf(ranking).map(([heading, members]) =>
    el(
      "tbody",
      { data: { group: members[0].group } },
      el("tr", { class: "group" }, el("th", { scope: "rowgroup", colSpan: 3 }, heading + notRecommended(members))),
      members.map((place) => row(place, ranking, ends)),
    ),
  );
  return el("table", { class: "places" }, el("thead", {}, head), bodies);
}
