// The list of prompts: one a line, pasted as several lines at once, or taken from a ready set of the sample.

import { classOf, MOST } from "./classes.js";
import { el } from "./dom.js";

export class Prompts {
  /** `told(target)` says what the model finds of a prompt; `onAsk()` is called when the list shall be looked for. */
  constructor(root, { told, onAsk }) {
    Object.assign(this, { told, onAsk });
    this.rows = el("div", { class: "rows" });
    this.add = el("button", { type: "button", class: "act plain", on: { click: () => this.#row("").querySelector("input").focus() } }, "Add a prompt");
    this.full = el("p", { class: "quiet", role: "status" });
    this.sets = el("p", { class: "sets", hidden: true });
    root.append(el("h2", {}, "Prompts"), this.rows, this.full, el("div", { class: "give" }, el("button", { type: "submit", class: "act" }, "Look for these"), this.add), this.sets);
    root.addEventListener("submit", (event) => {
      event.preventDefault();
      onAsk();
    });
    this.rows.addEventListener("paste", (event) => this.#paste(event));
    this.#row("");
    root.classList.add("waiting"); // how many there are is not known yet, and nothing that is seen shall move
    this.root = root;
  }

  /** The prompts, each once. */
  get all() {
    return [...new Set([...this.rows.querySelectorAll("input")].map((field) => field.value.trim()).filter(Boolean))];
  }

  /** The prompts that are explained, as the API gives them. */
  show(targets) {
    this.rows.replaceChildren();
    for (const target of targets) this.#row(classOf(target), target);
    this.#count();
  }

  /** Fill the list in. */
  set(prompts) {
    this.rows.replaceChildren();
    for (const prompt of prompts.slice(0, MOST)) this.#row(prompt);
    this.#count(prompts.length);
  }

  /** Ready sets to take: [{name, prompts}]. */
  offer(sets = []) {
    const take = (prompts) => {
      this.set(prompts);
      this.onAsk();
    };
    this.sets.hidden = !sets.length;
    this.sets.replaceChildren("Ready: ", ...sets.map(({ name, prompts }) => el("button", { type: "button", class: "more", title: prompts.join("\n"), on: { click: () => take(prompts) } }, name)));
  }

  #row(prompt, target = null) {
    this.root?.classList.remove("waiting");
    const field = el("input", { type: "text", value: prompt, maxLength: 200, "aria-label": "Prompt", placeholder: "a zebra" });
    const remove = el("button", { type: "button", "aria-label": "Remove this prompt", title: "Remove", on: { click: () => this.#drop(row) } }, "×");
    const bar = el("i");
    bar.style.width = `${100 * (target?.probability ?? 0)}%`;
    const row = el("div", { class: "entry" }, field, remove, el("span", { class: "likeness" }, target ? this.told(target) : "\u00a0"), el("span", { class: "bar" }, bar));
    this.rows.append(row);
    this.#count();
    return row;
  }

  #drop(row) {
    row.remove();
    if (!this.rows.children.length) this.#row("");
    this.#count();
    this.rows.lastChild.querySelector("input").focus();
  }

  /** Several lines become several prompts; one line is pasted as anywhere. */
  #paste(event) {
    const lines = (event.clipboardData?.getData("text") ?? "").split(/\r?\n/).map((line) => line.trim()).filter(Boolean);
    if (lines.length < 2) return;
    event.preventDefault();
    event.stopPropagation();
    this.set([...new Set([...this.all, ...lines])]);
    this.rows.lastChild.querySelector("input").focus();
  }

  #count(wanted = 0) {
    this.add.disabled = this.rows.children.length >= MOST;
    this.full.textContent = wanted > MOST ? `At most ${MOST} prompts at once: the first ${MOST} of ${wanted} are there.` : "";
  }
}
