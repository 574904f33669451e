// On the Leaderboard page: how a run measures, as fields that the server fills.

import { el } from "../../core/dom.js";

/** @import { RunOptions, RunOptionValue } from "../../core/schemas.js" */

/** @type {{[name: string]: string}} */
const LABELS = {
  target: "Explained class",
  explains: "Explained number",
  resize: "Pictures",
  how: "Tokens that are taken away",
  right: "Right",
  long_texts: "Texts longer than the model takes",
};
const STEPS = { min: 2, max: 100, value: 10 };

/** The fields of the options of a run, folded away. */
export class OptionFields {
  constructor() {
    /** @type {Map<string, HTMLSelectElement>} */
    this.selects = new Map();
    this.steps = el("input", { name: "steps", type: "number", required: true, ...STEPS });
    this.seed = el("input", { name: "seed", type: "number", required: true, min: 0, max: 2 ** 32 - 1, value: 0 });
    this.skip = el("input", { type: "checkbox", name: "skip_broken" });
    this.examples = el("input", { type: "checkbox", name: "examples" });
    this.fields = el("div", { class: "fields" });
    this.place = el("details", { class: "how" }, el("summary", {}, "How it is measured"), this.fields);
  }

  /**
   * Offer these values of each option, and keep what was chosen where it still can be.
   * @param {{[name: string]: RunOptionValue[]}} options
   * @param {boolean} isShipped whether the data set comes with Vitrine: its inputs may be shown
   */
  offer(options, isShipped) {
    const before = this.selects;
    this.selects = new Map();
    for (const [name, values] of Object.entries(options)) {
      const choices = values.map(({ value, title, reason }) =>
        el("option", { value: value ?? "", disabled: Boolean(reason) }, reason ? `${title} (${reason})` : title),
      );
      const select = el("select", { name, id: `wanted-${name}` }, choices);
      const kept = choices.find(({ value, disabled }) => !disabled && value === before.get(name)?.value);
      if (kept) select.value = kept.value;
      this.selects.set(name, select);
    }
    this.examples.checked = isShipped;
    const labelled = (/** @type {string} */ text, /** @type {HTMLElement & {name: string}} */ control) => {
      control.id = `wanted-${control.name}`;
      return el("div", { class: "field" }, el("label", { for: control.id }, text), control);
    };
    this.fields.replaceChildren(
      ...[...this.selects].map(([name, select]) => labelled(LABELS[name] ?? name, select)),
      labelled("Equal steps", this.steps),
      labelled("Seed", this.seed),
      el("label", { class: "tick" }, this.skip, " leave out inputs that cannot be read"),
      el("label", { class: "tick" }, this.examples, " show the best and worst inputs with the figures"),
    );
  }

  /**
   * Set the fields as a protocol has them. What cannot be chosen here stays as it is.
   * @param {RunOptions} options
   */
  fill(options) {
    const wanted = /** @type {{[name: string]: any}} */ (options);
    for (const [name, select] of this.selects) {
      const value = wanted[name] ?? "";
      if ([...select.options].some((option) => option.value === value && !option.disabled)) select.value = value;
    }
    this.steps.value = String(options.steps);
    this.place.open = true;
  }

  /** @returns {{[name: string]: any}} what a request says of them */
  get values() {
    const chosen = [...this.selects].map(([name, select]) => [name, select.value || null]);
    return {
      ...Object.fromEntries(chosen),
      steps: Number(this.steps.value),
      seed: Number(this.seed.value),
      skip_broken: this.skip.checked,
      examples: this.examples.checked,
    };
  }
}
