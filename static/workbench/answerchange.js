// "What would change it?" on a page: the choice of the class or prompt that the answer is to become, and what was found.

import { addStyleSheet, byId } from "../core/dom.js";
import { WhatChanges } from "../choice/whatchanges.js";

/**
 * @import { ClassEntry, Target } from "../core/schemas.js"
 * @import { CounterfactualPanel } from "../tools/counterfactual.js"
 * @import { Input } from "../inputs/input.js"
 * @import { ModelInfo } from "./types.js"
 * @import { Workbench } from "./workbench.js"
 */

/** The choice and its panel, which is fetched when it is first asked for. */
export class AnswerChange {
  /** @type {Promise<CounterfactualPanel> | undefined} once it was asked */
  #panel;
  /** @type {Input | null} */
  #input = null; // whose answer it is about
  /** @type {ModelInfo | null} */
  #model = null; // of whose model
  #explained = ""; // and what of it the maps explain

  /**
   * `place` holds the button.
   * @param {Workbench} workbench
   * @param {HTMLElement} place
   */
  constructor(workbench, place) {
    this.workbench = workbench;
    this.choice = new WhatChanges(place, workbench.kind === "clip", (to) => void this.#search(to));
    const asked = workbench.toolStates.of("counterfactual").value;
    const stop = workbench.subject.follow(({ done }) => {
      if (!done) return;
      stop();
      if (asked.open && asked.to) void this.#search(asked.to); // as the address says
    });
  }

  /**
   * Set what the answer can become.
   * @param {ClassEntry[]} classes
   */
  setClasses(classes) {
    this.choice.setClasses(classes);
  }

  /**
   * Show the answers of a model to `input`, the first one first; what was found for another model, another input or
   * while something else was `explained` is closed.
   * @param {Target[]} top
   * @param {string | undefined} output
   * @param {Input | null} input
   * @param {ModelInfo | null} [model]
   * @param {Target[]} [explained]
   */
  show(top, output, input, model = null, explained = []) {
    this.choice.show(top, output);
    const names = explained.map(({ label }) => label).join("\n");
    const isSame = this.#input === input && this.#model === model && this.#explained === names;
    if (!isSame) void this.#panel?.then((panel) => panel.close());
    [this.#input, this.#model, this.#explained] = [input, model, names];
  }

  /**
   * Search what would change the answer to this class, and show it under the sentence over the plates.
   * @param {string} to
   */
  async #search(to) {
    this.#panel ??= Promise.all([
      import("../tools/counterfactual.js"),
      addStyleSheet("tools/counterfactual.css"),
      addStyleSheet("tools/inputwithout.css"),
      addStyleSheet("workbench/ranks.css"),
    ]).then(([{ CounterfactualPanel }]) => {
      const panel = new CounterfactualPanel(this.workbench);
      byId("overview").after(panel.node);
      return panel;
    });
    await (await this.#panel).search(to);
  }
}
