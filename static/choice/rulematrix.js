// Every method with every rule: a row a method, a column a rule; where the pair makes no sense or the model cannot
// run it, the square is grey and says why. A method with options has fields for them, which make further methods.

import { el } from "../core/dom.js";
import { canBeRemedied, optionTexts, Registry } from "../core/registry.js";
import { ruleName } from "../core/rules.js";
import { byLine } from "../maps/caption.js";
import { MethodOptions } from "./methodoptions.js";

/** @import { Method, MethodPair, Rule } from "../core/schemas.js" */

const ALONE = "alone";
const HINT =
  "Rows are methods; columns are the rules by which the signal travels back. Point at a square, or use the arrow keys.";
/** @type {{[key: string]: number[]}} */
const STEPS = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };

/**
 * A column of the squares: what it is called, and the group of rules that it belongs to.
 * @typedef {{rule: string | null, name: string, group: string}} Column
 */

/**
 * The row of a method: the lines of its own that it has, and its options.
 * @typedef {{variants: HTMLElement, node: HTMLElement, settings: MethodOptions | null,
 *   open: (isOpen: boolean) => void}} Row
 */

/**
 * @param {Rule | null} rule
 * @returns {Column}
 */
const column = (rule) =>
  rule ? { rule: rule.name, name: rule.short, group: rule.group } : { rule: null, name: ALONE, group: "" };

/** The squares of all methods and rules. */
export class RuleMatrix {
  /**
   * `onTick(spec, on)` is told of every tick, `onAdd(spec)` of a method with options that is wanted.
   * @param {(spec: string, on: boolean) => void} onTick
   * @param {(spec: string) => void} onAdd
   */
  constructor(onTick, onAdd) {
    this.onAdd = onAdd;
    this.registry = new Registry();
    /** @type {Map<string, Row>} by the name of the method */
    this.rows = new Map();
    const tick = (/** @type {any} */ { target }) =>
      target.matches("input[value]") && onTick(target.value, target.checked);
    this.table = el("div", {
      class: "picker",
      on: {
        keydown: (event) => this.#walk(event),
        pointerover: (event) => this.#explain(event),
        focusin: (event) => this.#explain(event),
        change: tick,
      },
    });
    this.why = el("p", { class: "why", "aria-hidden": "true" }, HINT);
    this.node = el("div", {}, this.table, this.why);
  }

