// A kind of operator in the rule mixer, and what the rule does there.

import { el } from "../core/dom.js";

/** @import { OperatorKind, RuleChoice } from "../core/schemas.js" */

/** One kind of operator: its choices as radio buttons, and what the chosen one does. */
export class Row {
  /**
   * @param {OperatorKind} kind
   * @param {(value: string | boolean) => void} onChoose
   */
  constructor(kind, onChoose) {
    this.kind = kind;
    this.says = el("p", { class: "says" });
    /** @type {[RuleChoice, HTMLInputElement, HTMLLabelElement][]} */
    this.inputs = kind.choices.map((choice) => {
      const input = el("input", {
        type: "radio",
        name: `mix-${kind.name}`,
        value: String(choice.value),
        on: { change: () => onChoose(choice.value) },
      });
      return [choice, input, el("label", {}, input, choice.title)];
    });
    const legend = el("legend", {}, kind.title, el("small", {}, kind.covers));
    this.node = el(
      "fieldset",
      { class: "operator", data: { kind: kind.name } },
      legend,
      el(
        "span",
        { class: "choices" },
        this.inputs.map(([, , label]) => label),
      ),
      this.says,
    );
  }

  /**
   * @param {string | boolean} value
   * @param {string | boolean} start
   * @param {Map<string, string | null | undefined>} refused what a rule may carry -> why it cannot be read
   */
  show(value, start, refused) {
    for (const [choice, input, label] of this.inputs) {
      const why = choice.carries && refused.get(choice.carries);
      input.checked = choice.value === value;
      input.disabled = Boolean(why);
      label.title = why || choice.says;
      label.classList.toggle("start", choice.value === start);
    }
    this.node.classList.toggle("changed", value !== start);
    this.says.textContent = this.kind.choices.find((choice) => choice.value === value)?.says ?? "";
  }
}
