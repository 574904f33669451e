// The Collection page: a table of many inputs, the most suspicious first; filters, a confusion matrix and a plane of
// embeddings; a press on a row opens the workbench, and Back returns to the same rows.

import "./frame.js";
import { confusionMatrix } from "../collection/confusion.js";
import { enlarge } from "../collection/enlarged.js";
import { FilterBar } from "../collection/filterbar.js";
import { ALL, readFilters, toQuery } from "../collection/filters.js";
import { openRow } from "../collection/opening.js";
import { Plane } from "../collection/plane.js";
import { showReliedWords } from "../collection/reliedwords.js";
import { RowTable } from "../collection/rowtable.js";
import { getJSON } from "../core/api.js";
import { addressOf, byId, count, el, percent, say, whole } from "../core/dom.js";
import { reportProblem, showProblem } from "../core/problems.js";
import { CollectionForm } from "./measuring/collectionform.js";
import { SlicesSearch } from "./measuring/slicessearch.js";

/**
 * @import { CollectionAbout, CollectionEntry, CollectionList, CollectionRow, Selection } from "../core/schemas.js"
 * @import { Filters } from "../collection/types.js"
 */

/** @type {{[order: string]: string}} the orders of the table in words */
const ORDERS = {
  suspicion: "suspicion",
  input: "name",
  label: "label",
  answer: "answer",
  probability: "the probability of the answer",
  agreement: "how far the methods agree",
  on_object: "the share of the map on the object",
  on_border: "the share of the map at the border",
  without: "the probability that is left without the top tenth",
};
const PAUSE = 200; // milliseconds: a browser bears only so many changes of the address

/** @param {unknown} problem */
const report = (problem) => reportProblem(problem, byId("problem"));

/**
 * How the rows are sorted, in a sentence.
 * @param {CollectionAbout} about
 * @param {Filters} filters
 */
function orderInWords({ suspicion }, { order, descending }) {
  const isText = order === "input" || order === "label" || order === "answer";
  const first = isText ? (descending ? "from Z to A" : "from A to Z") : `${descending ? "largest" : "smallest"} first`;
  return order === ALL.order && descending ? suspicion : `Sorted by ${ORDERS[order] ?? order}, ${first}.`;
}

/** One collection on the page. */
class CollectionView {
  #turn = 0; // goes up with each change of the filters: answers to an earlier one are dropped
  #timer = 0;
  #isOpening = false;
  /** @type {string | null} the space whose points are on show */
  #space = null;

  /**
   * @param {CollectionAbout} about
   * @param {Filters} filters
   * @param {number} at the first row in view
   * @param {number} opened index of the row that was opened last
   */
  constructor(about, filters, at, opened) {
    this.about = about;
    this.filters = filters;
    this.at = at;
    this.path = `/api/collections/${encodeURIComponent(about.entry.id)}`;
    this.bar = new FilterBar(byId("filters"), about, (change) => void this.change(change));
    const thumbnails = about.entry.kind === "image" ? `${this.path}/thumbnails/` : null;
    this.plane = new Plane(byId("plane"), thumbnails, (box) => void this.change({ box }));
    this.table = new RowTable(byId("rows"), about, {
      onOpen: (row) => void this.#open(row),
      onEnlarge: (row) => enlarge(about, this.path, row, () => void this.#open(row)).catch(report),
      onSort: (order, descending) => void this.change({ order, descending }),
      onScroll: (first) => this.#remember(first),
      onProblem: report,
    });
    this.table.opened = opened;
    for (const radio of document.querySelectorAll("[name=space]"))
      radio.addEventListener("change", () => {
        const { value } = /** @type {HTMLInputElement} */ (radio);
        void this.change({ space: value === "maps" ? "maps" : "inputs", box: null });
      });
  }

  /**
   * Change the filters, and show what they leave.
   * @param {Partial<Filters>} change
   */
  async change(change) {
    this.filters = { ...this.filters, ...change };
    this.at = 0;
    await this.show();
  }

  /** Show the rows that the filters leave. */
  async show() {
    const turn = ++this.#turn;
    const { filters } = this;
    this.bar.show(filters);
    byId("suspicion").textContent = orderInWords(this.about, filters);
    this.#write();
    byId("rows").setAttribute("aria-busy", "true");
    say("status", "Reading the rows …");
    try {
      const [selection] = await Promise.all([
        getJSON(`${this.path}/selection?${toQuery(filters, false)}`),
        this.table.show(filters, this.at),
        this.#showPlane(filters),
      ]);
      if (turn !== this.#turn) return;
      showProblem(byId("problem"), null);
      this.#sum(selection);
    } catch (problem) {
      if (turn === this.#turn) {
        report(problem);
        say("status", "");
      }
    }
    if (turn === this.#turn) byId("rows").setAttribute("aria-busy", "false");
  }

  /** @param {Filters} filters */
  async #showPlane({ space }) {
    for (const radio of document.querySelectorAll("[name=space]"))
      /** @type {HTMLInputElement} */ (radio).checked = /** @type {HTMLInputElement} */ (radio).value === space;
    if (this.#space === space) return;
    this.#space = space;
    await this.plane.show(await getJSON(`${this.path}/points?space=${space}`));
  }

  /** @param {Selection} selection */
  #sum({ total, right, wrong, flags, confusion, indices }) {
    const { rows } = this.about.entry;
    const of = total === rows ? count(rows, "row") : `${whole(total)} of ${whole(rows)} rows`;
    const judged = right + wrong;
    say("status", judged ? `${of}, ${percent(right / judged)} right` : of);
    this.bar.count(flags);
    this.plane.mark(indices, this.filters.box);
    byId("confused").hidden = byId("key-wrong").hidden = !this.about.has_labels;
    const press = (/** @type {string | null} */ label, /** @type {string | null} */ answer) =>
      void this.change({ label, answer });
    byId("confusion").replaceChildren(confusionMatrix(confusion, this.filters, press));
  }

  /** @param {number} first */
  #remember(first) {
    this.at = first;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#write(), PAUSE);
  }

  /** Write the state into the address, from which Back returns to it. */
  #write() {
    const query = toQuery(this.filters, true);
    query.set("c", this.about.entry.id);
    if (this.at) query.set("at", String(this.at));
    if (this.table.opened >= 0) query.set("row", String(this.table.opened));
    history.replaceState(history.state, "", `${location.pathname}?${query}`);
  }

