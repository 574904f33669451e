// How much of the logit of each word of an answer came from the picture, the prompt and what was written before it.

import { explanationPath } from "../core/api.js";
import { el, number } from "../core/dom.js";
import { csvButton } from "../export/csv.js";
import { nameFor } from "../export/titles.js";
import { cellsOf } from "../maps/scoretable.js";
import { tint } from "../plates/words.js";
import { Newest } from "../progress/newest.js";

/**
 * @import { PriorOrPixels } from "../core/schemas.js"
 * @import { Finished, Report, Tool, WorkbenchView } from "../plates/types.js"
 * @import { Waiting } from "../progress/waiting.js"
 */

/** @typedef {PriorOrPixels["original"]} LogitShares */

/**
 * The words of the answer by the parts of their logits.
 * @param {HTMLElement} root
 * @param {WorkbenchView} workbench
 * @param {Report} report
 * @param {Waiting} asking
 * @returns {Tool}
 */
export const open = (root, workbench, report, asking) => new LogitParts(root, workbench, report, asking);

class LogitParts {
  #newest = new Newest();
  /** @type {PriorOrPixels | null} */
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
    this.statusLine = el("p", { class: "correlation", role: "status", "aria-live": "polite" });
    this.table = el("table");
    this.notes = el("div");
    root.replaceChildren(
      el(
        "p",
        { class: "about" },
        "The shares of a row add up to its logit. The second row of a word is for the same picture painted grey. What stays there does not come from what the picture shows. Compare the shares of one word, not those of two words. Press a word to explain it above.",
      ),
      el(
        "p",
        { class: "take" },
        csvButton(
          () => (this.answer ? rowsOf(this.answer) : []),
          () => nameFor(this.subject.id, "prior-or-pixels"),
          report,
        ),
      ),
      this.statusLine,
      el("div", { class: "listing", tabIndex: 0, role: "region", "aria-label": "Shares of the logits" }, this.table),
      this.notes,
    );
  }

  /** @param {Finished} subject */
  async show(subject) {
    if (subject.id === this.subject?.id) return;
    this.subject = subject;
    this.report(null);
    const path = `${explanationPath(subject.id)}/prior-or-pixels`;
    /** @type {PriorOrPixels | undefined} */
    const answer = await this.#newest.ask((signal) => this.asking.ask(path, {}, signal));
    if (answer) this.#draw(answer);
  }

  /** @param {PriorOrPixels} answer */
  #draw(answer) {
    const { words, places, parts, original, grey, notes } = answer;
    this.answer = answer;
    const asking = this.subject.info.place?.at;
    const bodies = words.map((word, i) => {
      const name = el(
        "button",
        {
          type: "button",
          "aria-pressed": String(places[i] === asking),
          title: `Explain “${word}”`,
          on: { click: () => void this.workbench.ask({ at: places[i], targets: { target: null } }) },
        },
        word,
      );
      return el("tbody", {}, [
        rowOf(el("th", { scope: "row" }, name), original, i),
        ...(grey ? [rowOf(el("th", { scope: "row", class: "grey" }, "painted grey"), grey, i)] : []),
      ]);
    });
    this.table.replaceChildren(
      el("caption", { class: "hidden" }, "Words of the answer by the parts of their logits"),
      el("thead", {}, el("tr", {}, ...["answer", "logit", ...parts].map((text) => el("th", { scope: "col" }, text)))),
      ...bodies,
    );
    this.statusLine.textContent = grey ? changeOf(words, original, grey) : "";
    this.notes.replaceChildren(...notes.map((note) => el("p", { class: "quiet" }, note)));
  }
}

/**
 * A row of the table: its head, the logit, and its shares in colours up to the largest of them.
 * @param {HTMLElement} head
 * @param {LogitShares} side
 * @param {number} i the word
 */
function rowOf(head, { logits, shares }, i) {
  const cells = cellsOf(shares[i], true).map(({ text, t, isSigned }) => {
    const cell = el("td", {}, text);
    tint(cell, t, isSigned);
    return cell;
  });
  return el("tr", {}, head, el("td", {}, number(logits[i])), ...cells);
}

/**
 * A sentence on the word whose logit changes most when the picture is painted grey.
 * @param {string[]} words
 * @param {LogitShares} original
 * @param {LogitShares} grey
 */
function changeOf(words, original, grey) {
  const changes = words.map((_, i) => Math.abs(original.logits[i] - grey.logits[i]));
  const most = changes.indexOf(Math.max(...changes));
  return `What the picture shows changes “${words[most]}” most: its logit is ${number(original.logits[most])}, and ${number(grey.logits[most])} with the picture painted grey.`;
}

/**
 * The table as rows of numbers.
 * @param {PriorOrPixels} answer
 * @returns {(string | number)[][]}
 */
function rowsOf({ words, parts, original, grey }) {
  /** @type {[string, LogitShares][]} */
  const sides = [["as it is", original], ...(grey ? [/** @type {[string, LogitShares]} */ (["grey", grey])] : [])];
  return [
    ["word of the answer", "picture", "logit", ...parts, "missing"],
    ...words.flatMap((word, i) =>
      sides.map(([name, { logits, shares, missing }]) => [word, name, logits[i], ...shares[i], missing[i]]),
    ),
  ];
}