  /**
   * Render the squares of these methods.
   * @param {Registry} registry
   */
  setRegistry(registry) {
    this.registry = registry;
    const used = new Set(registry.methods.flatMap((method) => method.pairs.map((pair) => pair.rule)));
    const rules = [null, ...registry.rules].filter((rule) => used.has(rule?.name ?? null)).map(column);
    const columns = [...rules.filter(({ group }) => !group), ...rules.filter(({ group }) => group)];
    this.rows = new Map(registry.methods.map((method) => [method.name, this.#row(method, columns)]));
    this.table.style.setProperty("--columns", String(columns.length));
    this.table.replaceChildren(heads(columns), ...[...this.rows.values()].map((row) => row.node));
  }

  /**
   * Tick these, and no others.
   * @param {Set<string>} ticked
   */
  show(ticked) {
    for (const input of this.table.querySelectorAll("input"))
      if (input.matches(".cells [value], .own *")) input.checked = ticked.has(input.value);
  }

  /**
   * Add separate rows for methods with options.
   * @param {string[]} specs
   */
  add(specs) {
    for (const spec of specs) this.#addVariant(spec);
  }

  /**
   * Open the fields of a method, filled in as `spec` has them.
   * @param {string} spec
   */
  configure(spec) {
    const pair = this.registry.pairOf(spec);
    const row = pair && this.rows.get(pair.readout);
    if (!row?.settings) return;
    row.settings.set(spec, pair?.spec);
    row.open(true);
    row.node.scrollIntoView({ block: "center" });
    row.settings.focus();
  }

  /**
   * @param {Method} method
   * @param {Column[]} columns
   */
  #row(method, columns) {
    const id = `method-${method.name}`;
    const cells = columns.map((rule, i) =>
      cell(
        method.pairs.find((pair) => pair.rule === rule.rule),
        rule,
        columns[i - 1],
      ),
    );
    const name = el("span", { id, class: "name" }, method.title, method.slow && el("small", {}, " slow"));
    const variants = el("ul", { class: "own" });
    const hasOptions = method.options.length && method.pairs.some((pair) => !pair.reason || canBeRemedied(pair));
    const settings = hasOptions ? new MethodOptions(method, this.onAdd) : null;
    /** @param {boolean} isOpen */
    const open = (isOpen) => {
      if (settings) settings.node.hidden = !isOpen;
      toggle.setAttribute("aria-expanded", String(isOpen));
    };
    const toggle = settings
      ? el(
          "button",
          {
            type: "button",
            class: "more",
            "aria-expanded": "false",
            "aria-label": `Options of ${method.title}`,
            on: { click: () => open(Boolean(settings.node.hidden)) },
          },
          "options",
        )
      : el("span");
    const line = el("div", { class: "line" }, name, el("div", { class: "cells" }, cells), toggle);
    const node = el(
      "div",
      { class: "method-row", role: "group", "aria-labelledby": id, data: { readout: method.name } },
      line,
      variants,
      settings?.node,
    );
    return { variants, node, settings, open };
  }

  /**
   * Add a separate row for a method with options under its name.
   * @param {string} spec
   */
  #addVariant(spec) {
    const pair = this.registry.pairOf(spec);
    const row = pair && this.rows.get(pair.readout);
    if (!row || [...row.variants.querySelectorAll("input")].some((input) => input.value === spec)) return;
    const rule = pair.rule === null ? "" : `${ruleName(pair.rule)}, `;
    row.variants.append(
      el(
        "li",
        {},
        el("label", {}, el("input", { type: "checkbox", value: spec }), `${rule}${optionTexts(spec).join(", ")}`),
      ),
    );
  }

  /**
   * Explain the square under the pointer or the focus.
   * @param {any} event
   */
  #explain(event) {
    const square = event.target.closest(".cells label");
    if (!square) return;
    const pair = this.registry.pairs.get(square.dataset.spec);
    if (!pair) return;
    this.why.textContent =
      pair.reason ??
      [pair.title, byLine(pair).trim(), pair.passes + (pair.slow ? ", slow" : "")].filter(Boolean).join(" · ");
    this.why.classList.toggle("refused", Boolean(pair.reason));
  }

  /** @param {any} event */
  #walk(event) {
    const here = event.target.closest(".cells label");
    if (!here || !(event.key in STEPS)) return;
    event.preventDefault();
    const lines = [...this.table.querySelectorAll(".method-row .cells")];
    const line = lines.indexOf(here.parentNode);
    const place = [...here.parentNode.children].indexOf(here);
    const [down, right] = STEPS[event.key];
    for (let row = line + down, at = place + right; lines[row]?.children[at]; row += down, at += right) {
      const input = lines[row].children[at].querySelector("input");
      if (input) return void input.focus();
    }
  }
}

/**
 * Make the column headings; rules of a group stand under its name.
 * @param {Column[]} columns
 */
function heads(columns) {
  /** @param {Column} item */
  const head = ({ name, group }) => el("span", { class: group ? "part" : "" }, el("span", {}, name));
  const over = columns.flatMap(({ group }, i) => {
    if (!group || columns[i - 1]?.group === group) return [];
    const span = el("span", { class: "over" }, group);
    span.style.gridColumn = `${i + 1} / ${columns.findLastIndex((other) => other.group === group) + 2}`;
    return [span];
  });
  return el(
    "div",
    { class: "line heads", "aria-hidden": "true" },
    el("span"),
    el("div", { class: "cells" }, over, columns.map(head)),
    el("span"),
  );
}

/**
 * The square of a method and a rule; empty where the method needs a rule and there is none.
 * @param {MethodPair | undefined} pair
 * @param {Column} options
 * @param {Column} before
 */
function cell(pair, { rule, name, group }, before) {
  if (!pair) return el("span", { class: "none" });
  const over = group && el("span", { class: before?.group === group ? "hidden" : "" }, `${group} `);
  const text = el("span", {}, over, name);
  if (!pair.reason)
    return el("label", { data: { spec: pair.spec } }, el("input", { type: "checkbox", value: pair.spec }), text);
  const stay = { click: (/** @type {Event} */ event) => event.preventDefault() };
  const label = `${ruleName(rule)}: not possible. ${pair.reason}`;
  const input = el("input", { type: "checkbox", tabIndex: -1, "aria-disabled": "true", "aria-label": label, on: stay });
  return el("label", { class: "no", title: pair.reason, data: { spec: pair.spec } }, input, text);
}
