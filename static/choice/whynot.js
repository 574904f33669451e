// "Why not another class?": the explained class is set against another one, the model's own runners-up first, any other
// by search.

import { sheet } from "../core/menu.js";
import { byId, el, whole } from "../core/dom.js";
import { groupsOf, named } from "../core/search.js";
import { aloneOf } from "../core/targets.js";
import { openSearch, otherClasses } from "./otherclasses.js";
import { typeAhead } from "./typeahead.js";

/** @import { ClassEntry, Target } from "../core/schemas.js" */

const FEW = 8; // classes that need no search
const NAME = "Why not another class?";

/** The choice of the class that the explained one is set against. */
export class WhyNot {
  /** @type {{top: Target[], targets: Target[]}} */
  #subject = { top: [], targets: [] };
  /** @type {ClassEntry[]} */
  #classes = [];

  /**
   * `explain(label)` is called with the class to set against the explained one; null: none. `explainFiner()` is called
   * for its nearest kinds.
   * @param {(label: string | null) => void} explain
   * @param {() => void} explainFiner
   */
  constructor(explain, explainFiner) {
    this.what = el("p");
    this.finer = el(
      "button",
      {
        type: "button",
        class: "act plain",
        title: "FinerCAM: the logit minus 0.6 times the mean of the three nearest other logits",
        on: {
          click: () => {
            this.node.open = false;
            explainFiner();
          },
        },
      },
      "against its nearest kinds",
    );
    this.field = typeAhead({
      id: "against",
      label: "Search",
      suggest: (text) => this.#suggest(text),
      onTake: (label) => this.#choose(explain, label),
      stays: true,
    });
    this.node = sheet(NAME, NAME, this.what, this.finer, this.field.node);
    this.node.classList.add("why");
    openSearch(this.node, this.field);
    byId("why").append(this.node);
  }

  /**
   * Set the classes of the model: {label, group, groups, synonyms} of each.
   * @param {ClassEntry[]} classes
   */
  setClasses(classes) {
    this.#classes = classes;
    this.node.hidden = classes.length < 2;
    this.field.input.placeholder = `one of ${whole(classes.length)} classes`;
    this.field.input.hidden = this.field.label.hidden = classes.length <= FEW && !groupsOf(classes).size;
  }

  /**
   * Show the model's answer and the explained classes, as the API gives them.
   * @param {Target[]} top
   * @param {Target[]} targets
   */
  show(top, targets) {
    this.#subject = { top, targets };
    const isSeveral = targets.length > 1;
    const [first] = targets;
    this.what.textContent = isSeveral
      ? "You see several classes side by side. Choose one of them first."
      : `Choose a class to see what speaks for “${first ? named(aloneOf(first)) : "…"}” rather than for it.`;
    this.field.node.hidden = this.finer.hidden = isSeveral;
    if (this.node.open) this.field.open();
  }

  /**
   * @param {(label: string | null) => void} explain
   * @param {string} label
   */
  #choose(explain, label) {
    this.node.open = false;
    this.node.querySelector("summary")?.focus();
    explain(label || null);
  }

  /** @param {string} text */
  #suggest(text) {
    const {
      top,
      targets: [first],
    } = this.#subject;
    const explained = first && aloneOf(first);
    const others = otherClasses(this.#classes, top, explained, text);
    if (text.trim() || !first?.against) return others;
    return [{ name: "", shown: `no other class: “${named(aloneOf(first))}” alone` }, ...others];
  }
}
