// Which methods hang on the wall: a row a read-out, a column a rule; where the pair makes no sense or the model cannot run it, the
// square is grey and says why. A read-out with options has fields for them, which make further methods.

import { el } from "./dom.js";
import { byLine, ruleName } from "./label.js";
import { bare, Registry } from "./registry.js";
import { Settings } from "./settings.js";

const ALONE = "alone";
const WITHOUT = "libra-";
const HINT = "A row is a read-out, a column the rule that its signal travels back by. Point at a square, or walk them with the arrow keys.";
const STEPS = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };

const columnName = (rule) => (rule === null ? ALONE : rule.startsWith(WITHOUT) ? rule.slice(WITHOUT.length) : ruleName(rule));

export class Chooser {
  /** `onChoose(specs)` is called with the chosen specs. */
  constructor(root, onChoose) {
    Object.assign(this, { onChoose, registry: new Registry(), chosen: [], rows: new Map() });
    this.summary = el("summary");
    this.table = el("div", { class: "picker", on: { keydown: (event) => this.#walk(event), pointerover: (event) => this.#explain(event), focusin: (event) => this.#explain(event) } });
    this.why = el("p", { class: "why", "aria-hidden": "true" }, HINT);
    this.warning = el("span", { class: "quiet", role: "status" });
    const only = (keep) => () => this.#tick((spec) => this.registry.runs(spec) && keep(this.registry.pairs.get(spec), spec));
    const button = (text, run) => el("button", { type: "button", class: "act plain", on: { click: run } }, text);
    const listed = (pair) => pair && (pair.rule === null || pair.rules.includes(pair.rule));
    const finish = el(
      "div", { class: "finish" }, el("button", { type: "submit", class: "act" }, "Show these"), button("The usual ones", only((_, spec) => this.registry.usual.includes(spec))),
      button("All but the slow", only((pair) => listed(pair) && !pair.dear)), this.warning,
    );
    const form = el("form", { noValidate: true, on: { submit: (event) => this.#submit(event) } }, this.table, this.why, finish);
    this.node = el("details", { class: "chooser" }, this.summary, form);
    root.append(this.node);
    this.#count();
  }

  setRegistry(registry) {
    this.registry = registry;
    const rules = [...new Set(registry.methods.flatMap((method) => method.pairs.map((pair) => pair.rule)))].sort((a, b) => order(a) - order(b));
    this.rows = new Map(registry.methods.map((method) => [method.name, this.#row(method, rules)]));
    this.table.style.setProperty("--columns", String(rules.length));
    this.table.replaceChildren(heads(rules), ...[...this.rows.values()].map((row) => row.node));
    this.setChosen(this.chosen);
  }

  setChosen(specs) {
    this.chosen = specs;
    for (const spec of specs) if (spec.includes("?")) this.#own(spec);
    this.#tick((spec) => specs.includes(spec));
    this.#count();
  }

  /** Open the fields of a method, filled in as `spec` has them. */
  configure(spec) {
    const row = this.rows.get(this.registry.pairs.get(bare(spec))?.readout);
    if (!row?.settings) return;
    this.node.open = true;
    row.settings.set(spec);
    row.open(true);
    row.node.scrollIntoView({ block: "center" });
    row.settings.focus();
  }

  #row(method, rules) {
    const id = `method-${method.name}`;
    const cells = rules.map((rule, i) => cell(method.pairs.find((pair) => pair.rule === rule), rule, rules[i - 1]));
    const name = el("span", { id, class: "name" }, method.title, method.dear && el("small", {}, " slow"));
    const row = { own: el("ul", { class: "own" }), settings: null };
    let toggle = null;
    if (method.options.length && method.pairs.some((pair) => !pair.reason)) {
      row.settings = new Settings(method, (spec) => this.#add(spec));
      row.open = (open) => {
        row.settings.node.hidden = !open;
        toggle.setAttribute("aria-expanded", String(open));
      };
      toggle = el("button", { type: "button", class: "more", "aria-expanded": "false", "aria-label": `Options of ${method.title}`, on: { click: () => row.open(row.settings.node.hidden) } }, "options");
    }
    const line = el("div", { class: "line" }, name, el("div", { class: "cells" }, cells), toggle ?? el("span"));
    row.node = el("div", { class: "readout", role: "group", "aria-labelledby": id, data: { readout: method.name } }, line, row.own, row.settings?.node);
    return row;
  }

  /** A method with options gets a line of its own under its read-out. */
  #own(spec) {
    const pair = this.registry.pairs.get(bare(spec));
    const row = this.rows.get(pair?.readout);
    if (!row || [...row.own.querySelectorAll("input")].some((input) => input.value === spec)) return;
    const rule = pair.rule === null ? "" : `${ruleName(pair.rule)}, `;
    row.own.append(el("li", {}, el("label", {}, el("input", { type: "checkbox", value: spec }), `${rule}${spec.slice(pair.spec.length + 1).replaceAll("&", ", ")}`)));
  }

  #add(spec) {
    const specs = [...new Set([...this.#ticked(), spec])];
    this.setChosen(specs);
    this.#choose(specs);
  }

  #ticked() {
    return [...this.table.querySelectorAll("input[value]:checked")].map((input) => input.value);
  }

  #tick(keep) {
    for (const input of this.table.querySelectorAll(".cells input[value], .own input")) input.checked = Boolean(keep(input.value));
  }

  #count() {
    const open = this.registry.size ? [el("b", {}, `${this.chosen.length} of ${this.registry.size}`), ` ${this.registry.size === 1 ? "method" : "methods"} on show; choose others`] : ["Methods"];
    this.summary.replaceChildren(...open);
  }

  /** Say what the square under the pointer or the focus stands for. */
  #explain(event) {
    const square = event.target.closest(".cells label");
    if (!square) return;
    const pair = this.registry.pairs.get(square.dataset.spec);
    this.why.textContent = pair.reason ?? [pair.title, byLine(pair).trim(), pair.passes + (pair.dear ? ", slow" : "")].filter(Boolean).join(" · ");
    this.why.classList.toggle("refused", Boolean(pair.reason));
  }

  #walk(event) {
    const here = event.target.closest(".cells label");
    if (!here || !(event.key in STEPS)) return;
    event.preventDefault();
    const lines = [...this.table.querySelectorAll(".readout .cells")];
    const line = lines.indexOf(here.parentNode);
    const place = [...here.parentNode.children].indexOf(here);
    const [down, right] = STEPS[event.key];
    for (let row = line + down, at = place + right; lines[row]?.children[at]; row += down, at += right) {
      const input = lines[row].children[at].querySelector("input");
      if (input) return void input.focus();
    }
  }

  #submit(event) {
    event.preventDefault();
    const specs = this.#ticked();
    this.warning.textContent = specs.length ? "" : "Tick at least one method.";
    if (specs.length) this.#choose(specs);
  }

  #choose(specs) {
    this.node.open = false;
    this.onChoose(specs);
  }
}

const KINDS = [null, "gradient", "libra", "conservative", "attnlrp", "deep_taylor", "lrp"];
/** Columns: without a rule, the rules of the registry, then Libra without one of its parts. */
const order = (rule) => (KINDS.includes(rule) ? KINDS.indexOf(rule) : KINDS.length);

function heads(rules) {
  const head = (rule) => el("span", { class: rule?.startsWith(WITHOUT) ? "part" : "" }, el("span", {}, columnName(rule)));
  const parts = rules.filter((rule) => rule?.startsWith(WITHOUT)).length;
  const over = el("span", { class: "over" }, "Libra without");
  over.style.gridColumn = `${rules.length - parts + 1} / -1`;
  return el("div", { class: "line heads", "aria-hidden": "true" }, el("span"), el("div", { class: "cells" }, parts ? over : null, rules.map(head)), el("span"));
}

/** The square of a read-out and a rule; empty where the read-out needs a rule and there is none. */
function cell(pair, rule, before) {
  if (!pair) return el("span", { class: "none" });
  const part = rule?.startsWith(WITHOUT);
  const name = el("span", {}, part && el("span", { class: before?.startsWith(WITHOUT) ? "hidden" : "" }, "Libra without "), columnName(rule));
  if (!pair.reason) return el("label", { data: { spec: pair.spec } }, el("input", { type: "checkbox", value: pair.spec }), name);
  const stay = { click: (event) => event.preventDefault() };
  const input = el("input", { type: "checkbox", tabIndex: -1, "aria-disabled": "true", "aria-label": `${ruleName(rule)}: not possible. ${pair.reason}`, on: stay });
  return el("label", { class: "no", title: pair.reason, data: { spec: pair.spec } }, input, name);
}
