// How values of a run are printed.

import { number } from "../core/dom.js";

/** @import { RunMetric, TruthInWorld, TruthOfKind } from "../core/schemas.js" */

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
