// On the Leaderboard page: the form of a run on this server.
// What a model or a data set does not allow, the server says.

import { getJSON, sendJSON } from "../../core/api.js";
import { byId, count, el, whole } from "../../core/dom.js";
import { showProblem } from "../../core/problems.js";
import { OptionFields } from "./options.js";
import { RunList } from "./runlist.js";
import { duration } from "../figures/values.js";
import { SentFile } from "./sentfile.js";

/** @import { MeasurableDataset, MeasurableMetric, MeasurableModel, ProtocolForm, RunChoices, Runs, RunTime } from "../../core/schemas.js" */

const CHECKED = ["mif", "lif", "srg", "ap", "pointing"];
const INPUTS = 20;
const SENT = "your own file"; // values of selects that are no names
const THESE = "these methods";

/**
 * @param {string} label
 * @param {HTMLElement} control
 */
export function field(label, control) {
  const name = /** @type {any} */ (control).name;
  control.id = `wanted-${name}`;
  return el("div", { class: "field" }, el("label", { for: control.id }, label), control);
}

/** @param {string[]} needs of a metric */
const inNeed = (needs) => (needs.length ? `needs ${needs.join(" and ")}` : "");

/**
 * The tick box of a metric with what it measures.
 * @param {MeasurableMetric} metric
 * @param {boolean} checked
 */
function boxOf({ name, title, line, needs }, checked) {
  const about = `about-${name}`;
  const box = el("input", { type: "checkbox", name: "metrics", value: name, checked, "aria-describedby": about });
  return el(
    "div",
    { class: "metric" },
    el("label", { title: inNeed(needs) }, box, ` ${title}`),
    el("span", { class: "quiet", id: about }, line),
  );
}

/**
 * How long a run will take, in words.
 * @param {RunTime} time
 * @param {number} inputs
 * @returns {string}
 */
export function timeInWords({ seconds, methods }, inputs) {
  const size = `${count(inputs, "input")} by ${count(methods, "method")}`;
  if (seconds === null)
    return `${size}. How long it takes is known once the first input is measured: no earlier run of this model says.`;
  return `${size}: ${duration(seconds)}, judged by earlier runs of this model. This machine may be faster or slower.`;
}

