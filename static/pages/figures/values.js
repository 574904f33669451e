// How values of a run are printed.

import { count, number } from "../../core/dom.js";

/** @import { RunMetric, TruthInWorld, TruthOfKind } from "../../core/schemas.js" */

/** The sign next to the name of a metric: which end is better. */
export const ARROWS = { higher: "↑", lower: "↓" };

/**
 * Format a value: a share in per cent.
 * @param {number | null} value
 * @param {string} unit
 * @returns {string}
 */
export const shown = (value, unit) => (value === null ? "–" : unit === "share" ? number(100 * value) : number(value));

/**
 * Format a value for a plot: a share in per cent with one decimal.
 * @param {number} value
 * @param {string} unit
 * @returns {string}
 */
export const shortly = (value, unit) =>
  unit === "share"
    ? (100 * value)
        .toFixed(1)
        .replace(/^-(?=0\.0$)/, "")
        .replace("-", "\u2212")
    : number(value);

/**
 * The unit that follows a value of a metric.
 * @param {RunMetric} metric
 * @returns {string}
 */
export const unitOf = (metric) => (metric.unit === "share" ? " %" : "");

/**
 * Format an agreement with the truth, its interval, and the number of its methods where others have no value.
 * @param {TruthOfKind | TruthInWorld} agreement
 * @returns {string}
 */
export const truthInWords = ({ tau, low, high, methods, of }) =>
  `${tau.toFixed(2)} (${low.toFixed(2)} to ${high.toFixed(2)}${methods < of ? `; ${methods} of ${of} methods` : ""})`;

/**
 * The address of the page of a method, with the rule of a spec chosen.
 * @param {string} readout
 * @param {string} spec
 * @returns {string}
 */
export const variantPage = (readout, spec) =>
  `/methods/${readout}?${new URLSearchParams({ rule: spec.split("?")[0] })}`;

const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/**
 * Write a day: "2026-11-29" as "29 Nov 2026".
 * @param {string} date
 * @returns {string}
 */
export function dateInWords(date) {
  const [year, month, day] = date.slice(0, 10).split("-").map(Number);
  return `${day} ${MONTHS[month - 1]} ${year}`;
}

/**
 * A time, no more exact than it is known: "less than a minute", "about 3 minutes", "about 2 hours".
 * @param {number} seconds
 * @returns {string}
 */
export function duration(seconds) {
  if (seconds < 50) return "less than a minute";
  const minutes = Math.round(seconds / 60) || 1;
  return minutes < 100 ? `about ${count(minutes, "minute")}` : `about ${count(Math.round(minutes / 60), "hour")}`;
}
