// What the model says, and the way to any other class: a list of the top classes, which can be compared side by side, a
// type-ahead over all labels, why it was not another one, and which number of a class is explained.

import { more } from "../core/controls.js";
import { answered, el, whole } from "../core/dom.js";
import { most } from "../core/limits.js";
import { groupsOf, named, suggestions } from "../core/search.js";
import { aloneOf } from "../core/targets.js";
import { sameKindOfTarget, readChoice, readOf, sent, setAgainst } from "./targetoptions.js";
import { typeAhead } from "./typeahead.js";
import { WhyNot } from "./whynot.js";

/**
 * @import { ClassEntry, Target } from "../core/schemas.js"
 * @import { Wish } from "../core/types.js"
 */

const ROWS = 5;
const LINGER = 300; // milliseconds in which the click of a finger follows its press
const OVER_LINE = "over:0.5"; // a target: every label over this probability
/** The meaning of the numbers in the list, where they are not shares of one whole, by the kind of output. */
/** @type {{[output: string]: string}} */
const MEANS = {
  sigmoid: "Each label has a probability of its own.",
  regression: "These are the numbers that the model predicts, not shares of 100 %.",
};
const LOGITS_OF_ANSWER = "Sums of the logits of the answer's tokens."; // the numbers of a model that writes

/** @param {string} text */
const asTyped = (text) => (text.trim() ? [{ name: text.trim(), shown: text.trim() }] : []);

/** The list of the model's answers, and the choice of the classes that are explained. */
export class Classes {
  /**
   * `explain(labels, asked)` is called with the chosen classes, and with what is asked of each: {against, read}, where
   * against null means no other class and read null the logit. Room is kept for the type-ahead where there are `many`
   * classes.
   * @param {HTMLElement} root
   * @param {(labels: string[], asked: Wish) => void} explain
   * @param {boolean} [many]
   */
  constructor(root, explain, many = true) {
    this.explain = (/** @type {string[]} */ labels, /** @type {Wish} */ asked) => explain(...sent(labels, asked));
    /** @type {ClassEntry[]} */
    this.known = [];
    this.groups = new Map();
    /** @type {Target[]} */
    this.top = [];
    /** @type {Target[]} */
    this.targets = [];
    this.whyNot = new WhyNot(
      (label) => this.explain(this.chosen, setAgainst(this.targets[0], label)),
      () => this.explain(this.chosen, { against: null, read: "finer" }),
    );
    this.read = readChoice((read) => this.explain(this.chosen, { against: null, read }), true);
    this.overLine = el(
      "button",
      {
        type: "button",
        class: "act plain",
        title: "Side by side, most likely first",
        on: { click: () => this.explain([OVER_LINE], { against: null, read: null }) },
      },
      "every label of at least 50 %",
    );
    this.overLine.hidden = true;
    this.list = el("ul", { class: "classes", "aria-label": "What the model says" });
    this.rows = new Map(); // label -> row
    this.#waitForPresses();
    this.means = el("p", { class: "quiet" });
    this.means.hidden = true;
    this.against = el("p", { class: "against", hidden: true });
    this.other = typeAhead({
      id: "other-class",
      label: "Another class",
      suggest: (text) => (this.isOpen ? asTyped(text) : suggestions(this.known, text)),
      onTake: (label) => this.#addFound(label),
    });
    this.isOpen = false;
    this.other.node.hidden = !many;
    const columns = el(
      "p",
      { class: "quiet columns", "aria-hidden": "true" },
      (this.heading = el("span", {}, "the model says")),
      el("span", {}, "side by side"),
    );
    const [button, box] = more(
      "more-asking",
      "Ask more",
      "Ask more",
      this.other.node,
      el("div", { class: "asking" }, this.read.node, this.overLine),
    );
    this.box = box; // room for more to ask
    root.append(el("div", { class: "answers" }, columns, this.list, this.against), this.means, button, box);
  }

  /**
   * The explained classes.
   * @returns {string[]}
   */
  get chosen() {
    return [...new Set(this.targets.map(aloneOf))];
  }

  /**
   * Show `top`, `targets` and `output` as the API gives them. The explained classes are in the list, except for
   * differences of two.
   * @param {Target[]} top
   * @param {Target[]} targets
   * @param {string} [output]
   * @param {boolean} [isGuess] whether the model says that it has no answer: these are what it would say all the same
   * @param {boolean} [isWritten] whether they are words of an answer that the model wrote
   */
  show(top, targets, output = "softmax", isGuess = false, isWritten = false) {
    this.heading.textContent = isGuess ? "no answer; its nearest guess" : "the model says";
    this.isGuess = isGuess;
    this.top = top;
    this.targets = targets;
    this.output = output;
    const means = isWritten && output === "regression" ? LOGITS_OF_ANSWER : MEANS[output];
    this.means.textContent = means ?? "";
    this.means.hidden = !means;
    this.read.node.hidden = output === "regression"; // a value has no probability
    this.overLine.hidden = output !== "sigmoid"; // of shares of one whole one alone can be over it
    if (this.isOpen) this.other.node.hidden = top.length < 2;
    const others = targets
      .map((target) => ({ ...target, label: aloneOf(target) }))
      .filter((target) => !target.against && !top.slice(0, ROWS).some(({ label }) => label === target.label));
    const rows = [...top.slice(0, Math.max(ROWS - others.length, Math.min(ROWS, top.length) - 1)), ...others];
    this.#render(rows.slice(0, ROWS));
    this.whyNot.show(top, targets);
    this.#showAgainst(targets[0]);
    this.read.select.value = readOf(targets[0]) ?? "logit";
    this.read.select.disabled = Boolean(targets[0]?.against);
    this.other.label.textContent = `${this.chosen.length > 1 ? "Add a" : "Another"} class${this.groups.size ? " or group" : ""}`;
  }