/** A run that measures methods on a data set, from the page. */
export class Measuring {
  /**
   * `onDone(id)` is called once a run that was watched has ended whole, and with null where one is gone.
   * @param {(id: string | null) => void} onDone
   */
  constructor(onDone) {
    /** @type {Map<string, MeasurableModel>} */
    this.models = new Map();
    /** @type {RunChoices | null} */
    this.choices = null;
    this.turn = 0; // goes up with each question about choices: what an earlier one answers is dropped
    const offer = () => void this.#offerChoices();
    this.model = el("select", { name: "model", on: { change: () => this.#offerDatasets() } });
    this.dataset = el("select", { name: "dataset", on: { change: offer } });
    this.sent = new SentFile(offer);
    this.protocol = el("select", { name: "protocol", on: { change: () => this.#follow() } });
    this.notes = el("div", { class: "notes quiet" });
    this.methods = el("select", { name: "methods", on: { change: () => this.#showSpecs() } });
    this.specs = el("textarea", {
      name: "specs",
      rows: 3,
      spellcheck: false,
      placeholder: "rollout fullgrad_plus:libra",
    });
    this.specsField = field("Specs of these methods, separated by spaces", this.specs);
    this.specsField.classList.add("wide");
    this.limit = el("input", { name: "limit", type: "number", min: 2, required: true, value: INPUTS });
    this.metrics = el("fieldset", { class: "boxes" });
    this.options = new OptionFields();
    this.time = el("p", { class: "wide time", "aria-live": "polite" });
    this.asked = 0; // goes up with each question about the time
    this.begin = el("button", { type: "submit", class: "act" }, "Begin the run");
    this.runs = new RunList(byId("run-list"), onDone);
  }

  /**
   * Fill the section; it stays hidden where the server cannot be asked, or measures nothing for whoever asks.
   * @returns {Promise<void>}
   */
  async show() {
    /** @type {Runs} */
    const { models, sets, most, most_mb: mostMb, runs } = await getJSON("/api/runs");
    if (!models.length) return; // who asks may not measure here
    this.models = new Map(models.map((model) => [model.name, model]));
    this.model.append(...models.map(({ name, title }) => el("option", { value: name }, title)));
    this.methods.append(
      ...sets.map(({ name, title, says }) => el("option", { value: name, title: says }, title)),
      el("option", { value: THESE }, "These methods:"),
    );
    this.limit.max = String(most);
    this.sent.limits(most, mostMb);
    byId("most").textContent = most;
    const form = byId("wanted");
    form.append(
      field("Model", this.model),
      field("Data set", this.dataset),
      this.sent.place,
      field("As in", this.protocol),
      field("Methods", this.methods),
      field("Inputs", this.limit),
      this.specsField,
      this.notes,
      this.metrics,
      this.options.place,
      this.time,
      this.begin,
    );
    form.addEventListener("change", () => void this.#showTime());
    form.addEventListener("submit", (/** @type {Event} */ event) => {
      event.preventDefault();
      void this.#submit();
    });
    this.#showSpecs();
    this.#offerDatasets();
    byId("measure").hidden = false;
    this.runs.show(runs);
  }

  /** The data set that is chosen; empty where a file of one's own is, and none was sent yet. */
  get #datasetName() {
    return this.dataset.value === SENT ? (this.sent.about?.name ?? "") : this.dataset.value;
  }

  /** @returns {MeasurableDataset | undefined} */
  get #about() {
    if (this.dataset.value === SENT) return this.sent.about ?? undefined;
    return this.models.get(this.model.value)?.datasets.find(({ name }) => name === this.dataset.value);
  }

  #offerDatasets() {
    const datasets = this.models.get(this.model.value)?.datasets ?? [];
    const wanted = this.dataset.value;
    const options = datasets.map(({ name, title, inputs, reason }) => {
      const text = reason ? `${title} (${reason})` : `${title}, ${whole(inputs)} inputs`;
      return el("option", { value: name, disabled: Boolean(reason) }, text);
    });
    const own = el("option", { value: SENT }, "A file of yours ...");
    this.dataset.replaceChildren(...options, own);
    const kept = [...options, own].find((option) => option.value === wanted && !option.disabled);
    this.dataset.value = (kept ?? options.find((option) => !option.disabled) ?? own).value;
    void this.#offerChoices();
  }

  async #offerChoices() {
    const mine = ++this.turn;
    this.sent.place.hidden = this.dataset.value !== SENT;
    this.choices = null;
    if (this.#datasetName) {
      const address = `/api/runs/choices?model=${encodeURIComponent(this.model.value)}&dataset=${encodeURIComponent(this.#datasetName)}`;
      try {
        const choices = await getJSON(address);
        if (mine !== this.turn) return;
        this.choices = choices;
        showProblem(byId("run-wrong"), null);
      } catch (problem) {
        if (mine === this.turn) showProblem(byId("run-wrong"), problem);
      }
    }
    if (mine !== this.turn) return;
    this.begin.disabled = !this.choices;
    const chosen = this.protocol.value;
    this.protocol.replaceChildren(
      el("option", { value: "" }, "no protocol; use the choices below"),
      ...(this.choices?.protocols ?? []).map(({ name, title }) => el("option", { value: name }, title)),
    );
    if (this.choices?.protocols.some(({ name }) => name === chosen)) this.protocol.value = chosen;
    this.#offerMetrics(CHECKED);
    this.options.offer(this.choices?.options ?? {}, this.#about?.shipped ?? false);
    this.#follow();
    void this.#showTime();
  }

  /** @param {string[]} checked */
  #offerMetrics(checked) {
    const metrics = this.choices?.metrics ?? [];
    const boxes = metrics.filter(({ reason }) => !reason).map((metric) => boxOf(metric, checked.includes(metric.name)));
    const [ticked, rest] = [true, false].map((isTicked) =>
      boxes.filter((box) => box.querySelector("input")?.checked === isTicked),
    );
    const others = metrics.filter(({ reason }) => reason);
    const refused = others.map(({ title, needs, reason }) => el("li", {}, `${title} ${inNeed(needs)}: ${reason}`));
    const summary = `${count(others.length, "other metric")} that cannot be used, and why`;
    this.metrics.replaceChildren(
      el("legend", {}, "Metrics"),
      ...ticked,
      ...(rest.length
        ? [
            el(
              "details",
              {},
              el("summary", {}, count(rest.length, "more metric")),
              el("div", { class: "more-metrics" }, rest),
            ),
          ]
        : []),
      ...(refused.length ? [el("details", {}, el("summary", {}, summary), el("ul", {}, refused))] : []),
    );
    this.metrics.hidden = !metrics.length;
  }

  #showSpecs() {
    this.specsField.hidden = this.methods.value !== THESE;
    this.specs.required = this.methods.value === THESE;
  }

  /** Fill the fields as the chosen protocol has them; they may be changed then. */
  #follow() {
    /** @type {ProtocolForm | undefined} */
    const form = this.choices?.protocols.find(({ name }) => name === this.protocol.value);
    this.notes.replaceChildren();
    if (!form) return;
    this.methods.value = THESE;
    this.specs.value = form.methods.join(" ");
    this.#showSpecs();
    this.limit.value = String(Math.max(2, form.limit));
    this.#offerMetrics(form.metrics);
    this.options.fill(form.options);
    this.notes.append(
      ...form.left_out.map((line) => el("p", {}, `Left out. ${line}`)),
      ...form.notes.map((line) => el("p", {}, line)),
    );
  }

  /** Say how long the run will take, before it begins. */
  async #showTime() {
    const mine = ++this.asked;
    const wanted = this.#wanted;
    const isWhole = this.choices && wanted.methods.length && wanted.metrics.length && wanted.limit >= 2;
    if (!isWhole) return void (this.time.textContent = "");
    try {
      const time = await sendJSON("/api/runs/time", wanted);
      if (mine === this.asked) this.time.textContent = timeInWords(time, wanted.limit);
    } catch {
      if (mine === this.asked) this.time.textContent = ""; // what is wrong with the request is said when it is sent
    }
  }

  /** The run that the form asks for. */
  get #wanted() {
    const boxes = [...this.metrics.querySelectorAll("input")];
    const specs = this.specs.value.split(/\s+/).filter(Boolean);
    return {
      model: this.model.value,
      dataset: this.#datasetName,
      methods: this.methods.value === THESE ? specs : [this.methods.value],
      metrics: boxes.flatMap(({ checked, value }) => (checked ? value : [])),
      limit: Number(this.limit.value),
      ...this.options.values,
    };
  }

  async #submit() {
    const isEmpty = !this.#wanted.metrics.length;
    showProblem(byId("run-wrong"), isEmpty ? { title: "No metric is ticked", detail: "Tick one or more." } : null);
    if (isEmpty) return;
    this.begin.disabled = true;
    try {
      this.runs.add(await this.#beginRun());
    } catch (problem) {
      showProblem(byId("run-wrong"), problem);
    }
    this.begin.disabled = false;
  }

  /** Start the run; a file that the server has dropped after an earlier run is sent again. */
  async #beginRun() {
    try {
      return await sendJSON("/api/runs", this.#wanted);
    } catch (problem) {
      if (!problem.isOf?.("data-gone") || !(await this.sent.again())) throw problem;
      return sendJSON("/api/runs", this.#wanted);
    }
  }
}
