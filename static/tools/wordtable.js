// The words of a text as a table: a row a word, a column a method, sorted by any of them. Over it, what removing the
// word on top does to the answer.

import { explanationPath } from "../core/api.js";
import { limits, place, twoSided } from "../core/colour.js";
import { el, number, signedNumber } from "../core/dom.js";
import { csvButton } from "../export/csv.js";
import { nameFor } from "../export/titles.js";
import { unitScore } from "../plates/content.js";
import { tint } from "../plates/words.js";
import { removalLine } from "./answerchange.js";

/**
 * @import { Ends } from "../core/colour.js"
 * @import { TextBase } from "../maps/types.js"
 * @import { Waiting } from "../progress/waiting.js"
 * @import { Finished, MapPlateSet, Report, Tool, WorkbenchView } from "../plates/types.js"
 */

/**
 * A map of a text: a value for each unit.
 * @typedef {{key: string, title: string, target: string | null, signed: boolean, values: number[], base: TextBase}}
 *   WordColumn
 */

/**
 * The available maps of the text, in the grain of the page.
 * @param {MapPlateSet} plateSet
 * @returns {WordColumn[]}
 */
export function columnsOf(plateSet) {
  return plateSet.all.flatMap(({ map, base, target, variant }) =>
    map && base
      ? {
          key: target === null ? variant.spec : `${variant.spec} ${target}`,
          title: target === null ? variant.title : `${variant.title}, ${target}`,
          target,
          signed: map.signed,
          values: /** @type {TextBase} */ (base).units.map((unit) => unitScore(map.scores, unit, map.signed)),
          base,
        }
      : [],
  );
}

const PLACE = "place"; // the order of the text

/**
 * The words of the text in a table.
 * @param {HTMLElement} root
 * @param {WorkbenchView} workbench
 * @param {Report} report
 * @param {Waiting} asking
 * @returns {Tool}
 */
export const open = (root, workbench, report, asking) => new WordTable(root, workbench, report, asking);

/**
 * Call `update` when the text is divided by another grain while the drawer of `root` is open.
 * @param {HTMLElement} root
 * @param {WorkbenchView} workbench
 * @param {() => void} update
 */
export function followGrain(root, workbench, update) {
  workbench.view.follow((now, before) => now.grain !== before.grain && root.closest("details")?.open && update());
}

class WordTable {
  /** @type {AbortController | null} */
  #request = null;
  /** @type {Finished | null} */
  subject = null; // the explanation on show

  /**
   * @param {HTMLElement} root
   * @param {WorkbenchView} workbench
   * @param {Report} report
   * @param {Waiting} asking
   */
  constructor(root, workbench, report, asking) {
    const tool = workbench.toolStates.of("wordtable");
    const { sort, down } = tool.value;
    this.root = root;
    this.workbench = workbench;
    this.report = report;
    this.asking = asking;
    this.tool = tool;
    this.sort = sort === PLACE ? null : sort;
    this.down = down !== "no";
    /** @type {(WordColumn & {ends: Ends})[]} */
    this.columns = [];
    /** @type {HTMLElement[]} */
    this.rows = [];
    this.body = el("tbody");
    this.head = el("thead");
    this.table = el(
      "table",
      {},
      el("caption", { class: "hidden" }, "Scores of every word by every method"),
      this.head,
      this.body,
    );
    this.removal = el("span", { class: "without", role: "status" });
    root.replaceChildren(
      el(
        "p",
        { class: "take-table" },
        this.removal,
        csvButton(
          () => this.#csv(),
          () => nameFor(String(workbench.id), "words"),
          report,
        ),
      ),
      el("div", { class: "listing", tabIndex: 0, role: "region", "aria-label": "Table of words" }, this.table),
    );
    /** @param {PointerEvent} event */
    const at = ({ target }) => Number((target instanceof Element && target.closest("tr")?.dataset.at) || -1);
    this.body.addEventListener(
      "pointerover",
      (event) => workbench.focus.value.locked || workbench.focus.set({ at: at(event) }),
    );
    this.body.addEventListener("pointerleave", () => workbench.focus.value.locked || workbench.focus.set({ at: -1 }));
    this.body.addEventListener("click", (event) => workbench.focus.set({ at: at(event), locked: true }));
    workbench.focus.follow(() => this.#mark());
    followGrain(root, workbench, () => this.#read());
  }

  /**
   * Show the words of another explanation.
   * @param {Finished} subject
   */
  show(subject) {
    this.subject = subject;
    this.#read();
  }

  /** Read the plates again: other maps, another text, another grain. */
  #read() {
    this.columns = columnsOf(this.workbench.plateSet).map((column) => ({
      ...column,
      ends: limits([column.values], column.signed),
    }));
    const { text, units } = this.columns[0]?.base ?? { text: "", units: [] };
    if (this.sort !== null && !this.columns.some(({ key }) => key === this.sort))
      Object.assign(this, { sort: this.columns[0]?.key ?? null, down: true });
    const words = units.map(({ start, end }) => text.slice(start, end));
    this.rows = words.map((word, i) => this.#row(word, i));
    this.#order();
  }

  /** The table as rows, in the order of the text. */
  #csv() {
    const { text, units } = this.columns[0]?.base ?? { text: "", units: [] };
    return [
      ["place", "word", ...this.columns.map(({ title }) => title)],
      ...units.map(({ start, end }, i) => [
        i + 1,
        text.slice(start, end),
        ...this.columns.map(({ values }) => values[i]),
      ]),
    ];
  }

  /**
   * @param {string} word
   * @param {number} i
   */
  #row(word, i) {
    const cells = this.columns.map(({ signed, values, ends }) => {
      const cell = el("td", {}, (signed ? signedNumber : number)(values[i]));
      tint(cell, place(values[i], ends, signed), twoSided(ends, signed));
      return cell;
    });
    return el(
      "tr",
      { data: { at: i } },
      el("td", { class: "num" }, String(i + 1)),
      el("th", { scope: "row" }, word),
      cells,
    );
  }

