// On the Collection page: the form that makes a collection of a file of one's own, or of a data set of the server.

import { sendJSON } from "../../core/api.js";
import { byId, el, whole } from "../../core/dom.js";
import { showProblem } from "../../core/problems.js";
import { acceptDrops } from "../../inputs/dropplace.js";
import { RunList } from "./runlist.js";
import { SentFile } from "./sentfile.js";

/** @import { CollectionList, MeasurableModel } from "../../core/schemas.js" */

const SENT = "a file of yours"; // value of an option that is no name
const INPUTS = 200;

/** The form, and the list of what was begun. */
export class CollectionForm {
  /** @type {MeasurableModel[]} */
  #models = [];

  /**
   * `onOpen(id)` is called with a collection to show, and with null where one was deleted.
   * @param {(id: string | null) => void} onOpen
   */
  constructor(onOpen) {
    this.model = el("select", { name: "model", on: { change: () => this.#offer() } });
    this.dataset = el("select", { name: "dataset", on: { change: () => this.#show() } });
    this.sent = new SentFile(() => this.#show());
    this.limit = el("input", { name: "limit", type: "number", min: 1, required: true, value: INPUTS });
    this.labels = el("input", { type: "checkbox", checked: true });
    this.begin = el("button", { type: "submit", class: "act" }, "Make the table");
    const ways = { path: "/api/collections", look: "Open", did: "collected" };
    this.runs = new RunList(byId("run-list"), onOpen, ways);
  }

  /**
   * Fill the section; it stays hidden where whoever asks may make none.
   * @param {CollectionList} list
   */
  show({ models, runs, most, most_mb: mostMb }) {
    this.runs.show(runs);
    if (!models.length) return;
    this.#models = models;
    this.model.append(...models.map(({ name, title }) => el("option", { value: name }, title)));
    this.limit.max = String(most);
    this.sent.limits(most, mostMb);
    const field = (/** @type {string} */ title, /** @type {HTMLElement} */ control) =>
      el("label", { class: "field" }, el("span", {}, title), control);
    const form = byId("wanted");
    form.append(
      field("Data", this.dataset),
      field("Model", this.model),
      field("Inputs", this.limit),
      el("label", {}, this.labels, " Labels are classes of the model"),
      this.begin,
      this.sent.place,
    );
    form.addEventListener("submit", (/** @type {Event} */ event) => {
      event.preventDefault();
      void this.#submit();
    });
    acceptDrops(byId("make"), ({ files }) => files.length && this.#drop(files));
    this.#offer();
    byId("make").hidden = false;
  }

  #offer() {
    const chosen = this.dataset.value || SENT;
    const datasets = this.#models.find(({ name }) => name === this.model.value)?.datasets ?? [];
    const suiting = datasets.filter(({ reason }) => !reason);
    this.dataset.replaceChildren(
      el("option", { value: SENT }, "A file of yours ..."),
      ...suiting.map(({ name, title, inputs }) => el("option", { value: name }, `${title}, ${whole(inputs)} inputs`)),
    );
    this.dataset.value = suiting.some(({ name }) => name === chosen) ? chosen : SENT;
    this.#show();
  }

  #show() {
    const isSent = this.dataset.value === SENT;
    this.sent.place.hidden = !isSent;
    this.begin.disabled = isSent && !this.sent.about;
  }

  /** @param {FileList} files */
  #drop(files) {
    this.dataset.value = SENT;
    this.sent.file.files = files;
    this.sent.file.dispatchEvent(new Event("change"));
  }

  async #submit() {
    showProblem(byId("run-wrong"), null);
    this.begin.disabled = true;
    const dataset = this.dataset.value === SENT ? (this.sent.about?.name ?? "") : this.dataset.value;
    try {
      const choices = { limit: Number(this.limit.value), labels: this.labels.checked, skip_broken: true };
      const wanted = { model: this.model.value, dataset, ...choices };
      this.runs.add(await sendJSON("/api/collections", wanted));
    } catch (problem) {
      showProblem(byId("run-wrong"), problem);
    }
    this.#show();
  }
}
