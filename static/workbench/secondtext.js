// A second text on the Text page, for models that read two together: a question and the text that answers it. Fetched
// where such a model is chosen for the first time.

import { byId, el } from "../core/dom.js";
import { Input } from "../inputs/input.js";

/** @import { ModelDetails } from "../core/schemas.js" */

/** The field of the second text, below that of the first. */
export class SecondText {
  #asked = ""; // what was asked about last
  #isRead = false;

  /** @param {() => void} onInput */
  constructor(onInput) {
    this.label = el("label", { for: "text-pair" });
    this.field = el("textarea", { id: "text-pair", dir: "auto", rows: 7, spellcheck: false });
    this.field.addEventListener("input", onInput);
    this.field.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) byId("writing").requestSubmit();
    });
    byId("second-text").append(this.label, this.field);
  }

  /**
   * Have a field for each of the two texts that a model of these details reads, called as it calls them.
   * @param {ModelDetails | undefined} details
   */
  offer(details) {
    const wasRead = this.#isRead;
    this.#isRead = Boolean(details?.texts);
    if (!wasRead && !this.#isRead) return;
    const [first, second] = details?.texts ?? ["", ""];
    byId("second-text").hidden = !this.#isRead;
    this.label.textContent = `The ${second}`;
    const label = byId("writing").querySelector("label[for=text]");
    label.classList.toggle("hidden", !this.#isRead);
    label.textContent = this.#isRead ? `The ${first}` : "The review to explain";
    Object.assign(byId("text"), {
      rows: this.#isRead ? 2 : 9,
      placeholder: this.#isRead ? `Write a ${first}` : "Paste a movie review",
    });
    this.field.placeholder = `Paste the ${second}`;
    byId("writing").querySelector("[type=submit]").textContent = this.#isRead
      ? "Explain the answer"
      : "Explain this review";
  }

  /** Whether there is another text than was asked about. */
  get isChanged() {
    return this.#isRead && this.field.value !== this.#asked;
  }

  /**
   * What to ask about: the two texts; null where there is no second one.
   * @param {string} text
   */
  given(text) {
    if (!this.#isRead || !this.field.value.trim()) return null;
    this.#asked = this.field.value;
    return new Input({ text, second: this.field.value });
  }

  /**
   * Put a text into the field that was asked about.
   * @param {string} text
   */
  fill(text) {
    if (this.isChanged) return; // the person was faster
    this.field.value = this.#asked = text;
  }
}
