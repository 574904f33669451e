// Which words of the prompt made the model write each word of its answer: a heat table, a row a word of the answer.

import { explanationPath, getJSON } from "../core/api.js";
import { el, number, signedNumber } from "../core/dom.js";
import { isMethod, plateName } from "../core/registry.js";
import { saveCsv } from "../export/csv.js";
import { saveDrawn } from "../export/export.js";
import { nameFor } from "../export/titles.js";
import { cellsOf } from "../maps/scoretable.js";
import { tint } from "../plates/words.js";
import { Newest } from "../progress/newest.js";

/**
 * @import { AnswerTable } from "../core/schemas.js"
 * @import { Finished, Report, Tool, WorkbenchView } from "../plates/types.js"
 * @import { Waiting } from "../progress/waiting.js"
 */

const USUAL = "input_x_gradient:attnlrp"; // the method where none is chosen

/**
 * The words of the answer by the words of the prompt.
 * @param {HTMLElement} root
 * @param {WorkbenchView} workbench
 * @param {Report} report
 * @param {Waiting} asking
 * @returns {Tool}
 */
export const open = (root, workbench, report, asking) => new AnswerWords(root, workbench, report, asking);

class AnswerWords {
  #newest = new Newest();
  /** @type {AnswerTable | null} */
  answer = null;
  subject = /** @type {Finished} */ (/** @type {unknown} */ (null)); // until the first is shown

  /**
   * @param {HTMLElement} root
   * @param {WorkbenchView} workbench
   * @param {Report} report
   * @param {Waiting} asking
   */
  constructor(root, workbench, report, asking) {
    this.workbench = workbench;
    this.report = report;
    this.asking = asking;
    this.tool = workbench.toolStates.of("answertable");
    this.select = el("select", {
      id: "answertable-method",
      on: {
        change: () => {
          this.tool.set({ method: this.select.value || undefined });
          this.#ask().catch(report);
        },
      },
    });
    /**
     * @param {string} text
     * @param {(answer: AnswerTable) => void | Promise<void>} run
     */
    const button = (text, run) =>
      el(
        "button",
        {
          type: "button",
          class: "act plain",
          on: { click: () => this.answer && Promise.resolve(run(this.answer)).catch(report) },
        },
        text,
      );
    this.statusLine = el("p", { class: "correlation", role: "status", "aria-live": "polite" });
    this.table = el("table");
    this.notes = el("div");
    root.replaceChildren(
      el(
        "p",
        { class: "about" },
        "How much each word of the prompt counted for each word of the answer. Colours in a row go up to its own largest score. Words that the model wrote earlier count as input. Press a word of the answer to explain it above.",
      ),
      el(
        "div",
        { class: "take" },
        el("label", { for: this.select.id }, "by"),
        this.select,
        button("CSV", async (answer) => saveCsv(rowsOf(answer), await this.#name())),
        button("PNG", (answer) => this.#save(answer, "png")),
        button("SVG", (answer) => this.#save(answer, "svg")),
      ),
      this.statusLine,
      el(
        "div",
        { class: "listing", tabIndex: 0, role: "region", "aria-label": "Words of the answer by words of the prompt" },
        this.table,
      ),
      this.notes,
    );
    this.table.addEventListener("pointerover", (event) => this.#point(event));
    this.table.addEventListener("pointerleave", () => this.#follow(-1));
    workbench.focus.follow(() => this.#mark());
  }

  /** @param {Finished} subject */
  async show(subject) {
    const isOther = subject.id !== this.subject?.id;
    this.subject = subject;
    const { registry, specs } = this.workbench;
    const plates = specs
      .flatMap((spec) => registry.plate(spec) ?? [])
      .filter((variant) => isMethod(variant) && variant.spec !== USUAL);
    const wanted = this.tool.value.method ?? "";
    this.select.replaceChildren(
      el("option", { value: "" }, plateName(registry.plate(USUAL) ?? { title: USUAL, rule: null })),
      ...plates.map((plate) => el("option", { value: plate.spec, selected: plate.spec === wanted }, plateName(plate))),
    );
    if (isOther) await this.#ask();
  }

  #name() {
    return nameFor(this.subject.id, "answer-table", this.answer?.title ?? "");
  }

  /**
   * Save the table as a picture.
   * @param {AnswerTable} table
   * @param {string} format
   */
  async #save(table, format) {
    const { tableFigure } = await import("../export/tablefigure.js");
    const explanation = await getJSON(explanationPath(this.subject.id));
    await saveDrawn(await tableFigure({ table, explanation }), format, await this.#name());
  }

  async #ask() {
    this.report(null);
    const path = `${explanationPath(this.subject.id)}/answer-table`;
    const body = { method: this.select.value || null };
    /** @type {AnswerTable | undefined} */
    const answer = await this.#newest.ask((signal) => this.asking.ask(path, body, signal));
    if (!answer) return;
    this.answer = answer;
    this.#draw(answer);
  }

  /** @param {AnswerTable} answer */
  #draw({ title, rows, places, columns, logits, scores, signed, notes }) {
    const heads = columns.map((word) => el("th", { scope: "col" }, el("span", {}, word)));
    const asked = this.subject.info.place?.at;
    const drawn = rows.map((word, i) => {
      const cells = cellsOf(scores[i], signed).map(({ text, t, isSigned }, k) => {
        const cell = el("td", { data: { row: i, column: k } }, text);
        tint(cell, t, isSigned);
        return cell;
      });
      const name = el(
        "button",
        {
          type: "button",
          "aria-pressed": String(places[i] === asked),
          title: `Explain “${word}” (logit ${number(logits[i])})`,
          on: { click: () => this.#explain(places[i]) },
        },
        word,
      );
      return el("tr", {}, el("th", { scope: "row" }, name), cells);
    });
    this.table.replaceChildren(
      el("caption", { class: "hidden" }, `Words of the answer by words of the prompt, ${title}`),
      el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "answer"), heads)),
      el("tbody", {}, drawn),
    );
    this.notes.replaceChildren(...notes.map((note) => el("p", { class: "quiet" }, note)));
    this.#describe();
    this.#mark();
  }

  /** @param {string} at */
  #explain(at) {
    void this.workbench.ask({ at, targets: { target: null } });
  }

  /** @param {PointerEvent} event */
  #point({ target }) {
    const cell = target instanceof Element ? /** @type {HTMLElement | null} */ (target.closest("td")) : null;
    this.#describe(Number(cell?.dataset.row ?? -1), Number(cell?.dataset.column ?? -1));
    this.#follow(Number(cell?.dataset.column ?? -1));
  }