  #order() {
    const { values } = this.columns.find(({ key }) => key === this.sort) ?? {};
    const sign = this.down ? -1 : 1;
    const order = this.rows.map((_, i) => i);
    if (values) order.sort((a, b) => sign * (values[a] - values[b]) || a - b);
    else if (!this.down) order.reverse();
    this.body.replaceChildren(...order.map((i) => this.rows[i]));
    this.#remove(values && order.length > 1 ? order[0] : null).catch(this.report);
    /** @type {{key: string | null, title: string}[]} */
    const columns = [{ key: null, title: "place" }, ...this.columns];
    const heads = columns.map(({ key, title }, i) => [
      i === 1 && el("th", { scope: "col" }, "word"),
      this.#heading(key, title),
    ]);
    this.head.replaceChildren(
      el("tr", {}, heads.flat().filter(Boolean), this.columns.length ? null : el("th", { scope: "col" }, "word")),
    );
    this.#mark();
  }

  /**
   * Ask the model without word `i`, the one on top, and say what that does to the answer; null: say nothing.
   * @param {number | null} i
   */
  async #remove(i) {
    this.#request?.abort();
    this.removal.textContent = "";
    const column = this.columns.find(({ key }) => key === this.sort);
    if (i === null || !column || !this.subject) return;
    const { id, info } = this.subject;
    const target = info.targets.find(({ label }) => label === column.target) ?? info.targets[0];
    const { text, units } = column.base;
    const { start, end, tokens } = units[i];
    const { signal } = (this.#request = new AbortController());
    const body = { target: target.label, remove: tokens };
    const answer = await this.asking.ask(`${explanationPath(id)}/deletion-test`, body, signal).catch((problem) => {
      if (problem.name !== "AbortError") throw problem;
    });
    if (!answer || signal.aborted) return;
    const was = { target, first: info.top?.[0], output: info.output };
    const is = { probability: answer.probability, logit: answer.logit ?? answer.value, first: answer.top?.[0] };
    this.removal.textContent = removalLine(text.slice(start, end), was, is);
  }

  /**
   * @param {string | null} key
   * @param {string} title
   */
  #heading(key, title) {
    const isSorted = key === this.sort;
    const places = key === null; // the order of the text begins with the first word
    const largestFirst = isSorted && this.down !== places;
    const button = el(
      "button",
      { type: "button", data: { sort: key ?? PLACE }, on: { click: () => this.#sortBy(key) } },
      title,
      el("span", { "aria-hidden": "true" }, isSorted ? (largestFirst ? " ↓" : " ↑") : ""),
    );
    return el(
      "th",
      { scope: "col", "aria-sort": isSorted ? (largestFirst ? "descending" : "ascending") : "none" },
      button,
    );
  }

  /** @param {string | null} key */
  #sortBy(key) {
    this.down = this.sort === key ? !this.down : true;
    this.sort = key;
    this.tool.set({ sort: key ?? PLACE, down: this.down ? undefined : "no" });
    this.#order();
    /** @type {HTMLElement | null} */ (this.head.querySelector(`[data-sort="${key ?? PLACE}"]`))?.focus();
  }

  #mark() {
    const { at, locked } = this.workbench.focus.value;
    this.rows.forEach((row, i) => {
      row.classList.toggle("on", i === at);
      row.classList.toggle("locked", i === at && locked);
    });
  }
}
