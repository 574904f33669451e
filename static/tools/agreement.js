// Which methods agree: the rank correlation of every two maps as a table, like next to like, computed by the server.

import { explanationPath, getJSON } from "../core/api.js";
import { el } from "../core/dom.js";
import { methodNames } from "../core/registry.js";
import { partsNoun } from "../plates/content.js";
import { openPair } from "../plates/mappairs.js";

/**
 * @import { Agreement as ServerAgreement } from "../core/schemas.js"
 * @import { Finished, Report, Tool, WorkbenchView } from "../plates/types.js"
 */

const MINUS = "\u2212";
const MOST = 46; // percent of colour at a correlation of 1: the number on it stays readable
/** @type {{[key: string]: number[]}} */
const STEPS = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };

/**
 * The tool that shows how alike every two methods are.
 * @param {HTMLElement} root
 * @param {WorkbenchView} workbench
 * @param {Report} report
 * @returns {Tool}
 */
export const open = (root, workbench, report) => new Agreement(root, workbench, report);

/**
 * Format a correlation with two digits; a dash where there is none.
 * @param {number | null} value
 */
const shown = (value) =>
  value === null ? "–" : `${value < 0 && value.toFixed(2) !== "-0.00" ? MINUS : ""}${Math.abs(value).toFixed(2)}`;

class Agreement {
  #ticket = 0;
  /** @type {string[]} specs */
  methods = [];
  /** @type {string[]} */
  names = [];
  subject = /** @type {Finished} */ (/** @type {unknown} */ (null)); // until the first is shown

  /**
   * @param {HTMLElement} root
   * @param {WorkbenchView} workbench
   * @param {Report} report
   */
  constructor(root, workbench, report) {
    this.workbench = workbench;
    this.report = report;
    this.tool = workbench.toolStates.of("agreement");
    this.target = el("select", { id: "agreement-target", on: { change: () => this.#choose() } });
    this.field = el(
      "div",
      { class: "asked", hidden: true },
      el("label", { for: this.target.id }, "Target"),
      this.target,
    );
    this.about = el(
      "p",
      { class: "about" },
      "Each number is Spearman’s rank correlation of two maps: 1 for the same order, 0 for unrelated orders, below 0 for reversed ones. Agreement is no proof: methods can share a fault.",
    );
    this.statusLine = el("p", { class: "correlation", role: "status" });
    this.table = el("table", {
      "aria-label": "Rank correlations of the maps",
      on: { keydown: (event) => this.#walk(event), click: (event) => this.#open(event) },
    });
    root.replaceChildren(
      this.about,
      this.field,
      this.statusLine,
      el("div", { class: "listing", tabIndex: -1, role: "region", "aria-label": "Which methods agree" }, this.table),
    );
  }

  /** @param {Finished} subject */
  async show(subject) {
    const labels = subject.info.targets.map(({ label }) => label);
    const wanted = [this.target.value, this.tool.value.target].find((label) => labels.includes(label)) ?? labels[0];
    this.subject = subject;
    this.target.replaceChildren(
      ...labels.map((label) => el("option", { value: label, selected: label === wanted }, label)),
    );
    this.field.hidden = labels.length < 2;
    await this.#ask();
  }

  #choose() {
    this.tool.set({ target: this.target.value });
    this.#ask().catch((problem) => this.report(problem));
  }

  async #ask() {
    const ticket = ++this.#ticket;
    /** @type {ServerAgreement} */
    const answer = await getJSON(
      `${explanationPath(this.subject.id)}/agreement?target=${encodeURIComponent(this.target.value)}`,
    );
    if (ticket !== this.#ticket) return;
    this.report(null);
    this.#draw(answer);
  }

  /** @param {ServerAgreement} answer */
  #draw({ methods, correlations, tokens }) {
    const named = methodNames(
      methods.map((spec) => this.workbench.registry.plate(spec) ?? { spec, title: spec, rule: null }),
    );
    const names = methods.map((spec) => String(named.get(spec)));
    this.methods = methods;
    this.names = names;
    /**
     * @param {number} row
     * @param {number} column
     */
    const cell = (row, column) => {
      const value = correlations[row][column];
      if (row === column) return el("td", { class: "self" }, value === null ? "–" : "1");
      const title = `${names[row]} and ${names[column]}: ${value === null ? "not defined, as one of them gives every token the same score" : shown(value)}`;
      const button = el(
        "button",
        {
          type: "button",
          tabIndex: -1,
          title,
          "aria-label": title,
          data: { row, column, sign: value !== null && value < 0 ? "con" : "pro" },
        },
        shown(value),
      );
      button.style.setProperty("--m", `${(MOST * Math.abs(value ?? 0)).toFixed(0)}%`);
      return el("td", {}, button);
    };
    const heads = names.map((name, i) =>
      el(
        "th",
        { scope: "col", title: name },
        el("span", { "aria-hidden": "true" }, i + 1),
        el("span", { class: "hidden" }, name),
      ),
    );
    const rows = names.map((name, i) =>
      el(
        "tr",
        {},
        el("th", { scope: "row" }, el("span", { class: "num", "aria-hidden": "true" }, i + 1), ` ${name}`),
        names.map((_, k) => cell(i, k)),
      ),
    );
    this.table.replaceChildren(
      el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "method"), heads)),
      el("tbody", {}, rows),
    );
    const first = this.table.querySelector("button");
    if (first) first.tabIndex = 0;
    this.#describe(correlations, tokens, partsNoun(this.subject.info));
  }

  /**
   * Name the pair that is most alike, and the one that is least alike.
   * @param {(number | null)[][]} correlations
   * @param {number} tokens
   * @param {string} what
   */
  #describe(correlations, tokens, what) {
    const pairs = correlations
      .flatMap((row, i) => row.slice(0, i).map((value, k) => ({ value, names: [this.names[k], this.names[i]] })))
      .flatMap(({ value, names }) => (value === null ? [] : { value, names }));
    pairs.sort((a, b) => b.value - a.value);
    /** @param {{names: string[], value: number}} pair */
    const pair = ({ names, value }) => `${names[0]} and ${names[1]} (${shown(value)})`;
    const least = pairs.length > 1 ? ` Least alike: ${pair(pairs[pairs.length - 1])}.` : "";
    this.statusLine.textContent = pairs.length
      ? `Over ${tokens} ${what}, most alike: ${pair(pairs[0])}.${least}`
      : "There are no two maps to compare.";
  }

  /**
   * Open the two maps of a cell together: over one picture, or as words.
   * @param {any} event
   */
  #open(event) {
    const { row, column } = event.target.closest("button")?.dataset ?? {};
    if (row === undefined) return;
    const several = this.subject.info.targets.length > 1;
    const [first, second] = [row, column].map((i) =>
      several ? `${this.methods[i]} ${this.target.value}` : this.methods[i],
    );
    openPair(this.workbench, first, second);
  }

  /** @param {any} event */
  #walk(event) {
    const step = STEPS[event.key];
    const { row, column } = event.target.dataset;
    if (!step || row === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    let [nextRow, nextColumn] = [Number(row) + step[0], Number(column) + step[1]];
    // nothing to open where a method meets itself
    if (nextRow === nextColumn) [nextRow, nextColumn] = [nextRow + step[0], nextColumn + step[1]];
    /** @type {HTMLElement | null} */
    const button = this.table.querySelector(`[data-row="${nextRow}"][data-column="${nextColumn}"]`);
    if (!button) return;
    event.target.tabIndex = -1;
    button.tabIndex = 0;
    button.focus();
  }
}
