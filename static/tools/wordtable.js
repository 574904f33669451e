// The words of a text as a table: a row a word, a column a method, sorted by any of them.

import { limits, place, twoSided } from "../core/colour.js";
import { el, number, signedNumber } from "../core/dom.js";
import { csvButton } from "../export/csv.js";
import { unitScore } from "../plates/content.js";
import { tint } from "../plates/words.js";

/**
 * @import { Ends } from "../core/colour.js"
 * @import { TextBase } from "../maps/types.js"
 * @import { MapPlateSet, Tool, WorkbenchView } from "../plates/types.js"
 */

/**
 * A map of a text: a value for each unit.
 * @typedef {{key: string, title: string, signed: boolean, values: number[], base: TextBase}} WordColumn
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
 * @returns {Tool}
 */
export const open = (root, workbench) => new WordTable(root, workbench);

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
  /**
   * @param {HTMLElement} root
   * @param {WorkbenchView} workbench
   */
  constructor(root, workbench) {
    const tool = workbench.toolStates.of("wordtable");
    const { sort, down } = tool.value;
    this.root = root;
    this.workbench = workbench;
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
    root.replaceChildren(
      el(
        "p",
        { class: "take-table" },
        csvButton(
          () => this.#csv(),
          () => [String(workbench.id), "words"],
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
    followGrain(root, workbench, () => this.show());
  }

  /** Read the plates again: other maps, another text, another grain. */
  show() {
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
