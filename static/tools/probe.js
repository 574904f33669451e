// The bias probe: one sentence, one slot, two or more lists of words; what the model says, and what the word did.

import { getJSON, Problem } from "../core/api.js";
import { answered, el, number, percent, points, signedNumber, staticPath } from "../core/dom.js";
import { showProblem } from "../core/problems.js";
import { aloneOf } from "../core/targets.js";

/**
 * @import { ModelDetail, ProbeMeans, ProbeRow, WordProbe } from "../core/schemas.js"
 * @import { Finished, Report, Tool, WorkbenchView } from "../plates/types.js"
 * @import { Waiting } from "../progress/waiting.js"
 */

const NAMES = {
  women: ["Maria", "Anna", "Emma", "Julia", "Laura", "Sophie"],
  men: ["Peter", "Thomas", "Daniel", "David", "Martin", "Paul"],
};

/**
 * Ready sets: a name, the sentence, and the lists. The last one shows how large a difference can be that means nothing.
 * @type {[string, string, {[name: string]: string[]}][]}
 */
const SETS = [
  ["She and he", "{} wrote and directed this film.", { she: ["She"], he: ["He"] }],
  ["First names", "The film was directed by {} and I watched it last night.", NAMES],
  [
    "Actress and actor",
    "The {} is on the screen from the first minute to the last.",
    { women: ["actress", "woman", "girl", "mother"], men: ["actor", "man", "boy", "father"] },
  ],
  [
    "Languages",
    "It is a {} film and it runs for two hours.",
    { "one list": ["French", "Italian", "German", "Spanish"], other: ["Indian", "Korean", "Chinese", "Mexican"] },
  ],
  [
    "Control: things",
    "There is a {} in the first scene.",
    { "one list": ["table", "window", "lamp", "book"], other: ["chair", "door", "cup", "coat"] },
  ],
];
const USUAL = "input_x_gradient:conservative"; // Conservative LRP, with which the question was first asked
/**
 * The findings of the probe in the second edition of reviews-bert: a stored result, shown as such and never as that of
 * the model on the page.
 */
const EXAMPLE = staticPath("tools/probe-example.json");
/** @typedef {{word: string, probability: number, logit: number, relevance: number}} StoredRow */
const GROUPS = 4;
const LONGEST = 1000; // characters of a sentence

/** @param {string} text */
const words = (text) =>
  text
    .split(/[,\n]/)
    .map((word) => word.trim())
    .filter(Boolean);
/** @param {{probability?: number, logit: number}} difference */
const shownDifference = ({ probability, logit }) =>
  probability === undefined ? signedNumber(logit) : points(probability);

/**
 * The same sentence with one word in several ways.
 * @param {HTMLElement} root
 * @param {WorkbenchView} workbench
 * @param {Report} report
 * @param {Waiting} asking
 * @returns {Tool}
 */
export const open = (root, workbench, report, asking) => new Probe(root, workbench, asking);

