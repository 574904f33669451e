// The rule mixer: one method under a rule that is put together operator by operator, next to the known rule that it
// started from.

import { explanationPath, getJSON } from "../core/api.js";
import { labelled } from "../core/controls.js";
import { el, number, refill, signedNumber } from "../core/dom.js";
import { correlation } from "../core/stats.js";
import { contentOf, readFor } from "../plates/content.js";
import { SinglePlates } from "../plates/singleplates.js";

/**
 * @import { Method, Mix, OperatorKind, Rule, RuleChoice, Rules } from "../core/schemas.js"
 * @import { ScoreMap, Variant } from "../core/types.js"
 * @import { Plate } from "../plates/plate.js"
 * @import { Finished, Report, Tool, WorkbenchView } from "../plates/types.js"
 * @import { WordPlate } from "../plates/words.js"
 * @import { Waiting } from "../progress/waiting.js"
 */

const FIRST = ["fullgrad_plus", "libra"]; // where they run
/**
 * The deletion score of a map; null where it will not come.
 * @typedef {{area: number | null, read?: string}} Scored
 */

/**
 * Choices of a rule, by kind of operator.
 * @typedef {{[kind: string]: string | boolean}} Choices
 */

/**
 * @type {{key: string, name: string, of: (mix: Mix, score?: Scored) => number | null | undefined,
 *   says: (score?: Scored) => string}[]}
 */
const NUMBERS = [
  {
    key: "completeness_error",
    name: "Completeness error",
    of: (mix) => mix.completeness_error ?? null,
    says: () =>
      "How far FullGrad's terms are, under this rule, from adding up to the score. 0 is a full account of it.",
  },
  {
    key: "deletion",
    name: "Deletion score",
    of: (mix, score) => score?.area,
    says: (score) =>
      `Mean ${score?.read ?? "probability"} while what the map finds most important is removed first. The lower, the better.`,
  },
];

/**
 * A rule put together choice by choice.
 * @param {HTMLElement} root
 * @param {WorkbenchView} workbench
 * @param {Report} report
 * @param {Waiting} asking
 * @returns {Promise<Tool>}
 */
export async function open(root, workbench, report, asking) {
  return new Mixer(root, workbench, report, asking, await getJSON("/api/rules"));
}

/** One kind of operator: its choices as radio buttons, and what the chosen one does. */
class Row {
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

class Mixer {
  #ticket = 0;
  /** @type {Map<string, Promise<Mix>>} */
  #answers = new Map();
  /** @type {Map<string, AbortController>} */
  #requests = new Map(); // key of an answer that has not come -> what ends the asking
  /** @type {WeakMap<Mix, Scored>} */
  #scores = new WeakMap();
  /** @type {AbortController | null} */
  #scoring = null; // ends the asking for scores that nobody waits for any more

