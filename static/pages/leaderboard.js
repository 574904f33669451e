// The Leaderboard page: for one task, which methods to trust, in three sentences, their maps and a plot.

import "./frame.js";
import { getJSON } from "../core/api.js";
import { byId, el } from "../core/dom.js";
import { showProblem } from "../core/problems.js";
import { Gallery } from "./gallery/gallery.js";
import { placesTable } from "./figures/places.js";
import { drawRanking } from "./figures/ranking.js";

/**
 * @import { Model, Rankings } from "../core/schemas.js"
 * @import { Kind } from "./gallery/gallery.js"
 */

/** What an address of the page held before figures had a page of their own. */
const MOVED = [
  "run",
  "sort",
  "order",
  "metric",
  "method",
  "x",
  "y",
  "table",
  "tmodel",
  "tdata",
  "tmetric",
  "tfamily",
  "trows",
];
const MOVED_PARTS = ["#measure", "#truth"];
const EMPTY =
  "No run ships with this installation. Measure one with vitrine evaluate, and start the server with --runs and its folder.";

/** Whether the address means what is now on the page of all figures. */
function isMoved() {
  const query = new URLSearchParams(location.search);
  return MOVED.some((name) => query.has(name)) || MOVED_PARTS.includes(location.hash);
}

async function begin() {
  const task = new URLSearchParams(location.search).get("task") ?? "image";
  for (const link of document.querySelectorAll(".tasks a"))
    if (/** @type {HTMLElement} */ (link).dataset.task === task) link.setAttribute("aria-current", "true");
  try {
    /** @type {[Rankings, {models: Model[]}, Gallery]} */
    const [{ rankings }, { models }, gallery] = await Promise.all([
      getJSON("/api/leaderboard/rankings"),
      getJSON("/api/models"),
      Gallery.load(),
    ]);
    const ranking = rankings[task];
    if (!ranking) byId("ranking").replaceChildren(el("p", {}, EMPTY));
    else drawRanking(byId("ranking"), /** @type {Kind} */ (task), ranking, { models, gallery }, placesTable(ranking));
  } catch (problem) {
    showProblem(byId("wrong"), problem);
  }
  byId("ranking").setAttribute("aria-busy", "false");
}

if (isMoved()) location.replace(`${location.pathname.replace(/\/$/, "")}/figures${location.search}${location.hash}`);
else void begin();
