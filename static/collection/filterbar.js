// The controls that filter the rows of a collection.

import { el, whole } from "../core/dom.js";
import { ALL, isAll } from "./filters.js";

/**
 * @import { CollectionAbout } from "../core/schemas.js"
 * @import { Filters } from "./types.js"
 */

const PAUSE = 250; // milliseconds after the last letter
const ANY = "\u0000"; // value of an option that lets all through: no label is called so
const MOST_COLUMNS = 4; // own columns with a control

/** The bar of filters. */
export class FilterBar {
  #timer = 0;
  /** @type {Filters} */
  #filters = ALL;

  /**
   * `onChange(change)` is called with the filters that were changed.
   * @param {HTMLElement} place
   * @param {CollectionAbout} about
   * @param {(change: Partial<Filters>) => void} onChange
   */
  constructor(place, about, onChange) {
    this.onChange = onChange;
    this.word = el("input", {
      type: "search",
      placeholder: about.entry.kind === "image" ? "a name or a class" : "a word of the text",
      maxLength: 200,
      on: { input: () => this.#soon() },
    });
    this.label = this.#select("label", about.labels);
    this.answer = this.#select("answer", about.answers);
    this.right = el(
      "select",
      { on: { change: () => onChange({ right: this.right.value ? this.right.value === "right" : null }) } },
      el("option", { value: "" }, "right or wrong"),
      el("option", { value: "right" }, "right"),
      el("option", { value: "wrong" }, "wrong"),
    );
    this.flags = about.flags.map(({ name, title, says, rows }) => {
      const isUnknown = name === "off_object" && !about.has_masks;
      const box = el("input", {
        type: "checkbox",
        value: name,
        disabled: !rows,
        on: { change: () => this.#changeFlags() },
      });
      const figure = el("span", { class: "figure" }, isUnknown ? "no masks" : whole(rows));
      const more = isUnknown ? " These inputs mark no object: lay a mask for each picture into the folder masks." : "";
      return {
        name,
        box,
        figure,
        isUnknown,
        chip: el("label", { class: "toggle", title: says + more }, box, title, figure),
      };
    });
    this.own = Object.entries(about.own_columns)
      .filter(([, values]) => values.length > 1)
      .slice(0, MOST_COLUMNS)
      .map(([name, values]) => ({ name, select: this.#ownSelect(name, values) }));
    this.clear = el(
      "button",
      { type: "button", class: "act plain", on: { click: () => onChange({ ...ALL, space: this.#filters.space }) } },
      "Show all rows",
    );
    const field = (/** @type {string} */ title, /** @type {HTMLElement} */ control) =>
      el("label", { class: "field" }, el("span", {}, title), control);
    place.replaceChildren(
      el(
        "div",
        { class: "fields" },
        field("Search", this.word),
        about.has_labels ? field("Label", this.label) : null,
        field("Answer", this.answer),
        about.has_labels ? field("Verdict", this.right) : null,
        ...this.own.map(({ name, select }) => field(name, select)),
      ),
      el(
        "div",
        { class: "toggles", role: "group", "aria-label": "Reasons to look" },
        this.flags.map(({ chip }) => chip),
        this.clear,
      ),
    );
  }

  /**
   * @param {"label" | "answer"} name
   * @param {string[]} values
   */
  #select(name, values) {
    const select = el(
      "select",
      { on: { change: () => this.onChange({ [name]: select.value === ANY ? null : select.value }) } },
      el("option", { value: ANY }, "any"),
      ...values.map((value) => el("option", { value }, value)),
    );
    return select;
  }

  /**
   * @param {string} name of an own column
   * @param {string[]} values
   */
  #ownSelect(name, values) {
    const change = () => {
      const { [name]: _, ...others } = this.#filters.own;
      this.onChange({ own: select.value === ANY ? others : { ...others, [name]: select.value } });
    };
    const select = el(
      "select",
      { on: { change } },
      el("option", { value: ANY }, "any"),
      ...values.map((value) => el("option", { value }, value)),
    );
    return select;
  }

  #soon() {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.onChange({ word: this.word.value }), PAUSE);
  }

  /**
   * Show how many of the rows on show have each flag.
   * @param {{[flag: string]: number}} flags
   */
  count(flags) {
    for (const { name, figure, isUnknown } of this.flags) if (!isUnknown) figure.textContent = whole(flags[name] ?? 0);
  }

  #changeFlags() {
    this.onChange({ flags: this.flags.flatMap(({ box }) => (box.checked ? box.value : [])) });
  }

  /**
   * Show the filters in force.
   * @param {Filters} filters
   */
  show(filters) {
    this.#filters = filters;
    if (this.word.value.trim() !== filters.word.trim()) this.word.value = filters.word;
    this.label.value = filters.label ?? ANY;
    this.answer.value = filters.answer ?? ANY;
    this.right.value = filters.right === null ? "" : filters.right ? "right" : "wrong";
    for (const { box } of this.flags) box.checked = filters.flags.includes(box.value);
    for (const { name, select } of this.own) select.value = filters.own[name] ?? ANY;
    this.clear.disabled = isAll({ ...filters, order: ALL.order, descending: ALL.descending });
  }
}