  /**
   * Show the class that every choice is set against, with a button that removes it.
   * @param {Target} target
   */
  #showAgainst(target) {
    const other = target?.against;
    this.against.hidden = !other;
    if (!other) return void this.against.replaceChildren();
    const name = named(other);
    this.against.replaceChildren(
      el("span", {}, `rather than ${name}`),
      el(
        "button",
        {
          type: "button",
          class: "plain",
          "aria-label": `No longer rather than ${name}`,
          title: "Explain the class alone",
          on: { click: () => this.explain(this.chosen, setAgainst(target, null)) },
        },
        "×",
      ),
    );
  }

  /** Restore the list to what is explained, after something else was asked for in vain. */
  restore() {
    if (this.targets.length) this.show(this.top, this.targets, this.output, this.isGuess);
  }

  /**
   * Choose `label` alone.
   * @param {string} label
   */
  #selectOnly(label) {
    this.explain([label], sameKindOfTarget(this.targets[0], label));
  }

  /**
   * Explain a class that was found: it replaces the explained one, or is added to several.
   * @param {string} label
   */
  #addFound(label) {
    if (this.chosen.length > 1) this.#setSelected(label, true);
    else this.#selectOnly(label);
  }

  /**
   * Add `label` to the explained classes, or remove it from them.
   * @param {string} label
   * @param {boolean} on
   */
  #setSelected(label, on) {
    const labels = on ? [...this.chosen, label] : this.chosen.filter((other) => other !== label);
    this.explain(labels, { against: null, read: readOf(this.targets[0]) });
  }

  /**
   * Set the classes of the model: their labels and, where they are known, {label, group, groups, synonyms} of each.
   * @param {string[]} labels
   * @param {ClassEntry[]} [classes]
   * @param {boolean} [isOpen] whether each place has classes of its own, such as a vocabulary: one is typed
   */
  setLabels(labels, classes = labels.map((label) => ({ label })), isOpen = false) {
    this.known = classes;
    this.isOpen = isOpen;
    this.groups = groupsOf(classes);
    this.groupOf = new Map(classes.map(({ label, group }) => [label, group]));
    this.rows = new Map(); // the same label may be of another group
    this.other.node.hidden = labels.length <= 2;
    this.whyNot.setClasses(classes);
    this.other.input.placeholder = isOpen ? "type one" : `type to find one of ${whole(labels.length)}`;
  }

  /**
   * Render these answers in the list. A class that stays keeps its row, and with it the focus; while a row is pressed
   * none is removed, so that the press reaches the class that was in sight.
   * @param {Target[]} answers
   */
  #render(answers) {
    this.late = this.pressed ? answers : null;
    if (this.late) return;
    const before = this.rows;
    this.rows = new Map(answers.map(({ label }) => [label, before.get(label) ?? this.#row(label)]));
    const nodes = [...this.rows.values()].map(({ node }) => node);
    for (const node of [...this.list.children]) if (!nodes.includes(node)) node.remove();
    answers.forEach((answer, i) => {
      if (this.list.children[i] !== nodes[i]) this.list.insertBefore(nodes[i], this.list.children[i] ?? null);
      this.#fill(answer);
    });
  }

  /** While a pointer or a key presses on the list, new answers wait until the click that follows is heard. */
  #waitForPresses() {
    this.pressed = false;
    this.late = null; // the answers that wait
    let waiting = 0;
    /** @param {number} after */
    const release = (after) => {
      clearTimeout(waiting);
      waiting = setTimeout(() => {
        this.pressed = false;
        if (this.late) this.#render(this.late);
      }, after);
    };
    for (const name of ["pointerdown", "keydown"])
      this.list.addEventListener(name, () => {
        clearTimeout(waiting);
        this.pressed = true;
      });
    this.list.addEventListener("change", () => release(0));
    this.list.addEventListener("click", () => release(0)); // once it is heard
    for (const name of ["pointerup", "pointercancel", "keyup", "blur"])
      addEventListener(name, () => {
        release(LINGER);
      });
  }

  /**
   * Make an empty row for a class.
   * @param {string} label
   */
  #row(label) {
    const number = el("span", { class: "num" });
    const bar = el("i");
    const button = el(
      "button",
      { type: "button", title: named(label), on: { click: () => this.#selectOnly(label) } },
      el("span", { class: "name" }, el("span", {}, named(label)), this.#group(label)),
      number,
      el("span", { class: "bar" }, bar),
    );
    const tick = el("input", {
      type: "checkbox",
      "aria-label": `${named(label)} next to the others`,
      on: { change: () => this.#setSelected(label, tick.checked) },
    });
    const node = el("li", {}, button, el("label", { class: "tick", title: "Set side by side" }, tick));
    return { node, button, number, bar, tick };
  }

  /**
   * Fill the row of a class: the model's answer, and whether the class is explained.
   * @param {Target} answer
   */
  #fill(answer) {
    const { button, number, bar, tick } = this.rows.get(answer.label);
    const { chosen } = this;
    const isExplained = chosen.includes(answer.label);
    button.setAttribute("aria-pressed", String(isExplained));
    number.textContent = answered(answer);
    bar.style.width = `${100 * (answer.probability ?? 0)}%`;
    tick.checked = isExplained;
    // one has to stay, and the server takes no more than so many
    tick.disabled = isExplained ? chosen.length === 1 : chosen.length >= most("targets");
  }

  /**
   * The everyday group of a class, shown next to its label.
   * @param {string} label
   */
  #group(label) {
    const group = this.groupOf?.get(label);
    return group && group !== label && el("span", { class: "quiet group" }, ` ${group}`);
  }
}
