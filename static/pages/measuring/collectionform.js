// On the Collection page: the form that makes a collection of texts that are written there, of a file of one's own, or
// of a data set of the server.

import { sendJSON } from "../../core/api.js";
import { byId, el, whole } from "../../core/dom.js";
import { showProblem } from "../../core/problems.js";
import { acceptDrops } from "../../inputs/dropplace.js";
import { RunList } from "./runlist.js";
import { SentFile } from "./sentfile.js";
import { WrittenTexts } from "./writtentexts.js";

/** @import { CollectionList, MeasurableModel } from "../../core/schemas.js" */

const SENT = "a file of yours"; // values of options that are no names
const WRITTEN = "texts of yours";
const INPUTS = 200;

/** The form, and the list of what was begun. */
export class CollectionForm {
  /** @type {MeasurableModel[]} */
  #models = [];

  /**
   * `onOpen(id)` is called with a collection to show, and with null where one was deleted. `wanted` is the name of the
   * model that a link asks for: the form is open then.
   * @param {(id: string | null) => void} onOpen
   * @param {string | null} [wanted]
   */
  constructor(onOpen, wanted = null) {
    this.wanted = wanted;
    this.model = el("select", { name: "model", on: { change: () => this.#offer() } });
    this.dataset = el("select", { name: "dataset", on: { change: () => this.#show() } });
    this.sent = new SentFile(() => this.#show());
    this.written = new WrittenTexts(() => this.#show());
    this.limit = el("input", { name: "limit", type: "number", min: 1, required: true, value: INPUTS });
    this.labels = el("input", { type: "checkbox", checked: true });
    this.begin = el("button", { type: "submit", class: "act" }, "Make the table");
    const ways = { path: "/api/collections", look: "Open", did: "collected", unit: "input" };
    this.runs = new RunList(byId("run-list"), onOpen, ways);
  }

  /**
   * Fill the section; it stays hidden where whoever asks may make none.
   * @param {CollectionList} list
   */
  show({ collections, models, runs, most, most_mb: mostMb }) {
    this.runs.show(runs);
    if (!models.length && this.wanted !== null) {
      const send = "Ask whoever runs it, or make the table in a terminal with vitrine collect.";
      showProblem(byId("problem"), { title: "This server makes no tables for visitors", send });
    }
    if (!models.length) return;
    const place = /** @type {HTMLDetailsElement} */ (byId("make"));
    place.open = !collections.length || this.wanted !== null;
    this.#models = models;
    this.model.append(
      ...models.map(({ name, title }) => el("option", { value: name, selected: name === this.wanted }, title)),
    );
    this.limit.max = String(most);
    this.sent.limits(most, mostMb);
    this.written.limits(most);
    const field = (/** @type {string} */ title, /** @type {HTMLElement} */ control) =>
      el("label", { class: "field" }, el("span", {}, title), control);
    const form = byId("wanted");
    this.inputs = field("At most so many inputs", this.limit);
    this.judged = el(
      "label",
      { title: "They are compared whatever their case, underscores and hyphens: brain_coral is brain coral." },
      this.labels,
      " Labels are classes of the model (brain_coral is brain coral)",
    );
    form.append(
      field("Model", this.model),
      field("Data", this.dataset),
      this.inputs,
      this.judged,
      this.written.place,
      this.sent.place,
      this.begin,
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
    const chosen = this.dataset.value;
    const { kind, datasets = [] } = this.#models.find(({ name }) => name === this.model.value) ?? {};
    const isText = kind === "text";
    const choices = [
      ...(isText ? [{ name: WRITTEN, says: "Texts of yours, one a line" }] : []),
      { name: SENT, says: "A file of yours" },
      ...datasets
        .filter(({ reason }) => !reason)
        .map(({ name, title, inputs }) => ({ name, says: `${title}, ${whole(inputs)} inputs` })),
    ];
    this.dataset.replaceChildren(...choices.map(({ name, says }) => el("option", { value: name }, says)));
    this.dataset.value = choices.some(({ name }) => name === chosen) && chosen !== SENT ? chosen : choices[0].name;
    this.#show();
  }

  #show() {
    const [isSent, isWritten] = [SENT, WRITTEN].map((name) => this.dataset.value === name);
    this.sent.place.hidden = !isSent;
    this.written.place.hidden = !isWritten;
    byId("drop-here").hidden = isWritten;
    // all texts that are written are asked, and none has a label
    for (const field of [this.inputs, this.judged]) if (field) field.hidden = isWritten;
    this.begin.disabled = isSent ? !this.sent.about : isWritten && !this.written.isReady;
    this.begin.textContent = isWritten ? "Ask about these texts" : "Make the table";
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
    try {
      const isWritten = this.dataset.value === WRITTEN;
      const dataset = isWritten
        ? await this.written.send()
        : this.dataset.value === SENT
          ? (this.sent.about?.name ?? "")
          : this.dataset.value;
      const limit = isWritten ? this.written.texts.length : Number(this.limit.value);
      const wanted = {
        model: this.model.value,
        dataset,
        limit,
        labels: !isWritten && this.labels.checked,
        skip_broken: true,
      };
      this.runs.add(await sendJSON("/api/collections", wanted));
    } catch (problem) {
      showProblem(byId("run-wrong"), problem);
    }
    this.#show();
  }
}
