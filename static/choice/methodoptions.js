// The options of a method as fields, made from their declaration: type, bounds, choices, default and help.

import { el } from "../core/dom.js";
import { canBeRemedied, learnSpecs, optionsOf } from "../core/registry.js";
import { ruleName } from "../core/rules.js";

/** @import { Method, MethodOption } from "../core/schemas.js" */

/** @param {string} text */
const sentence = (text) => `${text[0].toUpperCase()}${text.slice(1)}.`;

/**
 * One option. `text()` is its value as a spec spells it, null where it is the default; `problem()` says what is
 * allowed, or null.
 */
class Field {
  /**
   * @param {MethodOption} option
   * @param {string} id
   */
  constructor(option, id) {
    this.option = option;
    const { name, kind, choices, minimum, maximum, default: usual, help, allowed } = option;
    const about = { id, "aria-describedby": `${id}-help ${id}-wrong`, on: { input: () => this.check() } };
    if (kind === "bool") this.input = el("input", { type: "checkbox", ...about });
    else if (choices.length)
      this.input = el(
        "select",
        about,
        choices.map((choice) => el("option", { value: choice }, choice)),
      );
    else if (kind === "str") this.input = el("input", { type: "text", ...about });
    else {
      this.input = el("input", {
        type: "number",
        step: kind === "int" ? "1" : "any",
        placeholder: usual === null ? "" : String(usual),
        ...about,
      });
      if (minimum !== null) this.input.min = String(minimum);
      if (maximum !== null) this.input.max = String(maximum);
    }
    const unless =
      kind === "bool" || choices.length ? "" : usual === null ? "; may be left empty" : `; ${usual} if left empty`;
    this.wrong = el("small", { class: "wrong", id: `${id}-wrong`, role: "alert" });
    const note = el("small", { id: `${id}-help` }, `${sentence(help)} ${sentence(allowed + unless)}`);
    this.node = el("div", { class: `field ${kind}` }, el("label", { for: id }, name), this.input, note, this.wrong);
    this.set(null);
  }

  /** The box of an option that is on or off; null for the others. */
  get #box() {
    return this.input instanceof HTMLInputElement && this.input.type === "checkbox" ? this.input : null;
  }

  /**
   * Show a value as a spec spells it; null is the default.
   * @param {string | null} text
   */
  set(text) {
    const { choices, default: usual } = this.option;
    if (this.#box) this.#box.checked = text === null ? Boolean(usual) : text === "true" || text === "1";
    else this.input.value = text ?? (choices.length ? String(usual) : "");
    this.check();
  }

  text() {
    const { default: usual } = this.option;
    const value = this.#box ? String(this.#box.checked) : this.input.value.trim();
    return value === "" || value === String(usual) ? null : value;
  }

  problem() {
    return this.input.validity.valid ? null : `${this.option.name} must be ${this.option.allowed}.`;
  }

  check() {
    const problem = this.problem();
    this.input.setAttribute("aria-invalid", String(problem !== null));
    if (this.wrong.textContent !== (problem ?? "")) this.wrong.textContent = problem ?? "";
    return problem === null;
  }
}

/** The fields of one method; `onShow(spec)` is told the spec that they spell. */
export class MethodOptions {
  /**
   * @param {Method} method
   * @param {(spec: string) => void} onShow
   */
  constructor(method, onShow) {
    const id = `options-${method.name}`;
    const pairs = method.pairs.filter((pair) => !pair.reason || canBeRemedied(pair));
    // what it cannot run without
    this.remedy = new URLSearchParams(pairs.some((pair) => !pair.reason) ? "" : (pairs[0]?.remedies[0] ?? ""));
    const choose = pairs.map((pair) => el("option", { value: pair.spec }, ruleName(pair.rule)));
    this.rule = el("select", { id: `${id}-rule` }, choose);
    this.fields = method.options.map((option) => new Field(option, `${id}-${option.name}`));
    this.spelt = el("code");
    const rule =
      pairs.length > 1 ? el("div", { class: "field" }, el("label", { for: `${id}-rule` }, "rule"), this.rule) : null;
    const show = el("button", { type: "button", class: "act", on: { click: () => this.#show(onShow) } }, "Show it too");
    this.node = el(
      "div",
      { class: "settings", role: "group", "aria-label": `Options of ${method.title}`, hidden: true },
      rule,
      this.fields.map((field) => field.node),
      el("div", { class: "row" }, show, this.spelt),
    );
    this.node.addEventListener("input", () => this.#spell());
    this.node.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || !(event.target instanceof HTMLInputElement)) return;
      event.preventDefault(); // the form around it would show what is ticked
      this.#show(onShow);
    });
    this.set(this.rule.value);
  }

  /**
   * Fill the fields in as a spec has them, which is of the method with this rule (`pair`).
   * @param {string} spec
   * @param {string} [pair]
   */
  set(spec, pair = spec) {
    this.rule.value = pair;
    const specOptions = Object.fromEntries(optionsOf(spec));
    for (const field of this.fields) field.set(specOptions[field.option.name] ?? this.remedy.get(field.option.name));
    this.#spell();
  }

  /**
   * The spec as the fields spell it.
   * @returns {string}
   */
  get spec() {
    const query = this.#filled.map(([name, text]) => `${name}=${encodeURIComponent(text)}`).join("&");
    return this.rule.value + (query && `?${query}`);
  }

  /** The options that are not as usual, [name, value] each. */
  get #filled() {
    return this.fields.flatMap((field) => {
      const text = field.text();
      return text === null ? [] : [[field.option.name, text]];
    });
  }

  /** Give the first field the focus. */
  focus() {
    this.fields[0]?.input.focus();
  }

  #spell() {
    this.spelt.textContent = this.fields.every((field) => field.problem() === null) ? this.spec : "";
  }

  /** @param {(spec: string) => void} onShow */
  #show(onShow) {
    const wrong = this.fields.filter((field) => !field.check());
    if (wrong.length) return wrong[0].input.focus();
    const { spec } = this;
    learnSpecs([{ spec, pair: this.rule.value, options: Object.fromEntries(this.#filled) }]);
    onShow(spec);
  }
}
