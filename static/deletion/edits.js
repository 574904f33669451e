// Words clicked away one by one, or written in another way: what the model says of the text that is left.

import { Waiting } from "../progress/waiting.js";
import { explanationPath } from "../core/api.js";
import { count, el } from "../core/dom.js";
import { showProblem } from "../core/problems.js";
import { ChangeTable } from "../tools/answerchange.js";

/**
 * @import { EditedAnswer, Word } from "../core/schemas.js"
 * @import { WorkbenchView } from "../plates/types.js"
 */

/** @type {{[key: string]: number}} */
const STEPS = { ArrowLeft: -1, ArrowUp: -1, ArrowRight: 1, ArrowDown: 1 };
const LONGEST = 200; // characters in place of a word

/**
 * Read the edits that the address names for a text of this many words: {removed, replaced}.
 * @param {{[part: string]: string}} parts
 * @param {number} words
 */
function readEdits({ removed = "", replaced = "" }, words) {
  /** @param {number} i */
  const known = (i) => Number.isInteger(i) && i >= 0 && i < words;
  /** @type {[number, string][]} */
  const pairs = [...new URLSearchParams(replaced)].map(([i, word]) => [Number(i), word.trim().slice(0, LONGEST)]);
  const written = new Map(pairs.filter(([i, word]) => known(i) && word));
  return {
    removed: new Set(
      removed
        .split(" ")
        .filter(Boolean)
        .map(Number)
        .filter((i) => known(i) && !written.has(i)),
    ),
    replaced: written,
  };
}

/** @param {{removed: Set<number>, replaced: Map<number, string>}} edits */
const writeEdits = ({ removed, replaced }) => ({
  removed: [...removed].sort((a, b) => a - b).join(" ") || undefined,
  replaced: new URLSearchParams([...replaced].map(([i, word]) => [String(i), word])).toString() || undefined,
});

/** The words of the text as buttons, and what the model says without them. */
export class Edits {
  /** @type {AbortController | null} */
  #request = null;
  #isOutdated = false;

