// The list of prompts: one a line, pasted as several lines at once, or taken from a ready set of the sample.

import { el } from "../core/dom.js";
import { most } from "../core/limits.js";
import { classOf } from "../core/targets.js";
import { withTerms } from "../help/terms.js";

/** @import { Target } from "../core/schemas.js" */

/**
 * What the model finds of a prompt: whether, its share among the prompts ("" for none), more on hover, and the length
 * of its bar, 0 to 1.
 * @typedef {{says: string, share: string, more: string, level: number}} PromptFinding
 */

/** The prompts that a picture is asked about. */
export class Prompts {
  /**
   * `describe(target, count)` says what the model finds of a prompt, one of so many; `onAsk()` is called when the list
   * shall be looked for.
   * @param {HTMLElement} root
   * @param {{describe: (target: Target, count: number) => PromptFinding, onAsk: () => void}} callbacks
   */
  constructor(root, { describe, onAsk }) {
    this.describe = describe;
    this.onAsk = onAsk;
    this.isWritten = false;
    this.origin = el("p", { class: "quiet origin", hidden: true });
    this.rows = el("div", { class: "rows" });
    this.add = el(
      "button",
      { type: "button", class: "act plain", on: { click: () => this.#row("").querySelector("input")?.focus() } },
      "Add a prompt",
    );
    this.full = el("p", { class: "quiet", role: "status" });
    this.sets = el("p", { class: "sets", hidden: true });
    root.append(
      el("h2", {}, "Prompts"),
      this.origin,
      this.rows,
      this.full,
      el("div", { class: "give" }, el("button", { type: "submit", class: "act" }, "Look for these"), this.add),
      this.sets,
    );
    root.addEventListener("submit", (event) => {
      event.preventDefault();
      onAsk();
    });
    this.rows.addEventListener("paste", (event) => this.#paste(event));
    this.rows.addEventListener("input", () => {
      this.isWritten = true;
      this.origin.hidden = true;
    });
    this.#row("");
    root.classList.add("waiting"); // how many there are is not known yet, and nothing that is seen shall move
    this.root = root;
  }

  /**
   * The prompts, each once.
   * @returns {string[]}
   */
  get all() {
    return [...new Set([...this.rows.querySelectorAll("input")].map((field) => field.value.trim()).filter(Boolean))];
  }

  /**
   * The prompts that are explained, as the API gives them. What was written since they were asked for stays.
   * @param {Target[]} targets
   */
  show(targets) {
    const answers = new Map(targets.map((target) => [classOf(target), this.describe(target, targets.length)]));
    const focused = [...this.rows.querySelectorAll("input")].findIndex((input) => input === document.activeElement);
    const prompts = this.isWritten ? this.all : [...answers.keys()];
    this.rows.replaceChildren();
    for (const prompt of prompts.length ? prompts : [""]) this.#row(prompt, answers.get(prompt));
    if (focused >= 0) this.rows.querySelectorAll("input")[focused]?.focus();
    this.#count();
  }

  /** Stop showing that the list waits to be filled. */
  known() {
    this.root.classList.remove("waiting");
  }

  /** Mark the prompts as asked for: what comes back may replace them. */
  markAsked() {
    this.isWritten = false;
  }

  /**
   * Fill the list in; `origin` says where the prompts come from, if they were not written or chosen here.
   * @param {string[]} prompts
   * @param {string} [origin]
   */
  set(prompts, origin = "") {
    this.origin.textContent = origin;
    this.origin.hidden = !origin;
    this.isWritten = false;
    this.rows.replaceChildren();
    for (const prompt of prompts.slice(0, most("targets"))) this.#row(prompt);
    this.#count(prompts.length);
  }

  /**
   * Offer ready sets to take: [{name, prompts}].
   * @param {{name: string, prompts: string[]}[]} [sets]
   */
  offer(sets = []) {
    /** @param {string[]} prompts */
    const take = (prompts) => {
      this.set(prompts);
      this.onAsk();
    };
    this.sets.hidden = !sets.length;
    this.sets.replaceChildren(
      "Ready: ",
      ...sets.map(({ name, prompts }) =>
        el(
          "button",
          { type: "button", class: "more", title: prompts.join("\n"), on: { click: () => take(prompts) } },
          name,
        ),
      ),
    );
  }

  /**
   * @param {string} prompt
   * @param {PromptFinding} [answer]
   */
  #row(prompt, answer) {
    this.root?.classList.remove("waiting");
    const field = el("input", {
      type: "text",
      value: prompt,
      maxLength: 200,
      "aria-label": "Prompt",
      placeholder: "a photo of a zebra",
    });
    const remove = el(
      "button",
      { type: "button", "aria-label": "Remove this prompt", title: "Remove", on: { click: () => this.#drop(row) } },
      "×",
    );
    const bar = el("i");
    const likeness = el("span", { class: "likeness" });
    const tell = () => {
      const known = field.value === prompt ? answer : null; // what was found of other words is not said of these
      likeness.replaceChildren(
        el("span", {}, ...withTerms(known?.says ?? "\u00a0")),
        el("span", { class: "share" }, ...withTerms(known?.share ?? "")),
      );
      likeness.title = known?.more ?? "";
      bar.style.width = `${100 * (known?.level ?? 0)}%`;
    };
    field.addEventListener("input", tell);
    tell();
    const row = el("div", { class: "entry" }, field, remove, likeness, el("span", { class: "bar" }, bar));
    this.rows.append(row);
    this.#count();
    return row;
  }

  /** @param {HTMLDivElement} row */
  #drop(row) {
    this.isWritten = true;
    row.remove();
    if (!this.rows.children.length) this.#row("");
    this.#count();
    this.rows.lastElementChild?.querySelector("input")?.focus();
  }

  /**
   * Several lines become several prompts; one line is pasted as anywhere.
   * @param {ClipboardEvent} event
   */
  #paste(event) {
    const lines = (event.clipboardData?.getData("text") ?? "")
      .split(/\r?\n/)
      .map((line) => line.trim())
      .filter(Boolean);
    if (lines.length < 2) return;
    event.preventDefault();
    event.stopPropagation();
    this.set([...new Set([...this.all, ...lines])]);
    this.isWritten = true;
    this.rows.lastElementChild?.querySelector("input")?.focus();
  }

  #count(wanted = 0) {
    this.add.disabled = this.rows.children.length >= most("targets");
    this.full.textContent =
      wanted > most("targets")
        ? `At most ${most("targets")} prompts at once: the first ${most("targets")} of ${wanted} are there.`
        : "";
  }
}