  /**
   * @param {HTMLElement} root
   * @param {WorkbenchView} workbench
   * @param {Report} report
   * @param {Waiting} asking
   * @param {Rules} rules
   */
  constructor(root, workbench, report, asking, { rules, kinds }) {
    this.workbench = workbench;
    this.report = report;
    this.asking = asking;
    this.kinds = kinds;
    /** @type {Map<string | null, Rule>} */
    this.rules = new Map(rules.map((rule) => [rule.name, rule]));
    /** @type {Method[]} */
    this.methods = [];
    /** @type {Choices | null} */
    this.choices = null;
    /** @type {Map<string, string | null | undefined>} what a rule may carry -> why the method cannot read it */
    this.refused = new Map();
    this.subject = /** @type {Finished} */ (/** @type {unknown} */ (null)); // until the first is shown
    this.figures = new SinglePlates(workbench);
    this.tool = workbench.toolStates.of("mixer");
    const changed = () => this.#methodChanged();
    this.methodSelect = el("select", { id: "mixer-method", on: { change: changed } });
    this.target = el("select", { id: "mixer-target", on: { change: () => this.#run() } });
    this.preset = el("select", { id: "mixer-start", on: { change: () => this.#restart() } });
    this.back = el("button", { type: "button", class: "act plain", on: { click: () => this.#restart() } });
    this.rows = kinds.map((kind) => new Row(kind, (value) => this.#choices({ ...this.choices, [kind.name]: value })));
    this.note = el("p", { class: "quiet note" });
    this.pair = el("div", { class: "pair" });
    this.likeness = el("p", { class: "likeness num" });
    this.numbers = el("table", { class: "numbers" });
    this.targetField = labelled("Target", this.target);
    const about = el(
      "p",
      { class: "about" },
      "A gradient map is made by going back from the answer to the input, through every operator of the model. A rule says how to pass each kind of operator. Start from a known rule, change one choice, and see what it was good for: the map, and whether it still accounts for the whole score.",
    );
    root.append(
      about,
      el(
        "div",
        { class: "fields" },
        labelled("Method", this.methodSelect),
        this.targetField,
        labelled("Start from", this.preset),
        this.back,
      ),
      el(
        "div",
        { class: "workbench-top" },
        el(
          "div",
          { class: "rows" },
          this.rows.map((row) => row.node),
          this.note,
        ),
        el("div", { class: "seen" }, this.pair, this.likeness, this.numbers),
      ),
    );
  }

  /** @param {Finished} subject */
  async show(subject) {
    if (subject.id !== this.subject?.id) this.#answers.clear();
    this.subject = subject;
    const { registry } = this.workbench;
    this.methods = registry.methods.filter(
      (method) => method.rule && !method.slow && method.pairs.some((pair) => !pair.reason),
    );
    const state = this.tool.value;
    const methods = this.methods.map((method) => [method.name, method.title]);
    refill(this.methodSelect, methods, state.method, FIRST[0]);
    const labels = subject.info.targets.map((target) => target.label);
    refill(
      this.target,
      labels.map((label) => [label, label]),
      state.target,
    );
    this.targetField.hidden = labels.length < 2;
    this.pair.replaceChildren();
    this.#methodChanged(this.choices ?? state);
  }

  get method() {
    return this.methods.find((method) => method.name === this.methodSelect.value) ?? this.methods[0];
  }

  /**
   * Another method: it may not know the rule that was there. `keep` has choices by kind, as values or as texts.
   * @param {Choices | null} [keep]
   */
  #methodChanged(keep = null) {
    const pairs = this.method.pairs;
    const before = this.preset.value || (this.tool.value.start ?? FIRST[1]);
    const options = pairs.map((pair) =>
      el(
        "option",
        { value: pair.rule, disabled: Boolean(pair.reason), title: pair.reason ?? "" },
        this.rules.get(pair.rule)?.title,
      ),
    );
    this.preset.replaceChildren(...options);
    /** @param {string} name */
    const runs = (name) => pairs.some((pair) => pair.rule === name && !pair.reason);
    this.preset.value = runs(before) ? before : (this.method.rule ?? "");
    this.refused = new Map();
    for (const carried of ["gradient", "relevance"]) {
      const these = pairs.filter((pair) => this.#carried(this.#choicesOf(String(pair.rule))) === carried);
      if (!these.some((pair) => !pair.reason)) this.refused.set(carried, these[0]?.reason);
    }
    const [other] = this.refused.keys();
    this.note.textContent = other
      ? `${this.method.title} reads ${other === "relevance" ? "gradients" : "relevance"}: the dotted choices are for rules that carry ${other === "relevance" ? "relevance" : "gradients"}.`
      : "";
    const keptRule = keep && this.#known(keep);
    if (keptRule && !this.refused.has(this.#carried(keptRule) ?? "")) this.#choices(keptRule);
    else this.#restart();
  }

  /**
   * @param {string} name
   * @returns {Choices}
   */
  #choicesOf(name) {
    const rule = /** @type {any} */ (this.rules.get(name));
    return Object.fromEntries(this.kinds.map((kind) => [kind.name, rule[kind.name]]));
  }

  /**
   * Choices as the kinds have them; what is not known is as in the rule that was started from.
   * @param {Choices} wanted
   */
  #known(wanted) {
    const from = this.#choicesOf(this.preset.value);
    /** @param {OperatorKind} kind */
    const value = ({ name, choices }) =>
      choices.find((choice) => String(choice.value) === String(wanted[name]))?.value ?? from[name];
    return Object.fromEntries(this.kinds.map((kind) => [kind.name, value(kind)]));
  }

  /**
   * "gradient" or "relevance": what a rule of these choices carries. They do not go together, and a method reads one
   * of them.
   * @param {Choices} choices
   */
  #carried(choices) {
    return this.kinds
      .map((kind) => kind.choices.find((choice) => choice.value === choices[kind.name])?.carries)
      .find(Boolean);
  }

  #restart() {
    this.#choices(this.#choicesOf(this.preset.value));
  }

  /** @param {Choices} choices */
  #choices(choices) {
    this.choices = choices;
    const from = this.#choicesOf(this.preset.value);
    this.back.textContent = `Back to ${this.rules.get(this.preset.value)?.title}`;
    for (const row of this.rows) row.show(choices[row.kind.name], from[row.kind.name], this.refused);
    this.#run();
  }

  /** @param {Choices} choices */
  #question(choices) {
    return { method: this.methodSelect.value, target: this.target.value, rule: choices };
  }

  /**
   * @param {Choices} choices
   * @returns {Promise<Mix>}
   */
  #ask(choices) {
    const question = this.#question(choices);
    const key = JSON.stringify(question);
    const known = this.#answers.get(key);
    if (known) return known;
    const request = new AbortController();
    const answer = this.asking.ask(`${explanationPath(this.subject.id)}/mix`, question, request.signal);
    const forget = () => this.#requests.get(key) === request && this.#requests.delete(key);
    answer.then(forget, () => forget() && this.#answers.delete(key));
    this.#answers.set(key, answer);
    this.#requests.set(key, request);
    return answer;
  }

  /**
   * Stop what was asked before and is not wanted any more.
   * @param {...Choices} wanted
   */
  #leave(...wanted) {
    const keys = wanted.map((choices) => JSON.stringify(this.#question(choices)));
    for (const [key, request] of this.#requests) {
      if (keys.includes(key)) continue;
      this.#requests.delete(key);
      this.#answers.delete(key);
      request.abort();
    }
  }

  /** Write what is asked into the address: of the choices those that were changed. */
  #note() {
    const from = this.#choicesOf(this.preset.value);
    const choices = this.choices ?? from;
    const changed = this.kinds.map(({ name }) => [
      name,
      choices[name] === from[name] ? undefined : String(choices[name]),
    ]);
    const target = this.targetField.hidden ? undefined : this.target.value;
    this.tool.set({
      method: this.methodSelect.value,
      target,
      start: this.preset.value,
      ...Object.fromEntries(changed),
    });
  }

  async #run() {
    this.#note();
    const ticket = ++this.#ticket;
    this.#scoring?.abort();
    for (const plate of this.pair.querySelectorAll("article")) plate.dataset.state = "stale";
    this.numbers.setAttribute("aria-busy", "true");
    const start = this.#choicesOf(this.preset.value);
    const choices = this.choices ?? start;
    this.#leave(start, choices);
    try {
      const [from, mixed] = await Promise.all([this.#ask(start), this.#ask(choices)]);
      if (ticket !== this.#ticket) return;
      this.report(null);
      this.#draw(from, mixed);
      await this.#score(from, mixed); // it takes longer, and nothing waits for it
    } catch (problem) {
      if (ticket === this.#ticket && problem.name !== "AbortError") this.report(problem);
    }
  }

  /**
   * Ask how well the two maps name what the model needs, one after the other, each once.
   * @param {Mix} from
   * @param {Mix} mixed
   */
  async #score(from, mixed) {
    const { signal } = (this.#scoring = new AbortController());
    const path = `${explanationPath(this.subject.id)}/deletion-test/score`;
    try {
      for (const mix of [from, mixed]) {
        if (!this.#scores.has(mix))
          this.#scores.set(
            mix,
            await this.asking.ask(path, { scores: mix.map.scores, target: mix.map.target }, signal),
          );
        if (signal.aborted) return;
        this.#tell(from, mixed);
      }
    } catch (problem) {
      if (!signal.aborted) this.#tell(from, mixed, { area: null }); // it will not come
      throw problem;
    }
  }

  /**
   * @param {Mix} from
   * @param {Mix} mixed
   */
  #draw(from, mixed) {
    const same = from.rule.name === mixed.rule.name && mixed.rule.name !== "custom";
    const known =
      mixed.rule.name === "custom" ? "your mix" : same ? "your mix: unchanged" : `your mix: it is ${mixed.rule.title}`;
    const pairs = [
      { map: from.map, caption: from.rule.title },
      { map: mixed.map, caption: known },
    ].map(({ map, caption }) => {
      /** @type {Variant} */
      const variant = { ...this.method, ...map, spec: map.method, adds_up_to: map.adds_up_to ?? null, options: [] };
      return /** @type {[Plate | WordPlate, ScoreMap]} */ ([this.figures.make(variant, caption, map.target), map]);
    });
    this.figures.show(pairs);
    this.pair.replaceChildren(...pairs.map(([plate]) => plate.node));
    const read = readFor(this.subject, mixed.map.target);
    const r = correlation(contentOf(from.map.scores, read), contentOf(mixed.map.scores, read));
    this.likeness.textContent =
      r === null
        ? "r not defined: a map is the same everywhere"
        : `your mix and ${from.rule.title} correlate: r\u00a0=\u00a0${r.toFixed(2).replace("-", "\u2212")}`;
    this.#tell(from, mixed);
  }

  /**
   * The numbers of both; one that has not come yet is undefined, one that there is not is null.
   * @param {Mix} from
   * @param {Mix} mixed
   * @param {Scored} [missing]
   */
  #tell(from, mixed, missing) {
    const row = (/** @type {typeof NUMBERS[number]} */ { key, name, of, says }) => {
      const [a, b] = [from, mixed].map((mix) => of(mix, this.#scores.get(mix) ?? missing));
      const waits = a === undefined || b === undefined;
      const change = waits ? "…" : a === null || b === null ? "–" : a === b ? "0" : signedNumber(b - a);
      const texts = [a, b].map((value) => (value === undefined ? "…" : value === null ? "–" : number(value)));
      return el(
        "tr",
        { "aria-busy": String(waits), data: { number: key } },
        el("th", { scope: "row" }, name, el("small", {}, says(this.#scores.get(mixed)))),
        [...texts, change].map((text) => el("td", { class: "num" }, text)),
      );
    };
    const head = el(
      "tr",
      {},
      el("th", { scope: "col" }, `Score ${number(mixed.value ?? NaN, 4)}`),
      [from.rule.title, "your mix", "change"].map((text) => el("th", { scope: "col" }, text)),
    );
    this.numbers.replaceChildren(el("thead", {}, head), el("tbody", {}, NUMBERS.map(row)));
    this.numbers.setAttribute("aria-busy", "false");
  }
}
