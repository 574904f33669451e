// What would change the answer to another class: the parts to hide, as few as were found, what the model says without
// them, and the input without them.

import { explanationPath } from "../core/api.js";
import { el, unbroken } from "../core/dom.js";
import { showProblem } from "../core/problems.js";
import { Waiting } from "../progress/waiting.js";
import { ChangeTable } from "./answerchange.js";
import { isNear, nextAnswerLine, sentencesOf } from "./changesentences.js";
import { showWithout } from "./inputwithout.js";

/**
 * @import { Counterfactual, Target } from "../core/schemas.js"
 * @import { Started } from "../core/types.js"
 * @import { WorkbenchView } from "../plates/types.js"
 */

/** @type {{[kind: string]: string[]}} */
const PARTS = {
  image: ["patch", "patches"],
  clip: ["patch", "patches"],
  text: ["word", "words"],
  molecule: ["atom", "atoms"],
};

/**
 * The first classes, and those of `labels` that are not among them.
 * @param {Target[]} top
 * @param {string[]} labels
 * @param {{[label: string]: number}} probabilities
 * @returns {Target[]}
 */
const withClasses = (top, labels, probabilities) => [
  ...top,
  ...labels
    .filter((name) => !top.some(({ label }) => label === name))
    .map((label) => ({ label, probability: probabilities[label], logit: NaN })),
];

/** The panel over the plates that shows what would change the answer. */
export class CounterfactualPanel {
  #turn = 0;

  /** @param {WorkbenchView} workbench */
  constructor(workbench) {
    this.workbench = workbench;
    this.tool = workbench.toolStates.of("counterfactual");
    this.asking = new Waiting("at least");
    this.title = el("h2", { id: "counterfactual-title" });
    this.says = el("p", { class: "now", role: "status", "aria-live": "polite" });
    this.more = el("p");
    this.next = el("p", { class: "next", role: "status" });
    this.honest = el("p", { class: "quiet" });
    this.problem = el("div");
    this.shown = el("div", { class: "changed" });
    this.change = new ChangeTable(workbench.kind === "clip" ? "prompt" : "class");
    const close = el(
      "button",
      { type: "button", class: "act plain", "aria-label": "Close", on: { click: () => this.close() } },
      "×",
    );
    this.answer = el("div", {}, this.says, this.more, this.next, this.change.node, this.honest);
    this.result = el("div", { class: "result" }, this.shown, this.answer);
    this.node = el(
      "section",
      { class: "counterfactual", "aria-labelledby": "counterfactual-title", hidden: true },
      el("div", { class: "panel-head" }, this.title, close),
      this.asking.node,
      this.problem,
      this.result,
    );
  }

  close() {
    this.#turn++;
    this.asking.drop();
    this.node.hidden = true;
    this.tool.set({ open: undefined, to: undefined });
  }

  /**
   * Search what would make the answer of the explanation on show this class.
   * @param {string} to
   */
  async search(to) {
    const { id, info } = this.workbench.subject.value;
    if (!id || !info) return;
    const turn = ++this.#turn;
    this.asking.drop();
    this.tool.set({ open: true, to });
    this.title.textContent =
      this.workbench.kind === "clip" ? `What would make “${to}” fit best?` : `What would change the answer to “${to}”?`;
    this.says.textContent = this.more.textContent = this.next.textContent = this.honest.textContent = "";
    this.result.hidden = true;
    this.node.hidden = false;
    showProblem(this.problem, null);
    try {
      /** @type {Counterfactual} */
      const found = await this.asking.ask(`${explanationPath(id)}/counterfactual`, { to });
      if (turn !== this.#turn) return;
      await this.#show(found, id, info);
      if (!isNear(found)) await this.#lookAtNext(to, id, info, turn);
    } catch (problem) {
      if (turn === this.#turn && problem.name !== "AbortError") this.workbench.report(problem, this.problem);
    }
  }

  /**
   * Where the answer cannot be made what was wanted, say whether the next one can be reached, and offer to show how.
   * @param {string} to
   * @param {string} id
   * @param {Started} info
   * @param {number} turn of the search
   */
  async #lookAtNext(to, id, { top, targets }, turn) {
    const [, ...others] = [...(top ?? targets)].sort((a, b) => (b.probability ?? b.logit) - (a.probability ?? a.logit));
    const next = others.find(({ label }) => label !== to);
    if (!next) return;
    this.next.textContent = `Looking whether “${next.label}”, the next answer, can be reached …`;
    /** @type {Counterfactual} */
    const found = await this.asking.ask(`${explanationPath(id)}/counterfactual`, { to: next.label });
    if (turn !== this.#turn) return;
    const show = el(
      "button",
      { type: "button", class: "link", on: { click: () => void this.search(next.label) } },
      "Show how",
    );
    this.next.replaceChildren(
      `${nextAnswerLine(found, PARTS[this.workbench.kind][1])} `,
      ...(isNear(found) ? [show] : []),
    );
  }

  /**
   * @param {Counterfactual} found
   * @param {string} id
   * @param {Started} info
   */
  async #show(found, id, info) {
    const { says, more, honest } = sentencesOf(found, PARTS[this.workbench.kind]);
    this.result.hidden = false;
    this.says.replaceChildren(...unbroken(says));
    this.more.replaceChildren(...unbroken(more));
    this.honest.textContent = honest;
    const both = [found.answer, found.to];
    this.change.show(
      withClasses(info.top ?? info.targets, [...both, ...found.top.map(({ label }) => label)], found.before),
      withClasses(found.top, both, found.after),
    );
    this.node.dataset.hidden = String(found.hidden.length);
    const grid = this.workbench.received.find((map) => map.grid)?.grid ?? [1, 1];
    await showWithout(this.shown, { id, input: info.input, grid, hidden: new Set(found.hidden.flat()) });
  }
}
