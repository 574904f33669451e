// The choice of a run on the page of all figures: by name and date, narrowed by a search.

import { byId, count, el } from "../../core/dom.js";
import { dateInWords } from "./values.js";

/** @import { Model, RunReport } from "../../core/schemas.js" */

const FEW = 5; // runs of fewer inputs are trials: nobody is ranked by them

/**
 * The name of a run: model, data set, inputs, what sets it apart, and its day.
 * @param {RunReport} run
 * @param {string} model its title
 * @returns {string}
 */
export function nameOf(run, model) {
  const way = run.plan.how ? `, tokens ${run.plan.how}` : "";
  const apart = run.shipped ? `, ${count(run.methods.length, "method")}${way}` : ` (${run.id})`;
  const day = run.date ? `, ${dateInWords(run.date)}` : "";
  return `${model} on ${run.dataset.title}, ${count(run.inputs, "input")}${apart}${day}`;
}

/**
 * Return whether all words of a search stand in the name, the id or the date of a run.
 * @param {string} search
 * @param {string[]} texts
 * @returns {boolean}
 */
export const isFound = (search, texts) => {
  const text = texts.join(" ").toLowerCase();
  return search
    .toLowerCase()
    .split(/\s+/)
    .every((word) => text.includes(word));
};

/** The list of runs with its search. */
export class RunChoice {
  /**
   * @param {RunReport[]} runs
   * @param {Model[]} models
   * @param {(run: RunReport) => void} onRun called with the run that is chosen
   */
  constructor(runs, models, onRun) {
    this.runs = runs;
    this.onRun = onRun;
    /** @param {RunReport} run */
    const titleOf = ({ plan, shipped }) =>
      models.find(({ name }) => name === plan.model)?.title ?? `${plan.model}${shipped ? " (test model)" : ""}`;
    this.names = new Map(runs.map((run) => [run, nameOf(run, titleOf(run))]));
  }

  /**
   * @param {HTMLElement} place
   * @param {RunReport} chosen
   */
  draw(place, chosen) {
    this.chosen = chosen;
    const change = (/** @type {any} */ { target }) => this.#choose(target.value);
    const select = el("select", { id: "run", on: { change } });
    const found = el("span", { class: "quiet", role: "status" });
    const search = el("input", { type: "search", id: "find-run", placeholder: "name or date, as 27 nov" });
    const narrow = () => {
      const left = this.runs.filter((run) =>
        isFound(search.value, [this.names.get(run) ?? "", run.id, run.date ?? ""]),
      );
      select.replaceChildren(...this.#options(left));
      found.textContent = left.length < this.runs.length ? `${left.length} of ${count(this.runs.length, "run")}` : "";
      const shown = left.includes(/** @type {RunReport} */ (this.chosen)) ? this.chosen : left[0];
      if (shown && shown !== this.chosen) this.#choose(shown.id);
    };
    search.addEventListener("input", narrow);
    narrow();
    place.replaceChildren(el("label", {}, "Run ", select), el("label", {}, "Find ", search), found);
  }

  /** @param {string} id */
  #choose(id) {
    const run = this.runs.find((candidate) => candidate.id === id);
    if (!run) return;
    this.chosen = run;
    byId("run").value = id;
    this.onRun(run);
  }

  /** @param {RunReport[]} runs */
  #options(runs) {
    /** @type {[string, RunReport[]][]} */
    const parts = [
      ["Measured here", runs.filter((run) => run.begun_here)],
      ["Runs", runs.filter((run) => !run.begun_here && run.inputs >= FEW)],
      ["Trials on too few inputs to rank methods", runs.filter((run) => !run.begun_here && run.inputs < FEW)],
    ];
    return parts
      .filter(([, members]) => members.length)
      .map(([label, members]) =>
        el(
          "optgroup",
          { label },
          members.map((run) => el("option", { value: run.id, selected: run === this.chosen }, this.names.get(run))),
        ),
      );
  }
}
