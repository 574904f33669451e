// A second text on the Text page: a question has the text that answers it, a classifier may read a premise with a
// hypothesis. Fetched where another model than the one inside is chosen for the first time.

import { byId, el } from "../core/dom.js";
import { Input } from "../inputs/input.js";

/** @import { Model } from "../core/schemas.js" */

/** @typedef {{label: string, placeholder: string, submit: string, rows?: number}} Wording */

/** The wording for texts that may be called a review: the embedded model knows nothing else. */
const REVIEW = { label: "The review to explain", placeholder: "Paste a movie review", submit: "Explain this review" };
const TEXT = { label: "The text to explain", placeholder: "Paste a text", submit: "Explain this text" };

/**
 * @param {Pick<Model, "details" | "embedded">} model
 * @returns {Wording}
 */
function wordingOf({ details, embedded }) {
  if (details?.picture_grid && !details.reads?.includes("text"))
    return { ...TEXT, submit: `Explain what is written from this ${details.reads?.[0] ?? "picture"}` };
  if (details?.picture_grid)
    return { ...TEXT, placeholder: "What is in this picture?", submit: "Ask about this picture" };
  if (!details?.texts) return embedded ? REVIEW : TEXT;
  const [first] = details.texts;
  return { label: `The ${first}`, placeholder: `Write a ${first}`, submit: "Explain the answer", rows: 2 };
}

/**
 * Return whether a model may read two texts together: one whose task has two, or a classifier that somebody brought, of
 * which nobody says whether it was trained on pairs.
 * @param {Pick<Model, "details" | "embedded">} model
 */
const mayReadTwo = ({ details, embedded }) =>
  Boolean(details?.texts) || (!embedded && !details?.task && !details?.picture_grid);

/**
 * Name the field of the text as the model calls it.
 * @param {Pick<Model, "details" | "embedded">} model
 */
function nameText(model) {
  const { label, placeholder, submit, rows = 9 } = wordingOf(model);
  const named = byId("writing").querySelector("label[for=text]");
  named.textContent = label;
  named.classList.toggle("hidden", !model.details?.texts);
  Object.assign(byId("text"), { rows, placeholder });
  byId("writing").querySelector("[type=submit]").textContent = submit;
}

/** The field of the second text, below that of the first; where it may be left out, behind a button. */
export class SecondText {
  #asked = ""; // what was asked about last
  #isRead = false;
  #isNeeded = false; // by the model
  #mayBeRead = false;

  /** @param {() => void} onInput */
  constructor(onInput) {
    this.label = el("label", { for: "text-pair" });
    this.field = el("textarea", { id: "text-pair", dir: "auto", spellcheck: false });
    this.field.addEventListener("input", onInput);
    this.field.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) byId("writing").requestSubmit();
    });
    this.toggle = el("button", { type: "button", class: "act plain", "aria-controls": "second-text" });
    this.toggle.addEventListener("click", () => {
      this.#read(!this.#isRead);
      if (this.#isRead) this.field.focus();
      onInput();
    });
    byId("second-text").append(this.label, this.field);
    byId("writing").querySelector("[type=submit]").after(" ", this.toggle);
  }

  /**
   * Show or hide the field.
   * @param {boolean} isRead
   */
  #read(isRead) {
    this.#isRead = isRead;
    byId("second-text").hidden = !isRead;
    this.toggle.hidden = this.#isNeeded || !(isRead || this.#mayBeRead);
    this.toggle.textContent = isRead ? "Leave the second text out" : "Add a second text";
    this.toggle.setAttribute("aria-expanded", String(isRead));
  }

  /**
   * Call the texts as a model does, and have a field for the second one where the model reads it, or a button for it
   * where it may.
   * @param {Pick<Model, "details" | "embedded">} model
   */
  offer(model) {
    nameText(model);
    const second = model.details?.texts?.[1];
    this.#isNeeded = Boolean(second);
    this.#mayBeRead = mayReadTwo(model);
    this.label.textContent = `The ${second ?? "second text"}`;
    this.field.placeholder = second ? `Paste the ${second}` : "A hypothesis, an answer, the other sentence";
    this.field.rows = second ? 7 : 3;
    this.#read(this.#isNeeded || this.#asked !== "");
  }

  /** Return whether the second text differs from the one that was asked about. */
  get isChanged() {
    return (this.#isRead ? this.field.value : "") !== this.#asked;
  }

  /**
   * The input to ask about: the two texts; null where there is no second one.
   * @param {string} text
   */
  given(text) {
    const second = this.#isRead && this.field.value.trim() ? this.field.value : "";
    this.#asked = second;
    return second ? new Input({ text, second }) : null;
  }

  /**
   * Show the second text that was asked about; "" where there was none.
   * @param {string} text
   */
  fill(text) {
    if (this.isChanged) return; // the person was faster
    this.field.value = this.#asked = text;
    this.#read(this.#isNeeded || this.#isRead || text !== "");
  }
}
