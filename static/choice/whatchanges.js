// "What would change it?": the class or prompt that the answer is to become, the model's own runners-up first, any other by
// search.

import { sheet } from "../core/menu.js";
import { el, whole } from "../core/dom.js";
import { named } from "../core/search.js";
import { openSearch, otherClasses } from "./otherclasses.js";
import { typeAhead } from "./typeahead.js";

/** @import { ClassEntry, Target } from "../core/schemas.js" */

const NAME = "What would change it?";

/** The choice of the class that the answer is to become. */
export class WhatChanges {
  /** @type {Target[]} */
  #top = [];
  /** @type {ClassEntry[]} */
  #classes = [];

  /**
   * `place` holds the button. The answer is a class, or of a picture and `isOfPrompts` the prompt that fits it best.
   * `search` is called with the label that was chosen.
   * @param {HTMLElement} place
   * @param {boolean} isOfPrompts
   * @param {(label: string) => void} search
   */
  constructor(place, isOfPrompts, search) {
    this.isOfPrompts = isOfPrompts;
    this.what = el("p");
    this.field = typeAhead({
      id: "change-to",
      label: "Search",
      // the answer becomes one class, not a group
      suggest: (text) =>
        otherClasses(this.#classes, this.#top, this.#top[0]?.label, text).filter(({ name }) =>
          this.#classes.some(({ label }) => label === name),
        ),
      onTake: (label) => {
        this.node.open = false;
        this.node.querySelector("summary")?.focus();
        search(label);
      },
      stays: true,
    });
    this.node = sheet(NAME, "What would change the answer?", this.what, this.field.node);
    this.node.classList.add("why");
    openSearch(this.node, this.field);
    place.append(this.node);
  }

  /**
   * Set the classes of the model: {label, group, groups, synonyms} of each.
   * @param {ClassEntry[]} classes
   */
  setClasses(classes) {
    this.#classes = classes;
    this.field.input.placeholder = `one of ${whole(classes.length)} ${this.isOfPrompts ? "prompts" : "classes"}`;
  }

  /**
   * Show the model's answers, as the API gives them; values are no answer that could become another class.
   * @param {Target[]} top
   * @param {string} [output]
   */
  show(top, output) {
    this.#top = top;
    this.node.hidden = this.#classes.length < 2 || output === "regression";
    const first = `“${named(top[0]?.label ?? "…")}”`;
    this.what.textContent = this.isOfPrompts
      ? `${first} fits best. Choose another prompt to see which parts to hide for it.`
      : `The answer is ${first}. Choose another one to see which parts to hide for it.`;
    if (this.node.open) this.field.open();
  }
}
