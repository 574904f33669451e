// On the Leaderboard page: begin a run on this server, watch it, stop it.

import { follow, getJSON, sendJSON, send } from "../core/api.js";
import { byId, count, el } from "../core/dom.js";
import { showProblem } from "../core/problems.js";

/** @import { MeasurableModel, Run, Runs } from "../core/schemas.js" */

const CHECKED = ["mif", "lif", "srg", "ap", "pointing"];
const INPUTS = 20;

/**
 * "about 3 minutes left": no more exact than it is known.
 * @param {number | null} seconds
 */
function left(seconds) {
  if (seconds === null) return "";
  if (seconds < 50) return ", less than a minute left";
  return `, about ${count(Math.round(seconds / 60) || 1, "minute")} left`;
}

/** @param {{name: string, title: string}} entry */
const option = ({ name, title }) => el("option", { value: name }, title);

/**
 * @param {string} label
 * @param {HTMLSelectElement | HTMLInputElement} control
 */
function field(label, control) {
  control.id = `wanted-${control.name}`;
  return el("div", { class: "field" }, el("label", { for: control.id }, label), control);
}

/** A run that measures methods on a data set, from the page. */
export class Measuring {
  /**
   * `onDone(id)` is called once a run that was watched has ended whole.
   * @param {(id: string) => void} onDone
   */
  constructor(onDone) {
    this.onDone = onDone;
    /** @type {Map<string, MeasurableModel>} */
    this.models = new Map();
    this.model = el("select", { name: "model", on: { change: () => this.#offerDatasets() } });
    this.dataset = el("select", { name: "dataset", on: { change: () => this.#offerMetrics() } });
    this.methods = el("select", { name: "methods" });
    this.limit = el("input", { name: "limit", type: "number", min: 2, required: true, value: INPUTS });
    this.metrics = el("fieldset", { class: "boxes" });
    this.begin = el("button", { type: "submit", class: "act" }, "Begin the run");
  }

  /**
   * Fill the section; it stays hidden where the server cannot be asked, or measures nothing for whoever asks.
   * @returns {Promise<void>}
   */
  async show() {
    /** @type {Runs} */
    const { models, sets, most, current } = await getJSON("/api/runs");
    if (!models.length) return; // who asks may not measure here
    this.models = new Map(models.map((model) => [model.name, model]));
    this.model.append(...models.map(option));
    this.methods.append(...sets.map(({ name, title, says }) => el("option", { value: name, title: says }, title)));
    this.limit.max = String(most);
    byId("most").textContent = most;
    const form = byId("wanted");
    form.append(
      field("Model", this.model),
      field("Data set", this.dataset),
      field("Methods", this.methods),
      field("Inputs", this.limit),
      this.metrics,
      this.begin,
    );
    form.addEventListener("submit", (/** @type {Event} */ event) => {
      event.preventDefault();
      void this.#submit();
    });
    this.#offerDatasets();
    byId("measure").hidden = false;
    if (current?.state === "waiting" || current?.state === "running") this.#watch(current);
    else if (current) this.#draw(current);
  }

  /** Those that the chosen model can be measured on. */
  get #datasets() {
    return this.models.get(this.model.value)?.datasets ?? [];
  }

  #offerDatasets() {
    this.dataset.replaceChildren(...this.#datasets.map(option));
    this.#offerMetrics();
  }

  #offerMetrics() {
    const { metrics = [] } = this.#datasets.find(({ name }) => name === this.dataset.value) ?? {};
    const boxes = metrics.map(({ name, title }) => {
      const box = el("input", { type: "checkbox", name: "metrics", value: name, checked: CHECKED.includes(name) });
      return el("label", {}, box, ` ${title}`);
    });
    this.metrics.replaceChildren(el("legend", {}, "Metrics"), ...boxes);
  }

  async #submit() {
    const metrics = [...this.metrics.querySelectorAll("input")].flatMap(({ checked, value }) => (checked ? value : []));
    showProblem(
      byId("run-wrong"),
      metrics.length ? null : { title: "No metric is ticked", detail: "Tick one or more." },
    );
    if (!metrics.length) return;
    this.begin.disabled = true;
    const wanted = {
      model: this.model.value,
      dataset: this.dataset.value,
      methods: [this.methods.value],
      metrics,
      limit: Number(this.limit.value),
    };
    try {
      this.#watch(await sendJSON("/api/runs", wanted));
    } catch (problem) {
      this.begin.disabled = false;
      showProblem(byId("run-wrong"), problem);
    }
  }

  /** @param {Run} run */
  #watch(run) {
    this.begin.disabled = true;
    this.#draw(run);
    const ended = (/** @type {Run} */ last) => {
      this.begin.disabled = false;
      this.#draw(last);
      if (last.state === "done") this.onDone(last.id);
    };
    follow("/api/runs/current/events", { progress: (now) => this.#draw(now), ended }, ["ended"], (problem) => {
      showProblem(byId("run-wrong"), problem);
    });
  }

  /** @param {Run} run */
  #draw(run) {
    const place = byId("run-state");
    const of = `${run.model} on ${run.dataset}`;
    showProblem(byId("run-wrong"), run.problem ?? null);
    if (run.state === "failed") return void place.replaceChildren();
    if (run.state === "done")
      return void place.replaceChildren(
        el("p", { role: "status" }, `${of}: measured. Its figures are in the table above.`),
      );
    if (run.state === "stopped") {
      const kept = run.total ? ` after ${run.done} of ${run.total} inputs` : "";
      const text = `${of}: stopped${kept}. The same choice goes on from there.`;
      return void place.replaceChildren(el("p", { role: "status" }, text));
    }
    const waits = run.state === "waiting";
    const text = waits
      ? `${of}: waiting for its turn`
      : `${of}: ${run.done} of ${run.total} inputs${left(run.seconds_left)}`;
    if (!place.querySelector("progress")) {
      const stop = el("button", { type: "button", class: "act plain", on: { click: () => this.#stop(stop) } }, "Stop");
      place.replaceChildren(el("p", { role: "status" }), el("progress", { "aria-label": "Inputs measured" }), stop);
    }
    place.querySelector("p").textContent = text;
    const bar = place.querySelector("progress");
    if (waits) bar.removeAttribute("value");
    else Object.assign(bar, { max: run.total, value: run.done });
  }

  /** @param {HTMLButtonElement} button */
  async #stop(button) {
    button.disabled = true;
    try {
      await send("/api/runs/current", "DELETE");
    } catch (problem) {
      if (!problem.isOf("no-run")) showProblem(byId("run-wrong"), problem); // else it has ended meanwhile
    }
  }
}