  /**
   * Point at a word of the prompt above, too, where words are coloured there.
   * @param {number} at
   */
  #follow(at) {
    const { focus, view } = this.workbench;
    if (view.value.grain === "words" && !focus.value.locked) focus.set({ at });
  }

  /**
   * Describe a cell in words; without one, the strongest of all.
   * @param {number} [row]
   * @param {number} [column]
   */
  #describe(row = -1, column = -1) {
    const { answer } = this;
    if (!answer) return;
    const { rows, columns, scores, signed } = answer;
    const told = row < 0 ? strongest(scores) : [row, column];
    const score = (signed ? signedNumber : number)(scores[told[0]]?.[told[1]] ?? 0);
    const words = `“${rows[told[0]]}” by “${columns[told[1]]}”: ${score}`;
    this.statusLine.textContent = row < 0 ? `Strongest: ${words}` : words;
  }

  #mark() {
    const { focus, view } = this.workbench;
    const at = view.value.grain === "words" ? focus.value.at : -1;
    for (const cell of this.table.querySelectorAll("td"))
      cell.classList.toggle("on", at >= 0 && Number(cell.dataset.column) === at);
  }
}

/**
 * The row and the column of the score that is largest in size.
 * @param {number[][]} scores
 */
function strongest(scores) {
  let best = [0, 0];
  scores.forEach((row, i) =>
    row.forEach((score, k) => {
      if (Math.abs(score) > Math.abs(scores[best[0]][best[1]])) best = [i, k];
    }),
  );
  return best;
}

/**
 * The table as rows of numbers.
 * @param {AnswerTable} answer
 * @returns {(string | number)[][]}
 */
const rowsOf = ({ rows, columns, logits, scores }) => [
  ["word of the answer", "logit", ...columns],
  ...rows.map((word, i) => [word, logits[i], ...scores[i]]),
];
