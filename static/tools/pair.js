// A like molecule next to the one on show, by the same method: what changes where one group does (an activity cliff)?

import { createExplanation, explanationPath, getJSON } from "../core/api.js";
import { el, percent, refill } from "../core/dom.js";
import { ruleName } from "../core/rules.js";
import { SinglePlates } from "../plates/singleplates.js";

/**
 * @import { TextInput } from "../core/schemas.js"
 * @import { Explanation } from "../core/types.js"
 * @import { Finished, Report, Tool, WorkbenchView } from "../plates/types.js"
 * @import { Waiting } from "../progress/waiting.js"
 */

/**
 * @param {HTMLElement} root
 * @param {WorkbenchView} workbench
 * @param {Report} report
 * @param {Waiting} asking
 * @returns {Promise<Tool>}
 */
export async function open(root, workbench, report, asking) {
  return new Pair(root, workbench, report, asking, (await getJSON("/api/samples")).samples);
}

class Pair {
  #ticket = 0;

  /**
   * @param {HTMLElement} root
   * @param {WorkbenchView} workbench
   * @param {Report} report
   * @param {Waiting} asking
   * @param {{text?: string, pair?: string}[]} samples
   */
  constructor(root, workbench, report, asking, samples) {
    this.workbench = workbench;
    this.report = report;
    this.asking = asking;
    this.samples = samples;
    this.subject = /** @type {Finished} */ (/** @type {unknown} */ (null)); // until the first is shown
    this.plates = new SinglePlates(workbench);
    this.field = el("input", {
      type: "text",
      id: "pair-smiles",
      spellcheck: false,
      placeholder: "SMILES of another molecule",
    });
    this.method = el("select", { id: "pair-method", "aria-label": "Method", on: { change: () => this.#ask() } });
    this.says = el("p", { role: "status" });
    this.two = el("div", { class: "pair-two" });
    const form = el(
      "form",
      {
        class: "pair-form",
        on: {
          submit: (/** @type {Event} */ event) =>
            (event.preventDefault(), this.#ask()),
        },
      },
      el("label", { for: "pair-smiles" }, "Compare the molecule on show with"),
      this.field,
      this.method,
      el("button", { type: "submit", class: "act plain" }, "Compare"),
    );
    root.append(el("div", { class: "pair-columns" }, form, this.says, this.two));
  }

  /** @param {Finished} subject */
  async show(subject) {
    const isOther = this.subject?.info.input !== subject.info.input;
    this.subject = subject;
    const { text } = /** @type {TextInput} */ (subject.info.input);
    const options = this.workbench.plateSet.all.map(({ variant: { spec, title, rule } }) => [
      spec,
      rule ? `${title}, ${ruleName(rule)}` : title,
    ]);
    refill(this.method, options);
    if (isOther) this.field.value = this.samples.find((sample) => sample.text === text)?.pair ?? "";
    this.two.replaceChildren();
    this.says.textContent = this.field.value ? "" : "Name another molecule, best one that differs in a single group.";
    if (this.field.value) await this.#ask();
  }

  async #ask() {
    const ticket = ++this.#ticket;
    const { info, model } = this.subject;
    const spec = this.method.value;
    const label = info.targets[0].label;
    this.report(null);
    if (!this.field.value.trim() || !spec) return;
    this.says.textContent = "The model is asked…";
    try {
      const fields = { model, text: this.field.value.trim(), target: [label], methods: [spec] };
      const { id } = await createExplanation(fields, undefined, true);
      /** @type {Explanation} */
      const other = await getJSON(explanationPath(id));
      if (ticket === this.#ticket) this.#render(spec, label, other);
    } catch (problem) {
      if (ticket !== this.#ticket) return;
      this.says.textContent = "";
      this.report(problem);
    }
  }

  /**
   * Show the two molecules and the model's answer about each.
   * @param {string} spec
   * @param {string} label
   * @param {Explanation} other
   */
  #render(spec, label, other) {
    const plate = this.workbench.plateSet.all.find(({ variant }) => variant.spec === spec);
    if (!plate?.map) return;
    const read = /** @type {TextInput} */ (other.input);
    const here = this.subject.info.targets[0];
    const [there] = other.targets;
    /** @param {number | undefined | null} share */
    const said = (share) => `${label} ${share === undefined || share === null ? "" : percent(share)}`;
    const first = this.plates.make(plate.variant, said(here.probability));
    const second = this.plates.make(plate.variant, said(there.probability));
    const map = other.maps.find(({ method }) => method === spec);
    this.plates.show([
      [first, plate.map],
      [second, map],
    ]);
    /** @type {any} */ (second).setBase({ text: read.text ?? "", units: read.words, molecule: read.molecule });
    this.plates.colour();
    const [one, two] = [here, there].map(({ probability }) => said(probability));
    this.says.textContent = `The molecule on show: ${one}. The other: ${two}.`;
    this.two.replaceChildren(first.node, second.node);
  }
}