  /** @param {CollectionRow} row */
  async #open(row) {
    if (this.#isOpening) return;
    const { reason } = this.about;
    if (reason) return showProblem(byId("problem"), { title: "This row cannot be opened", detail: reason });
    this.#isOpening = true;
    say("status", `Asking ${this.about.entry.model} about ${row.input} …`);
    try {
      const address = await openRow(this.about, row);
      this.table.opened = row.index;
      clearTimeout(this.#timer);
      this.#write();
      location.assign(addressOf(address));
    } catch (problem) {
      report(problem);
      say("status", "");
    }
    this.#isOpening = false;
  }
}

/**
 * The select of collections, and a sentence where there is none.
 * @param {CollectionEntry[]} collections
 * @param {string | undefined} current
 */
function offer(collections, current) {
  const select = byId("which");
  select.replaceChildren(
    ...(current === undefined ? [el("option", { value: "", disabled: true, selected: true }, "Choose one")] : []),
    ...collections.map(({ id, title, model, rows }) =>
      el("option", { value: id, selected: id === current }, `${title} · ${model} · ${count(rows, "row")}`),
    ),
  );
  select.addEventListener("change", () => openCollection(select.value));
  byId("chosen").hidden = !collections.length;
  byId("none").hidden = collections.length > 0;
}

/**
 * Say which places most rows of an answer share, each with a link to these rows; of rows with labels the right ones
 * count, as in a slice.
 * @param {CollectionAbout} about
 */
function showPlaces({ entry, shared_places: places, has_labels: hasLabels }) {
  byId("places").hidden = !places.length;
  byId("places").replaceChildren(
    ...places.map(({ answer, place, rows, of }) => {
      const query = new URLSearchParams({ c: entry.id, answer, flag: "shared_place" });
      if (hasLabels) query.set("right", "true");
      const says = `${rows} of ${of} rows ${hasLabels ? "rightly " : ""}answered “${answer}” have much of their evidence ${place}.`;
      return el("li", {}, `${says} `, el("a", { href: `${location.pathname}?${query}` }, "Show them"));
    }),
  );
}

/** @param {string | null} id of the collection to show; null: whichever is first */
const openCollection = (id) => location.assign(location.pathname + (id === null ? "" : `?c=${encodeURIComponent(id)}`));

async function begin() {
  const query = new URLSearchParams(location.search);
  try {
    /** @type {CollectionList} */
    const list = await getJSON("/api/collections");
    const { collections } = list;
    const model = query.get("model");
    new CollectionForm(openCollection, model).show(list);
    // a link that brings a model is about inputs that nobody has given yet
    const id = query.get("c") ?? (model === null ? collections[0]?.id : undefined);
    offer(collections, id);
    const opened = collections.find((entry) => entry.id === id);
    if (opened) byId("opening").textContent = `Reading ${count(opened.rows, "row")} of ${opened.title} …`;
    byId("opening").hidden = !id;
    if (!id) return void byId("rows").setAttribute("aria-busy", "false");
    /** @type {CollectionAbout} */
    const about = await getJSON(`/api/collections/${encodeURIComponent(id)}`);
    byId("opening").hidden = true;
    byId("unknown-labels").textContent = about.unknown_labels;
    byId("unknown-labels").hidden = !about.unknown_labels;
    showPlaces(about);
    new SlicesSearch(id).show(about);
    byId("view").hidden = false;
    const filters = query.has("c") ? readFilters(query) : ALL;
    const view = new CollectionView(about, filters, Number(query.get("at")) || 0, Number(query.get("row") ?? -1));
    await Promise.all([
      view.show(),
      showReliedWords(about, view.path, (word) => void view.change({ word })).catch(report),
    ]);
  } catch (problem) {
    byId("opening").hidden = true;
    report(problem);
    byId("rows").setAttribute("aria-busy", "false");
  }
}

void begin();
