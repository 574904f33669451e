// Which methods hang on the wall: every variant of the registry, greyed with the reason where the model cannot run it.

import { el } from "./dom.js";
import { ruleName } from "./label.js";

export class Chooser {
  /** `onChoose(specs)` is called with the chosen specs, in the fixed order. */
  constructor(root, onChoose) {
    Object.assign(this, { onChoose, variants: [], chosen: [] });
    this.summary = el("summary");
    this.families = el("div", { class: "families" });
    this.warning = el("span", { class: "quiet", role: "status" });
    const only = (keep) => () => this.#tick((variant) => keep(variant) && !variant.reason);
    const button = (text, run) => el("button", { type: "button", class: "act plain", on: { click: run } }, text);
    const form = el(
      "form", { on: { submit: (event) => this.#submit(event) } }, this.families,
      el("div", { class: "finish" }, el("button", { type: "submit", class: "act" }, "Show these"), button("The usual ones", only((v) => v.default)), button("All but the slow", only((v) => !v.dear)), this.warning),
    );
    this.node = el("details", { class: "chooser" }, this.summary, form);
    root.append(this.node);
    this.#count();
  }

  setVariants(variants) {
    this.variants = variants;
    const families = groupBy(variants);
    this.families.replaceChildren(...[...families.values()].map((family) => this.#family(family)));
    this.setChosen(this.chosen);
  }

  setChosen(specs) {
    this.chosen = specs;
    this.#tick((variant) => specs.includes(variant.spec));
    this.#count();
  }

  #family(variants) {
    const one = (variant) => {
      const input = el("input", { type: "checkbox", value: variant.spec, disabled: Boolean(variant.reason) });
      const plain = variant.title === variants[0].title || variant.title.endsWith(`· ${ruleName(variant.rule)}`);
      const name = plain ? ruleName(variant.rule) : `${ruleName(variant.rule)}: ${variant.title}`;
      const remark = variant.reason ?? (variant.dear ? `slow: ${variant.passes ?? "many passes"}` : null);
      return el("label", { class: variant.reason ? "off" : "" }, input, el("span", {}, variant.rule ? name : variant.title, remark && el("small", {}, remark)));
    };
    return el("fieldset", {}, el("legend", {}, variants[0].title), variants.map(one));
  }

  #tick(keep) {
    const bySpec = new Map(this.variants.map((variant) => [variant.spec, variant]));
    for (const input of this.families.querySelectorAll("input")) input.checked = Boolean(keep(bySpec.get(input.value)));
  }

  #count() {
    const runnable = this.variants.filter((variant) => !variant.reason).length;
    const open = this.variants.length ? [el("b", {}, `${this.chosen.length} of ${runnable}`), " methods on show; choose others"] : ["Methods"];
    this.summary.replaceChildren(...open);
  }

  #submit(event) {
    event.preventDefault();
    const specs = [...this.families.querySelectorAll("input:checked")].map((input) => input.value);
    this.warning.textContent = specs.length ? "" : "Tick at least one method.";
    if (!specs.length) return;
    this.node.open = false;
    this.onChoose(specs);
  }
}

function groupBy(variants) {
  const groups = new Map();
  for (const variant of variants) groups.set(variant.readout, [...(groups.get(variant.readout) ?? []), variant]);
  return groups;
}