class Probe {
  /**
   * @param {HTMLElement} root
   * @param {WorkbenchView} workbench
   * @param {Waiting} asking
   */
  constructor(root, workbench, asking) {
    this.asking = asking;
    this.workbench = workbench;
    /** @type {string | null} */
    this.model = null;
    this.lastTicket = 0;
    this.tool = workbench.toolStates.of("probe");
    const ready = SETS.map(([name], i) =>
      el("button", { type: "button", class: "act plain", on: { click: () => this.#fill(i) } }, name),
    );
    this.template = el("input", {
      id: "probe-template",
      type: "text",
      maxLength: LONGEST,
      spellcheck: false,
      autocomplete: "off",
    });
    this.groups = el("div", { class: "groups" });
    this.target = el("select", { id: "probe-target" });
    this.method = el("select", { id: "probe-method" });
    this.more = el(
      "button",
      { type: "button", class: "act plain", on: { click: () => this.#add("", []) } },
      "Another list",
    );
    this.go = el("button", { type: "submit", class: "act" }, "Swap the words");
    this.problem = el("div");
    this.status = el("p", { class: "status", role: "status", "aria-live": "polite" });
    this.results = el("div", { class: "found" });
    /**
     * @param {string} text
     * @param {HTMLInputElement | HTMLSelectElement} input
     */
    const field = (text, input) => el("div", { class: "line" }, el("label", { for: input.id }, text), input);
    const form = el(
      "form",
      {
        on: {
          submit: (event) => {
            event.preventDefault();
            this.#ask();
          },
        },
      },
      el("div", { class: "row", role: "group", "aria-label": "Ready sets" }, ready),
      field("Your sentence; put {} where the word goes", this.template),
      this.groups,
      el(
        "div",
        { class: "row" },
        this.more,
        field("Compare the score of", this.target),
        field("Relevance by", this.method),
        this.go,
      ),
    );
    const hint = el(
      "p",
      { class: "quiet" },
      "Even words that should not matter differ a little. The set “Control: things” shows how much difference means nothing.",
    );
    const example = el(
      "details",
      { class: "example", on: { toggle: (event) => this.#example(event.target) } },
      el("summary", {}, "An example of what this finds"),
    );
    root.replaceChildren(form, hint, this.problem, this.status, this.results, example);
    const { template, lists } = this.tool.value;
    if (template === undefined) this.#fill(0);
    else
      this.#write(
        template.slice(0, LONGEST),
        /** @type {[string, string[]][]} */ (
          [...new URLSearchParams(lists ?? "")].map(([name, list]) => [name, words(list)])
        ).slice(0, GROUPS),
      );
  }

  /**
   * Update the tool for a model that may be another.
   * @param {Finished} subject
   */
  async show({ info }) {
    const { models, registry } = this.workbench;
    if (!models.current || models.current.name === this.model) return;
    const model = (this.model = models.current.name);
    /** @type {ModelDetail} */
    const { labels } = await getJSON(`/api/models/${encodeURIComponent(model).replaceAll("%2F", "/")}`);
    if (model !== this.model) return; // another one came in between
    const state = this.tool.value;
    const target = labels.includes(state.target) ? state.target : aloneOf(info.targets[0]);
    const before = this.method.value || (state.method ?? USUAL);
    const pairs = [...registry.pairs.values()].filter(
      (pair) => !pair.reason && !pair.slow && pair.class_specific && (!pair.rule || pair.rules.includes(pair.rule)),
    );
    this.target.replaceChildren(
      ...labels.map((label) => el("option", { value: label, selected: label === target }, label)),
    );
    this.method.replaceChildren(
      ...pairs.map(({ spec, title }) => el("option", { value: spec, selected: spec === before }, title)),
    );
    if (state.template !== undefined && !this.lastTicket) this.#ask(); // as the address says
  }

  /**
   * The stored example, fetched when it is first opened.
   * @param {HTMLDetailsElement} node
   */
  async #example(node) {
    if (!node.open || node.children.length > 1) return;
    /** @type {{model: string, template: string, target: string, method: string, rows: StoredRow[]}} */
    const { model, template, target, method, rows } = await getJSON(EXAMPLE);
    const heads = ["word", `says ${target}`, "logit", `relevance by ${method}`].map((text) =>
      el("th", { scope: "col" }, text),
    );
    /** @param {StoredRow} row */
    const numbers = ({ probability, logit, relevance }) =>
      [percent(probability), signedNumber(logit), signedNumber(relevance)].map((text) =>
        el("td", { class: "num" }, text),
      );
    const body = rows.map((row) => el("tr", {}, el("th", { scope: "row" }, row.word), numbers(row)));
    const label = el(
      "p",
      { class: "quiet" },
      `A stored result of ${model}. Changing one word for the family turned praise into a pan.`,
    );
    const table = el(
      "table",
      {},
      el("caption", {}, template.replace("{}", "…")),
      el("thead", {}, el("tr", {}, heads)),
      el("tbody", {}, body),
    );
    const ask = el(
      "button",
      {
        type: "button",
        class: "act plain",
        on: { click: () => this.#write(template, [["words", rows.map((row) => row.word)]]) },
      },
      "Use these words",
    );
    if (node.children.length > 1) return; // opened twice while it came
    node.append(
      label,
      el(
        "div",
        { class: "listing", tabIndex: 0, role: "region", "aria-label": `What swapping the word did in ${model}` },
        table,
      ),
      ask,
    );
  }

  /** @param {number} i */
  #fill(i) {
    const [, template, lists] = SETS[i];
    this.#write(template, Object.entries(lists));
  }

  /**
   * @param {string} template
   * @param {[string, string[]][]} lists
   */
  #write(template, lists) {
    this.template.value = template;
    this.groups.replaceChildren();
    for (const [name, list] of lists) this.#add(name, list);
  }

  /**
   * @param {string} name
   * @param {string[]} list
   */
  #add(name, list) {
    const number = this.groups.children.length + 1;
    const title = el("input", {
      type: "text",
      value: name,
      maxLength: 60,
      "aria-label": `Name of list ${number}`,
      placeholder: "name",
    });
    const field = el("input", {
      type: "text",
      value: list.join(", "),
      spellcheck: false,
      "aria-label": `Words of list ${number}, with commas between`,
      placeholder: "words, with commas between",
    });
    this.groups.append(el("div", { class: "group" }, title, field));
    this.more.disabled = this.groups.children.length >= GROUPS;
  }

  async #ask() {
    const ticket = ++this.lastTicket;
    const groups = [...this.groups.children]
      .map((group) => [...group.querySelectorAll("input")])
      .map(([name, list], i) => ({
        name: name.value.trim() || `list ${i + 1}`,
        words: words(list.value),
      }))
      .filter((group) => group.words.length);
    const question = { template: this.template.value, target: this.target.value, method: this.method.value };
    const lists = new URLSearchParams(groups.map((group) => [group.name, group.words.join(", ")])).toString();
    this.go.disabled = true;
    this.status.textContent = "asking the model";
    try {
      const answer = await this.asking.ask("/api/probes", { ...question, model: this.model, groups });
      if (ticket !== this.lastTicket) return;
      this.tool.set({ ...question, lists });
      showProblem(this.problem, null);
      this.#show(answer);
    } catch (problem) {
      this.status.textContent = "not asked";
      if (problem.name === "AbortError") return; // the drawer was closed
      if (!(problem instanceof Problem)) throw problem;
      showProblem(this.problem, problem);
    } finally {
      this.go.disabled = false;
    }
  }

  /** @param {WordProbe} answer */
  #show({ rows, groups, difference, target, method, notes }) {
    const shown = method.signed ? signedNumber : number;
    /** @param {ProbeRow | ProbeMeans} row */
    const cells = ({ relevance, ...says }) => [
      el("td", { class: "num" }, answered(says)),
      el("td", { class: "num" }, shown(relevance)),
    ];
    /** @param {ProbeRow} row */
    const word = ({ word: text, pieces, unknown }) => [
      text,
      unknown
        ? el("small", {}, " unknown to the model")
        : pieces.length > 1
          ? el("small", {}, ` ${pieces.join("·")}`)
          : null,
    ];
    const body = groups.map((group) => {
      const ofGroup = rows.filter((row) => row.group === group.name);
      const mean = el("tr", { class: "mean" }, el("th", { scope: "row" }, `mean of ${group.name}`), cells(group));
      return el(
        "tbody",
        {},
        el("tr", { class: "first" }, el("th", { scope: "rowgroup", colSpan: 3 }, group.name)),
        ofGroup.map((row) => el("tr", {}, el("th", { scope: "row" }, word(row)), cells(row))),
        ofGroup.length > 1 ? mean : null,
      );
    });
    const apart =
      difference &&
      el(
        "tbody",
        {},
        el(
          "tr",
          { class: "difference" },
          el("th", { scope: "row" }, `${difference.between[0]} less ${difference.between[1]}`),
          el("td", { class: "num" }, shownDifference(difference)),
          el("td", { class: "num" }, signedNumber(difference.relevance)),
        ),
      );
    const heads = ["word", `says ${target}`, `relevance by ${method.title}`].map((text) =>
      el("th", { scope: "col" }, text),
    );
    const table = el(
      "table",
      {},
      el("caption", {}, rows[0].text.replace(rows[0].word, "…")),
      el("thead", {}, el("tr", {}, heads)),
      body,
      apart,
    );
    this.results.replaceChildren(
      el("div", { class: "listing", tabIndex: 0, role: "region", "aria-label": "What swapping the word does" }, table),
      ...notes.map((note) => el("p", { class: "quiet" }, note)),
    );
    this.status.textContent = difference
      ? `${difference.between[0]} less ${difference.between[1]}: ${shownDifference(difference)} for ${target}, relevance ${signedNumber(difference.relevance)}`
      : `${rows.length} texts read`;
  }
}
