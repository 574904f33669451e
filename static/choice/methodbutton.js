// The button over the plates that opens the choice of methods, which is fetched when it is first wanted.

import { el, addStyleSheet } from "../core/dom.js";
import { isMethod, Registry } from "../core/registry.js";

/** @import { MethodPicker } from "./methodpicker.js" */

/** The button that opens the choice of methods. */
export class MethodButton {
  /** @type {MethodPicker | null} */
  #panel = null;

  /**
   * The choice opens in `root`. `onChoose(specs)` is called with the chosen specs, `onProblem(problem)` where it cannot
   * be opened.
   * @param {HTMLElement} root
   * @param {(specs: string[]) => void} onChoose
   * @param {(problem: unknown) => void} onProblem
   */
  constructor(root, onChoose, onProblem) {
    this.root = root;
    this.onChoose = onChoose;
    this.onProblem = onProblem;
    this.registry = new Registry();
    /** @type {string[]} */
    this.chosen = [];
    this.button = el("button", {
      type: "button",
      class: "act plain",
      id: "choose-methods",
      "aria-expanded": "false",
      "aria-controls": root.id,
      on: { click: () => this.#setOpen(root.hidden !== false) },
    });
    root.hidden = true;
    document.addEventListener("keydown", (event) => event.key === "Escape" && !event.defaultPrevented && this.#close());
    document.addEventListener("pointerdown", ({ target }) => {
      if (
        target instanceof Node &&
        document.contains(target) &&
        !root.contains(target) &&
        !this.button.contains(target)
      )
        this.#close();
    });
    this.#count();
  }

  /**
   * Set the methods to choose from.
   * @param {Registry} registry
   */
  setRegistry(registry) {
    this.registry = registry;
    this.#panel?.setRegistry(registry);
    this.setChosen(this.chosen);
  }

  /**
   * Tick these and no others.
   * @param {string[]} specs
   */
  setChosen(specs) {
    this.chosen = specs;
    this.#panel?.setTicked(specs);
    this.#count();
  }

  /**
   * Open the fields of a method, filled in as `spec` has them.
   * @param {string} spec
   * @returns {Promise<void>}
   */
  async configure(spec) {
    await this.#setOpen(true);
    this.#panel?.configure(spec);
  }

  /** @param {boolean} open */
  async #setOpen(open) {
    if (!open) return this.#close();
    try {
      this.#panel ??= await this.#load();
    } catch (problem) {
      return this.onProblem(problem);
    }
    this.root.hidden = false;
    this.button.setAttribute("aria-expanded", "true");
    this.#panel?.focus();
  }

  async #load() {
    const [{ MethodPicker }] = await Promise.all([import("./methodpicker.js"), addStyleSheet("workbench/chooser.css")]);
    const panel = new MethodPicker(this.root, (specs) => {
      this.#close();
      this.onChoose(specs);
    });
    panel.setRegistry(this.registry);
    panel.setTicked(this.chosen);
    return panel;
  }

  #close() {
    if (this.root.hidden) return;
    if (this.root.contains(document.activeElement)) this.button.focus();
    this.root.hidden = true;
    this.button.setAttribute("aria-expanded", "false");
    this.#panel?.setTicked(this.chosen);
  }

  #count() {
    const { size } = this.registry;
    const able = this.registry.plates(this.chosen).filter(isMethod);
    const random = this.chosen.length > able.length ? " + random" : ""; // it is no method
    this.button.replaceChildren(
      "Methods ",
      el("span", { class: "num" }, size ? [String(able.length), el("span", { class: "wide" }, random)] : []),
    ); // it keeps its room
    this.button.title = `Choose among ${size} that explain this model`;
  }
}
