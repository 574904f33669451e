// Where two methods disagree about a text: their rank correlation, and the words that one ranks far higher than the
// other.

import { el, number } from "../core/dom.js";
import { meanRanks, spearman } from "../core/stats.js";
import { columnsOf, followGrain } from "./wordtable.js";

/**
 * @import { Unit } from "../core/types.js"
 * @import { Tool, WorkbenchView } from "../plates/types.js"
 * @import { WordColumn } from "./wordtable.js"
 */

const LISTED_WORDS = 8; // words in the list
const NAMES = ["first", "second"];

/**
 * The tool that shows where two methods disagree.
 * @param {HTMLElement} root
 * @param {WorkbenchView} workbench
 * @returns {Tool}
 */
export const open = (root, workbench) => new Disagreement(root, workbench);

class Disagreement {
  /**
   * @param {HTMLElement} root
   * @param {WorkbenchView} workbench
   */
  constructor(root, workbench) {
    this.tool = workbench.toolStates.of("disagree");
    this.workbench = workbench;
    this.chosen = NAMES.map((name) => this.tool.value[name] ?? null);
    this.selects = NAMES.map((which, i) =>
      el("select", { id: `disagree-${which}`, on: { change: (event) => this.#choose(i, event.target.value) } }),
    );
    const fields = this.selects.map((select, i) =>
      el("span", { class: "asked" }, el("label", { for: select.id }, i ? "and" : "Between"), select),
    );
    this.statusLine = el("p", { class: "correlation", role: "status", "aria-live": "polite" });
    this.list = el("tbody");
    const heads = (this.heads = ["word", "", ""].map((text) => el("th", { scope: "col" }, text)));
    const table = el(
      "div",
      { class: "listing", tabIndex: 0, role: "region", "aria-label": "Words on which they disagree most" },
      el("table", {}, el("thead", {}, el("tr", {}, heads)), this.list),
    );
    this.text = el("div", { class: "reading", dir: "auto" });
    this.legend = el("p", { class: "quiet" });
    root.replaceChildren(
      el("div", { class: "choose" }, fields),
      this.statusLine,
      el("div", { class: "two" }, table, el("div", {}, this.text, this.legend)),
    );
    followGrain(root, workbench, () => this.show());
    this.tool.follow((now, before) => {
      if (NAMES.every((name) => now[name] === before[name])) return;
      this.chosen = NAMES.map((name, i) => now[name] ?? this.chosen[i]);
      this.show();
    });
  }

  show() {
    const columns = columnsOf(this.workbench.plateSet);
    const keys = columns.map(({ key }) => key);
    // two that have a sign, where there are two: what they say for and against can be compared
    const signed = columns.filter((column) => column.signed).map(({ key }) => key);
    const usual = signed.length > 1 ? [signed[0], signed.at(-1)] : [keys[0], keys.at(-1)];
    this.chosen = this.chosen.map((key, i) => (keys.includes(key) ? key : usual[i]));
    this.selects.forEach((select, i) =>
      select.replaceChildren(
        ...columns.map(({ key, title }) => el("option", { value: key, selected: key === this.chosen[i] }, title)),
      ),
    );
    if (columns.length) this.#compare(this.chosen.flatMap((chosen) => columns.find(({ key }) => key === chosen) ?? []));
  }

  /**
   * @param {number} i
   * @param {string} key
   */
  #choose(i, key) {
    this.tool.set({ [NAMES[i]]: key });
  }

  /** @param {WordColumn[]} two */
  #compare(two) {
    const { text, units } = two[0].base;
    const bySign = two.every(({ signed }) => signed);
    const values = two.map((column) => (bySign ? column.values : column.values.map(Math.abs)));
    const [a, b] = values.map(meanRanks);
    const last = Math.max(1, units.length - 1);
    const apart = a.map((rank, i) => (rank - b[i]) / last); // -1 to 1
    const titles = two.map(({ title }) => title);
    const rho = spearman(values[0], values[1]);
    this.statusLine.textContent =
      rho === null
        ? "One of the two maps gives every word the same score, so there is nothing to compare."
        : `Rank correlation ${number(rho, 2)} over ${units.length} words, ranked by ${bySign ? "score" : "strength, as one map has no signs"} (1: same order, 0: unrelated, ${number(-1, 1)}: reversed).`;
    this.#list(
      titles,
      units.map(({ start, end }) => text.slice(start, end)),
      [a, b],
      apart,
    );
    this.#paint(titles, text, units, apart);
  }

  /**
   * @param {string[]} titles
   * @param {string[]} words
   * @param {number[][]} two the ranks of each
   * @param {number[]} apart
   */
  #list(titles, words, two, apart) {
    const worst = apart
      .map((_, i) => i)
      .sort((i, j) => Math.abs(apart[j]) - Math.abs(apart[i]) || i - j)
      .filter((i) => apart[i] !== 0)
      .slice(0, LISTED_WORDS);
    /** @param {number} rank */
    const place = (rank) => String(words.length - rank); // 1 is the highest
    this.heads.slice(1).forEach((head, i) => (head.textContent = `rank with ${titles[i]}`));
    /** @param {number} i */
    const row = (i) =>
      el(
        "tr",
        {},
        el("th", { scope: "row" }, words[i]),
        two.map((ranked) => el("td", { class: "num" }, place(ranked[i]))),
      );
    this.list.replaceChildren(...worst.map(row));
  }

  /**
   * @param {string[]} titles
   * @param {string} text
   * @param {Unit[]} units
   * @param {number[]} apart
   */
  #paint(titles, text, units, apart) {
    let at = 0;
    const parts = units.flatMap(({ start, end }, i) => {
      const span = el(
        "span",
        { class: apart[i] > 0 ? "more" : apart[i] < 0 ? "less" : "", data: { w: i } },
        text.slice(start, end),
      );
      span.style.setProperty("--a", Math.abs(apart[i]).toFixed(3));
      span.style.setProperty("--u", `${Math.round(4 * Math.abs(apart[i]))}px`);
      const before = text.slice(at, start);
      at = end;
      return [before, span];
    });
    this.text.replaceChildren(...parts, text.slice(at));
    this.legend.textContent = `Solid lines: higher with ${titles[0]}. Dotted lines: higher with ${titles[1]}. Thicker lines: further apart. Rank 1 is the highest.`;
  }
}
