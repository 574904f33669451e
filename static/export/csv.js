// Tables of numbers as CSV: the words of a text, the curves of the deletion test, a run of the leaderboard.

import { el } from "../core/dom.js";
import { save } from "./saving.js";

/**
 * @import { DeletionCurve, RunReport } from "../core/schemas.js"
 * @import { DeletionAnswer } from "../core/types.js"
 */

/**
 * Format rows of cells as CSV (RFC 4180): a cell with a comma, a quotation mark or a line break stands in quotation
 * marks. Numbers have all their digits; what is missing is empty.
 * @param {(string | number | null | undefined)[][]} rows
 * @returns {string}
 */
export const toCsv = (rows) =>
  rows
    .map((row) =>
      row
        .map((cell) => String(cell ?? ""))
        .map((text) => (/[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text))
        .join(","),
    )
    .map((line) => `${line}\r\n`)
    .join("");

/**
 * Make a button that saves `rows()` under the name that `name()` gives, without its ending; `report` shows why it
 * could not.
 * @param {() => (string | number | null | undefined)[][]} rows
 * @param {() => string | Promise<string>} name
 * @param {(problem: any) => void} report
 * @returns {HTMLButtonElement}
 */
export function csvButton(rows, name, report) {
  const press = async () => saveCsv(rows(), await name());
  return el("button", { type: "button", class: "act plain csv", on: { click: () => press().catch(report) } }, "CSV");
}

/**
 * Save rows as a file of this name, without its ending.
 * @param {(string | number | null | undefined)[][]} rows
 * @param {string} name
 */
export function saveCsv(rows, name) {
  // the mark tells spreadsheets that it is UTF-8
  save(new Blob(["\ufeff", toCsv(rows)], { type: "text/csv;charset=utf-8" }), `${name}.csv`);
}

/**
 * Convert the curves of the deletion test to rows: one for each method, order and point.
 * @param {DeletionAnswer} answer
 * @returns {(string | number)[][]}
 */
export function curveRows({ target, counts, tokens, curves, random, read }) {
  /** @param {Omit<DeletionCurve, "order"> & {order: string}} curve */
  const lines = ({ method, order, ...values }) =>
    counts.map((removed, i) => [target, method, order, removed, removed / tokens, values[read]?.[i] ?? ""]);
  return [
    ["target", "method", "first", "gone", "share_gone", read],
    ...[...curves, { ...random, method: "random", order: "random" }].flatMap(lines),
  ];
}

/**
 * Convert a run of the leaderboard to rows: one for each method and metric.
 * @param {RunReport} run
 * @returns {(string | number | null | undefined)[][]}
 */
export const runRows = ({ plan, methods, metrics, results }) => [
  ["model", "dataset", "method", "metric", "better", "value", "low", "high", "inputs", "tied_with_best"],
  ...methods.flatMap(({ spec }) =>
    metrics.map(({ name, direction }) => {
      const { value, low, high, inputs, tied } = results[name][spec];
      return [plan.model, plan.dataset, spec, name, direction, value, low, high, inputs, String(tied)];
    }),
  ),
];
