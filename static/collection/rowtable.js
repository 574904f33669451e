// The table of the rows that a filter leaves: Tabulator draws the rows in view, and each page of rows comes from the
// server when it is first looked at.

import { getJSON } from "../core/api.js";
import { addressOf, el } from "../core/dom.js";
import { toQuery } from "./filters.js";
import { answerCell, correlation, nameCell, pictures, reasons, share, words } from "./rowcells.js";

/**
 * @import { CollectionAbout, CollectionRows, CollectionRow } from "../core/schemas.js"
 * @import { Filters } from "./types.js"
 */

const PAGE = 50; // rows fetched at once
const AHEAD = 2; // pages fetched before they come into view, in the direction of the last scroll
const FAR_AHEAD = 5; // the same where more than FAST rows were passed in each of the last two times between looks
const FAST = 10;
const MOST_ON_WAY = 4; // pages fetched at a time
const KEPT_PAGES = 40; // those looked at last
const HEIGHT = 76; // pixels of a row
const NARROW = 760; // pixels of a window with few columns
const SOON = 60; // milliseconds between two looks at which rows are missing
const DRAWING = 6; // milliseconds of a frame in which rows that have arrived are drawn

/** The table of one collection. */
export class RowTable {
  /** @type {Map<number, CollectionRow[] | null>} pages by number; null while one is on its way */
  #pages = new Map();
  // the rows that Tabulator has drawn, by page: it keeps them when they leave the view
  /** @type {Map<number, Set<any>>} */
  #drawn = new Map();
  #turn = 0; // goes up with each filter: pages of an earlier one are dropped
  #timer = 0;
  #onWay = 0; // pages that are fetched now
  #looked = 0; // time of the last look, in milliseconds
  #seen = 0; // first row in view at the last look
  #fastLooks = 0; // how many looks in a row found that many rows had been passed
  /** @type {any[]} rows of Tabulator that have arrived and are not drawn yet, the next one last */
  #arrived = [];
  /** @type {any} the Tabulator */
  #table = null;

  /**
   * `onOpen(row)` is called for a row that is pressed, `onEnlarge(row)` for its pictures, `onSort(order, descending)` for
   * a column, `onScroll(at)` with the first row in view, `onProblem` where rows do not arrive.
   * @param {HTMLElement} place
   * @param {CollectionAbout} about
   * @param {{onOpen: (row: CollectionRow) => void, onEnlarge: (row: CollectionRow) => void,
   *   onSort: (order: string, descending: boolean) => void, onScroll: (at: number) => void,
   *   onProblem: (problem: unknown) => void}} events
   */
  constructor(place, about, events) {
    this.place = place;
    this.about = about;
    this.events = events;
    this.path = `/api/collections/${encodeURIComponent(about.entry.id)}`;
    /** @type {Filters | null} */
    this.filters = null;
    this.opened = -1; // index of the row that was opened last
  }

