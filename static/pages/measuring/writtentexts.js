// On the Collection page: texts that are written into a field, one a line, in place of a file.

import { getJSON, sendBytes } from "../../core/api.js";
import { count, el } from "../../core/dom.js";

/** @import { MeasurableDataset, Samples } from "../../core/schemas.js" */

/**
 * The texts of a field: a line each, without the empty ones.
 * @param {string} text
 * @returns {string[]}
 */
export const linesOf = (text) =>
  text
    .split(/\r\n?|\n/)
    .map((line) => line.trim())
    .filter(Boolean);

/**
 * The sentences of a text.
 * @param {string} text
 * @returns {string[]}
 */
export const sentencesOf = (text) =>
  linesOf(text.replace(/\s+/g, " ").replace(/([.!?]["”’)]*) (?=["“(]?[A-Z])/g, "$1\n"));

/** A field for texts, which are sent as a file would be. */
export class WrittenTexts {
  #most = Infinity;

  /**
   * `onWritten` is called when the texts have changed.
   * @param {() => void} onWritten
   */
  constructor(onWritten) {
    this.onWritten = onWritten;
    this.field = el("textarea", {
      id: "written-texts",
      rows: 7,
      spellcheck: false,
      dir: "auto",
      placeholder: "One text a line",
      on: { input: () => this.#changed() },
    });
    this.says = el("span", { class: "quiet", role: "status" });
    const fill = el(
      "button",
      { type: "button", class: "act plain", on: { click: () => void this.#fill() } },
      "Put in sample sentences",
    );
    this.place = el(
      "div",
      { class: "sent written", hidden: true },
      el("label", { for: "written-texts" }, "Your texts, one a line"),
      this.field,
      el("div", { class: "row" }, fill, this.says),
    );
  }

  /** @returns {string[]} */
  get texts() {
    return linesOf(this.field.value);
  }

  /** True where there are texts, and no more than may be sent. */
  get isReady() {
    const { length } = this.texts;
    return length > 0 && length <= this.#most;
  }

  /** @param {number} most texts that may be sent */
  limits(most) {
    this.#most = most;
  }

  #changed() {
    const { length } = this.texts;
    const tooMany = length > this.#most ? `: at most ${this.#most} can be sent` : "";
    this.says.textContent = length ? `${count(length, "text")}${tooMany}` : "";
    this.onWritten();
  }

  /** Put the sentences of the Text page's film reviews into the field: several short texts have words in common. */
  async #fill() {
    /** @type {Samples} */
    const { samples } = await getJSON("/api/samples");
    const reviews = samples.filter(({ kind, image }) => kind === "text" && !image).map(({ text }) => text ?? "");
    this.field.value = [...this.texts, ...reviews.flatMap(sentencesOf)].join("\n");
    this.#changed();
  }

  /**
   * Send the texts; resolves to the name of the data set that they are. Rejects with the Problem.
   * @returns {Promise<string>}
   */
  async send() {
    const rows = this.texts.map((text) => `${JSON.stringify({ text })}\n`);
    const file = new Blob(rows, { type: "application/jsonl" });
    /** @type {MeasurableDataset} */
    const { name } = await sendBytes(
      `/api/runs/data?name=${encodeURIComponent(`${count(rows.length, "text")}.jsonl`)}`,
      file,
    );
    return name;
  }
}
