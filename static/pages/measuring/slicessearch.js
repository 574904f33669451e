// What rows of a collection have in common: the report, the button that begins a search for it, and the searches.

import { getJSON, sendJSON } from "../../core/api.js";
import { addressOf, byId } from "../../core/dom.js";
import { reportProblem, showProblem } from "../../core/problems.js";
import { RunList } from "./runlist.js";

/** @import { CollectionAbout } from "../../core/schemas.js" */

/** The searches of one collection. */
export class SlicesSearch {
  /** @param {string} id of the collection */
  constructor(id) {
    this.path = `/api/collections/${encodeURIComponent(id)}`;
    const none = "done, and no word or place was found that could be tested";
    const ways = { path: "/api/slices", look: "", did: "asked to test what was found", unit: "question", none };
    this.searches = new RunList(byId("searches"), (run) => void this.#ended(run), ways);
    byId("find-slices").addEventListener("click", () => void this.#begin());
  }

  /**
   * Show the report, the button, and the searches that were begun before.
   * @param {CollectionAbout} about
   */
  show(about) {
    this.searches.show(about.searches);
    this.#offer(about);
  }

  /** @param {CollectionAbout} about */
  #offer({ has_slices: hasSlices, has_labels: hasLabels, reason_against_slices: reason }) {
    const link = byId("slices");
    link.hidden = !hasSlices;
    if (hasSlices) link.setAttribute("href", addressOf(`${this.path}/slices`));
    byId("find-slices").hidden = reason !== null;
    byId("no-slicing").hidden = reason === null || !hasLabels;
    byId("no-slicing").textContent = reason;
  }

  async #begin() {
    const button = /** @type {HTMLButtonElement} */ (byId("find-slices"));
    button.disabled = true;
    showProblem(byId("slices-wrong"), null);
    try {
      this.searches.add(await sendJSON(`${this.path}/slices`, {}));
    } catch (problem) {
      showProblem(byId("slices-wrong"), problem);
    }
    button.disabled = false;
  }

  /** @param {string | null} run that is done; null: one was deleted */
  async #ended(run) {
    try {
      this.#offer(await getJSON(this.path));
      if (run !== null) byId("slices").focus();
    } catch (problem) {
      reportProblem(problem, byId("slices-wrong"));
    }
  }
}
