// "What would change it?" on a page: the choice of the class or prompt that the answer is to become, and what was found.

import { addStyleSheet, byId } from "../core/dom.js";
import { WhatChanges } from "../choice/whatchanges.js";

/**
 * @import { ClassEntry, Target } from "../core/schemas.js"
 * @import { CounterfactualPanel } from "../tools/counterfactual.js"
 * @import { Input } from "../inputs/input.js"
 * @import { Workbench } from "./workbench.js"
 */

/** The choice and its panel, which is fetched when it is first asked for. */
export class AnswerChange {
  /** @type {Promise<CounterfactualPanel> | undefined} once it was asked */
  #panel;
  /** @type {Input | null} */
  #input = null; // whose answer it is about

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
   * Show the answers of the model to `input`, the first one first; what was found for another input is closed.
   * @param {Target[]} top
   * @param {string | undefined} output
   * @param {Input | null} input
   */
  show(top, output, input) {
    this.choice.show(top, output);
    if (this.#input !== input) void this.#panel?.then((panel) => panel.close());
    this.#input = input;
  }

  /**
   * Search what would change the answer to this class, and show it under the sentence over the plates.
   * @param {string} to
   */
  async #search(to) {
    this.#panel ??= Promise.all([
      import("../tools/counterfactual.js"),
      addStyleSheet("tools/counterfactual.css"),
      addStyleSheet("workbench/ranks.css"),
    ]).then(([{ CounterfactualPanel }]) => {
      const panel = new CounterfactualPanel(this.workbench);
      byId("overview").after(panel.node);
      return panel;
    });
    await (await this.#panel).search(to);
  }
}
