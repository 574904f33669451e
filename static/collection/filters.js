// What is shown of a collection: its filter and its order, which stand in the address of the page.

/** @import { Filters } from "./types.js" */

/** @type {Filters} */
export const ALL = {
  word: "",
  label: null,
  answer: null,
  right: null,
  flags: [],
  own: {},
  box: null,
  space: "inputs",
  order: "suspicion",
  descending: true,
};

/**
 * Parse the filters in the address of the page.
 * @param {URLSearchParams} query
 * @returns {Filters}
 */
export function readFilters(query) {
  const box = query.getAll("box").map(Number);
  const right = query.get("right");
  return {
    word: query.get("word") ?? "",
    label: query.get("label"),
    answer: query.get("answer"),
    right: right === "true" || right === "false" ? right === "true" : null,
    flags: query.getAll("flag"),
    own: Object.fromEntries(query.getAll("column").map((pair) => pair.split(/=(.*)/s, 2))),
    box: box.length === 4 && box.every(Number.isFinite) ? box : null,
    space: query.get("space") === "maps" ? "maps" : "inputs",
    order: query.get("order") ?? ALL.order,
    descending: query.get("descending") !== "false",
  };
}

/**
 * The filters as parameters of a query, without those that let everything through.
 * @param {Filters} filters
 * @param {boolean} withOrder
 * @returns {URLSearchParams}
 */
export function toQuery({ word, label, answer, right, flags, own, box, space, order, descending }, withOrder) {
  const query = new URLSearchParams();
  if (word.trim()) query.set("word", word);
  if (label !== null) query.set("label", label);
  if (answer !== null) query.set("answer", answer);
  if (right !== null) query.set("right", String(right));
  for (const flag of flags) query.append("flag", flag);
  for (const [name, value] of Object.entries(own)) query.append("column", `${name}=${value}`);
  for (const end of box ?? []) query.append("box", end.toPrecision(5));
  if (box || space !== ALL.space) query.set("space", space);
  if (withOrder && (order !== ALL.order || !descending)) {
    query.set("order", order);
    query.set("descending", String(descending));
  }
  return query;
}

/**
 * Return whether the filters let everything through.
 * @param {Filters} filters
 */
export const isAll = (filters) => !toQuery({ ...filters, space: ALL.space }, false).size;