  /**
   * Show the rows that a filter leaves, in its order, from the row `at` on; resolves to their number.
   * @param {Filters} filters
   * @param {number} [at]
   * @returns {Promise<number>}
   */
  async show(filters, at = 0) {
    const turn = ++this.#turn;
    const first = Math.floor(at / PAGE);
    const { total, rows } = await this.#fetch(filters, first);
    if (turn !== this.#turn) return total;
    this.filters = filters;
    this.#pages = new Map([[first, rows]]);
    this.#drawn.clear();
    this.#arrived = [];
    const places = Array.from({ length: total }, (_, place) => ({ place }));
    if (this.#table) await this.#table.setData(places);
    else await this.#build(places);
    if (turn !== this.#turn) return total;
    this.#markOrder();
    if (at > 0 && at < total) this.#holder().scrollTop = at * HEIGHT; // Tabulator's scrollToRow lands some rows before
    this.#look();
    return total;
  }

  /**
   * @param {Filters} filters
   * @param {number} page
   * @returns {Promise<CollectionRows>}
   */
  #fetch(filters, page) {
    const query = toQuery(filters, true);
    query.set("offset", String(page * PAGE));
    query.set("limit", String(PAGE));
    return getJSON(`${this.path}/rows?${query}`);
  }

  /** @param {{place: number}[]} places */
  async #build(places) {
    const { Tabulator, FormatModule, InteractionModule, ResizeTableModule } =
      await import("../vendor/tabulator_esm.min.js");
    Tabulator.registerModule([FormatModule, InteractionModule, ResizeTableModule]);
    const node = el("div");
    this.place.replaceChildren(node);
    this.#table = new Tabulator(node, {
      data: places,
      index: "place",
      height: "100%",
      layout: "fitColumns",
      rowHeight: HEIGHT,
      columns: this.#columns(),
      placeholder: "No row is left by these filters.",
      rowFormatter: (/** @type {any} */ row) => this.#mark(row),
    });
    await new Promise((resolve) => this.#table.on("tableBuilt", resolve));
    this.#holder().removeAttribute("tabindex"); // each row has a button, and a grid has nothing but rows
    this.#table.on("rowClick", (/** @type {Event} */ _event, /** @type {any} */ row) => {
      const known = this.#rowAt(row.getData().place);
      if (known) this.events.onOpen(known);
    });
    this.#table.on("scrollVertical", () => {
      this.#timer ||= setTimeout(
        () => {
          this.#timer = 0;
          this.#look();
        },
        Math.max(0, this.#looked + SOON - performance.now()),
      );
    });
  }

  /** @param {any} row */
  #mark(row) {
    const { place } = row.getData();
    const known = this.#rowAt(place);
    const page = Math.floor(place / PAGE);
    this.#drawn.set(page, (this.#drawn.get(page) ?? new Set()).add(row));
    row.getElement().classList.toggle("opened", known?.index === this.opened);
    row.getElement().setAttribute("aria-busy", String(!known));
  }

  /** @param {number} place */
  #rowAt(place) {
    return this.#pages.get(Math.floor(place / PAGE))?.[place % PAGE];
  }

  /**
   * A column whose cells are made of a row by `make`, sorted by `order` where it can be.
   * @param {string} title
   * @param {(row: CollectionRow) => string | HTMLElement} make
   * @param {{order?: string, down?: boolean, width?: number, grow?: number, least?: number, kind?: string,
   *   says?: string, head?: () => HTMLElement}} [options] `says` defines what is in the column, `head` makes its heading
   */
  #column(title, make, { order, down = false, width, grow, least = 60, kind = "", says, head } = {}) {
    return {
      title,
      field: order ?? title,
      width,
      widthGrow: grow,
      minWidth: least,
      cssClass: kind,
      formatter: (/** @type {any} */ cell) => {
        const row = this.#rowAt(cell.getData().place);
        return row ? make(row) : "";
      },
      titleFormatter: () =>
        order
          ? el("button", { type: "button", class: "sort", title: says, data: { order, down: String(down) } }, title)
          : (head?.() ?? title),
      headerClick: () => {
        if (!order || !this.filters) return;
        const { order: now, descending } = this.filters;
        this.events.onSort(order, order === now ? !descending : down);
      },
    };
  }

  #columns() {
    const { entry, methods, method_titles: titles, flags, has_labels: hasLabels, has_masks: hasMasks } = this.about;
    const isNarrow = innerWidth < NARROW;
    const shown = titles.slice(0, isNarrow ? 1 : 3);
    const source = (/** @type {CollectionRow} */ { index }) => addressOf(`${this.path}/thumbnails/${index}.jpg`);
    const input =
      entry.kind === "image"
        ? this.#column("Picture", (row) => pictures(row, source(row), shown, () => this.events.onEnlarge(row)), {
            width: 22 + 78 * (1 + shown.length),
            head: () =>
              el(
                "div",
                { class: "heads" },
                ["Picture", ...shown].map((name) => el("span", {}, name)),
              ),
          })
        : this.#column("Text", words, { grow: 4 });
    const answer = this.#column(hasLabels ? "Answer and label" : "Answer", (row) => answerCell(row), {
      order: "probability",
      down: true,
      grow: 3,
      least: 140,
      says: "Sorted by the probability of the answer",
    });
    const why = this.#column("Suspicion", (row) => reasons(row, flags), {
      order: "suspicion",
      down: true,
      grow: 2,
      least: 140,
      says: this.about.suspicion,
    });
    if (isNarrow)
      return [
        input,
        this.#column("Answer", (row) => el("div", {}, answerCell(row, true), reasons(row, flags)), {
          grow: 1,
          least: 124,
        }),
      ];
    const figure = { kind: "figures", width: 82 };
    return [
      input,
      why,
      answer,
      ...(methods.length > 1
        ? [
            this.#column("Methods agree", (row) => correlation(row.agreement), {
              ...figure,
              order: "agreement",
              says: "Mean rank correlation of the maps: 1 for the same order of the parts, 0 for chance",
            }),
          ]
        : []),
      ...(hasMasks
        ? [
            this.#column("On object", (row) => share(row.maps[0].share_on_object), {
              ...figure,
              order: "on_object",
              says: `Share of the map by ${titles[0]} that lies on the object`,
            }),
          ]
        : []),
      ...(entry.kind === "image"
        ? [
            this.#column("At border", (row) => share(row.maps[0].share_on_border), {
              ...figure,
              order: "on_border",
              down: true,
              says: `Share of the map by ${titles[0]} that lies on the outermost patches`,
            }),
          ]
        : []),
      this.#column("Left without top tenth", (row) => share(row.maps[0].probability_without), {
        ...figure,
        order: "without",
        down: true,
        says: `Probability that is left to the answer when the tenth is hidden that the map by ${titles[0]} marks most`,
      }),
      this.#column("Input", nameCell, { order: "input", grow: 2, least: 110 }),
    ];
  }

  #markOrder() {
    for (const button of this.place.querySelectorAll(".sort")) {
      const { order } = /** @type {HTMLElement} */ (button).dataset;
      const column = button.closest(".tabulator-col");
      const isThis = order === this.filters?.order;
      column?.setAttribute("aria-sort", isThis ? (this.filters?.descending ? "descending" : "ascending") : "none");
    }
  }

  /** Fetch the pages that are missing in view and ahead of it, and tell which row is first. */
  #look() {
    this.#looked = performance.now();
    const visible = this.#table.getRows("visible");
    if (!visible.length) return;
    const [first, last] = [visible[0], visible[visible.length - 1]].map((row) => row.getData().place);
    this.events.onScroll(Math.max(0, Math.round(this.#holder().scrollTop / HEIGHT)));
    const [from, to] = [Math.floor(first / PAGE), Math.floor(last / PAGE)];
    const pages = Array.from({ length: to - from + 1 }, (_, i) => from + i);
    const isUp = first < this.#seen;
    this.#fastLooks = Math.abs(first - this.#seen) > FAST ? this.#fastLooks + 1 : 0;
    const ahead = this.#fastLooks > 1 ? FAR_AHEAD : AHEAD;
    this.#seen = first;
    for (let i = 1; i <= ahead; i++) pages.push(isUp ? from - i : to + i);
    const count = Math.ceil(this.#table.getDataCount() / PAGE);
    for (const page of pages) {
      if (page < 0 || page >= count) continue;
      const known = this.#pages.get(page);
      if (this.#pages.has(page)) {
        this.#pages.delete(page);
        this.#pages.set(page, known ?? null); // the last that was looked at
      } else if (this.#onWay < MOST_ON_WAY) void this.#receive(page);
    }
  }

  #holder() {
    return /** @type {HTMLElement} */ (this.place.querySelector(".tabulator-tableholder"));
  }

  /** @param {number} page */
  async #receive(page) {
    const turn = this.#turn;
    this.#pages.set(page, null);
    this.#onWay++;
    try {
      const { rows } = await this.#fetch(/** @type {Filters} */ (this.filters), page);
      if (turn !== this.#turn) return;
      this.#pages.set(page, rows);
      this.#draw([...(this.#drawn.get(page) ?? [])]);
      for (const number of this.#pages.keys()) {
        if (this.#pages.size <= KEPT_PAGES) break;
        this.#pages.delete(number);
        this.#forget(number);
      }
    } catch (problem) {
      if (turn !== this.#turn) return;
      this.#pages.delete(page);
      this.events.onProblem(problem);
      return;
    } finally {
      this.#onWay--;
    }
    this.#look(); // the view may have moved on while all that may be fetched at a time were on their way
  }

  /**
   * Draw rows that have arrived, those nearest to the view first, some in each frame.
   * @param {any[]} rows
   */
  #draw(rows) {
    const isDrawing = this.#arrived.length > 0;
    this.#arrived.push(...rows);
    const middle = (this.#holder().scrollTop + this.#holder().clientHeight / 2) / HEIGHT;
    const distance = (/** @type {any} */ row) => Math.abs(row.getData().place - middle);
    this.#arrived.sort((a, b) => distance(b) - distance(a));
    if (!isDrawing) this.#drawSome();
  }

  #drawSome() {
    const began = performance.now();
    while (this.#arrived.length && performance.now() - began < DRAWING) this.#arrived.pop().reformat();
    if (this.#arrived.length) requestAnimationFrame(() => this.#drawSome());
  }

  /**
   * Free the pictures of the rows of a page; they are drawn again when they come into view.
   * @param {number} page
   */
  #forget(page) {
    for (const row of this.#drawn.get(page) ?? []) {
      for (const canvas of row.getElement().querySelectorAll("canvas")) canvas.width = 0;
      row.reformat();
    }
    this.#drawn.delete(page);
  }
}