  /**
   * @param {HTMLElement} root
   * @param {WorkbenchView} workbench
   */
  constructor(root, workbench) {
    this.root = root;
    this.workbench = workbench;
    this.tool = workbench.toolStates.of("edits");
    this.id = workbench.address.id;
    this.asking = new Waiting();
    /** @type {Word[]} */
    this.words = [];
    /** @type {HTMLButtonElement[]} */
    this.buttons = [];
    this.at = 0;
    this.removed = new Set();
    this.replaced = new Map();
    this.text = el("div", {
      class: "reading editing",
      role: "group",
      "aria-label": "The words of the text: Enter removes a word or puts it back, the arrow keys walk",
      on: { keydown: (event) => this.#walk(event) },
    });
    this.field = el("input", { type: "text", id: "other-word", maxLength: LONGEST, autocomplete: "off" });
    this.label = el("label", { for: "other-word" });
    const replace = el(
      "form",
      { class: "replace", on: { submit: (event) => this.#replace(event) } },
      this.label,
      this.field,
      el("button", { type: "submit", class: "act plain" }, "Write it"),
    );
    this.statusLine = el("p", { class: "num", role: "status" });
    this.change = new ChangeTable();
    this.problem = el("div");
    const reset = el(
      "button",
      { type: "button", class: "act plain", on: { click: () => this.#reset() } },
      "Put all back",
    );
    root.append(
      el("h2", {}, "Remove words"),
      el(
        "p",
        { class: "quiet" },
        "Click a word to remove it from what the model reads; click again to put it back. Or write another word in its place.",
      ),
      this.text,
      el("div", { class: "row" }, replace, reset),
      this.statusLine,
      this.asking.node,
      this.problem,
      this.change.node,
    );
    workbench.subject.follow((now, before) => {
      if (now.id !== before.id) this.#render();
      else if (now.done) this.#ask();
    });
    this.#render();
  }

  /** Show another text: nothing is edited, except as the address says. */
  #render() {
    this.#request?.abort();
    const { id, info } = this.workbench.subject.value;
    const input = info?.input.kind === "text" ? info.input : null;
    this.words = input?.words ?? [];
    const texts = [input?.text ?? "", input?.text_pair ?? "", input?.answer ?? ""];
    /** @type {(string | Node)[]} */
    const parts = [];
    let place = 0;
    let part = 0;
    this.buttons = this.words.map((word, i) => {
      if ((word.part ?? 0) !== part) {
        parts.push(texts[part].slice(place), "\n");
        [place, part] = [0, word.part ?? 0];
      }
      const button = el(
        "button",
        {
          type: "button",
          class: "word",
          tabIndex: i ? -1 : 0,
          "aria-pressed": "false",
          data: { w: i },
          on: { click: () => this.#toggle(i), focus: () => this.#choose(i) },
        },
        texts[part].slice(word.start, word.end),
      );
      parts.push(texts[part].slice(place, word.start), button);
      place = word.end;
      return button;
    });
    this.text.replaceChildren(...parts, texts[part].slice(place));
    const { removed, replaced } =
      id && id === this.id ? readEdits(this.tool.value, this.words.length) : readEdits({}, 0);
    this.id = id ?? this.id;
    this.removed = removed;
    this.replaced = replaced;
    this.#choose(0);
    this.#changed();
  }

  #reset() {
    this.removed.clear();
    this.replaced.clear();
    this.#choose(0);
    this.#changed();
  }

  /**
   * Choose word `i` as the one that the field edits.
   * @param {number} i
   */
  #choose(i) {
    this.at = i;
    this.buttons.forEach((button, k) => (button.tabIndex = k === i ? 0 : -1));
    this.label.textContent = this.words[i] ? `In place of “${this.words[i].text}”` : "In place of a word";
    this.field.value = this.replaced.get(i) ?? "";
  }

  /** @param {number} i */
  #toggle(i) {
    if (this.removed.has(i)) this.removed.delete(i);
    else this.removed.add(i);
    this.replaced.delete(i);
    this.#choose(i);
    this.#changed();
  }

  /** @param {Event} event */
  #replace(event) {
    event.preventDefault();
    const other = this.field.value.trim();
    if (other && other !== this.words[this.at].text) this.replaced.set(this.at, other);
    else this.replaced.delete(this.at);
    this.removed.delete(this.at);
    this.#changed();
  }

  /** @param {KeyboardEvent} event */
  #walk(event) {
    const step = STEPS[event.key];
    if (!step || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    this.buttons[Math.min(this.buttons.length - 1, Math.max(0, this.at + step))]?.focus();
  }

  #changed() {
    this.buttons.forEach((button, i) => {
      button.setAttribute("aria-pressed", String(this.removed.has(i)));
      button.classList.toggle("replaced", this.replaced.has(i));
      button.textContent = this.replaced.get(i) ?? this.words[i].text;
    });
    if (this.workbench.subject.value.id) this.tool.set(writeEdits(this));
    this.#ask();
  }

  /** Ask about the edited text; while an answer is on its way, once more when it has come. */
  async #ask() {
    const { id, info, done } = this.workbench.subject.value;
    if (!id || !info || !done) return void this.#show(null);
    if (this.#request && !this.#request.signal.aborted) return void (this.#isOutdated = true);
    const request = (this.#request = new AbortController());
    this.#isOutdated = false;
    const remove = [...this.removed].sort((a, b) => a - b).flatMap((i) => this.words[i].tokens);
    const body = {
      target: info.targets[0].label,
      remove,
      ...(this.replaced.size ? { replace: Object.fromEntries(this.replaced) } : {}),
    };
    const edited = this.removed.size + this.replaced.size;
    try {
      const answer = await this.asking.ask(`${explanationPath(id)}/deletion-test`, body, request.signal);
      if (request.signal.aborted) return;
      showProblem(this.problem, null);
      this.#show(answer, edited);
    } catch (problem) {
      if (problem.name === "AbortError") return;
      this.workbench.report(problem, this.problem);
    }
    this.#request = null;
    if (this.#isOutdated) this.#ask();
  }

  /**
   * @param {EditedAnswer | null} answer
   * @param {number} [edited]
   */
  #show(answer, edited = 0) {
    const { info } = this.workbench.subject.value;
    this.statusLine.textContent = edited
      ? `${count(this.removed.size, "word")} removed, ${count(this.replaced.size, "word")} rewritten`
      : "as it was written";
    this.root.dataset.edited = String(edited);
    this.change.show(info?.top ?? [], answer?.top ?? []);
  }
}
