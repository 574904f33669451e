// The strip of samples that can be tried at once. The Tab key stops at it once; the arrow keys walk along it.

import { byId, el } from "../core/dom.js";

/** @import { Sample } from "../core/schemas.js" */

/** The strip of samples. */
export class Samples {
  /**
   * @param {HTMLElement} root
   * @param {(sample: Sample) => void} onPick
   */
  constructor(root, onPick) {
    this.root = root;
    this.onPick = onPick;
    /** @type {Sample[]} */
    this.all = [];
    root.setAttribute("role", "toolbar");
    root.setAttribute("aria-label", "Samples");
    root.addEventListener("keydown", (event) => this.#walk(event));
    root.addEventListener(
      "focusin",
      ({ target }) => target instanceof Element && this.#stopAt(target.closest("button")),
    );
  }

  get #buttons() {
    return [...this.root.querySelectorAll("button")];
  }

  /**
   * Render the strip.
   * @param {Sample[]} samples
   */
  show(samples) {
    this.all = samples;
    this.root.replaceChildren(...samples.map((sample) => this.#button(sample)));
    this.#stopAt(this.root.firstElementChild);
  }

  /**
   * Mark the sample that is on show, and say what it shows; null where it is none of them.
   * @param {string | null} id
   */
  mark(id) {
    const sample = this.all.find((candidate) => candidate.id === id);
    byId("remark").textContent = sample
      ? [sample.title, sample.note]
          .filter(Boolean)
          .join(". ")
          .replace(/([^.!?])$/, "$1.")
      : "";
    for (const button of this.#buttons) button.setAttribute("aria-pressed", String(button.dataset.id === id));
    if (sample && !this.root.contains(document.activeElement))
      this.#stopAt(this.root.querySelector("[aria-pressed=true]"));
  }

  /**
   * The Tab key stops at this button of the strip.
   * @param {HTMLButtonElement | null | Element | null} button
   */
  #stopAt(button) {
    for (const sibling of this.#buttons) sibling.tabIndex = sibling === button ? 0 : -1;
  }

  /** @param {KeyboardEvent} event */
  #walk(event) {
    const buttons = this.#buttons;
    const at = buttons.findIndex((button) => button === document.activeElement);
    /** @type {{[key: string]: number}} */
    const places = {
      ArrowRight: at + 1,
      ArrowDown: at + 1,
      ArrowLeft: at - 1,
      ArrowUp: at - 1,
      Home: 0,
      End: buttons.length - 1,
    };
    if (at < 0 || !(event.key in places) || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    buttons[Math.min(buttons.length - 1, Math.max(0, places[event.key]))].focus();
  }

  /** @param {Sample} sample */
  #button(sample) {
    const thumbnail = sample.image
      ? el("img", { src: sample.thumbnail, alt: sample.title, width: 48, height: 48 })
      : sample.title;
    return el(
      "button",
      {
        type: "button",
        title: sample.title,
        "aria-pressed": "false",
        data: { id: sample.id },
        on: { click: () => this.onPick(sample) },
      },
      thumbnail,
    );
  }
}
