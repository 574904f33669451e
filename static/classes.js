// What the model says, and the way to any other class: a list of the top classes and a type-ahead over all labels.

import { byId, el, percent } from "./dom.js";

const ROWS = 5;
const SHOWN = 60; // matches that a list shows at once

/** The class or prompt that a target is about, whatever is asked of it. */
export const classOf = (target) => target.of ?? target.label;

/** A target in words. */
export const spoken = (target) => (target.against ? `${target.of} rather than ${target.against}` : classOf(target));

/** What to send to have `target` set against another class, or against none. */
export const setAgainst = (target, label) => ({ against: label, read: label === null ? target.read : null });

/** What to send to have the same asked of `label` as of `target`. */
export const likewise = (target, label) => ({ against: target?.against === label ? null : target?.against, read: target?.read });

/** Labels that match what was typed: those that begin with it, then those with a word that does, then those that contain it. */
export function matches(labels, typed) {
  const text = typed.trim().toLowerCase();
  if (!text) return labels.slice(0, SHOWN);
  const ranks = [[], [], []];
  for (const label of labels) {
    const lower = label.toLowerCase();
    const at = lower.indexOf(text);
    if (at >= 0) ranks[at === 0 ? 0 : /[^\p{L}\p{N}]/u.test(lower[at - 1]) ? 1 : 2].push(label);
  }
  return ranks.flat().slice(0, SHOWN);
}

export class Classes {
  /** `onPick(label)` is called when a class is chosen, `onAgainst(label)` when one to set it against is, with null for none. */
  constructor(root, onPick, onAgainst) {
    this.onPick = onPick;
    this.labels = [];
    this.against = el("select", { id: "against", on: { change: () => onAgainst(this.against.value || null) } });
    this.rather = el("div", { class: "pick", hidden: true }, el("label", { for: "against" }, "Rather than"), this.against);
    this.list = el("ul", { class: "classes", "aria-label": "What the model says" });
    this.pick = this.#typeAhead();
    root.append(this.list, this.pick, this.rather);
  }

  /** `top` and `target` as the API gives them: {label, probability}. The explained class is in the list wherever its probability is known. */
  show(top, target) {
    const rows = top.slice(0, ROWS);
    const label = target && classOf(target);
    if (target?.probability !== undefined && !rows.some((row) => row.label === label)) rows.splice(ROWS - 1, 1, { ...target, label });
    this.list.replaceChildren(...rows.map((row) => this.#row(row, row.label === label)));
    for (const option of this.against.options) option.disabled = option.value === label;
    this.against.value = target?.against ?? "";
  }

  setLabels(labels) {
    this.labels = labels;
    this.pick.hidden = labels.length <= 2;
    this.rather.hidden = labels.length < 2;
    this.against.replaceChildren(el("option", { value: "" }, "no other class"), ...labels.map((label) => el("option", { value: label }, label)));
    byId("other-class").placeholder = `type to find one of ${labels.length}`;
  }

  #row({ label, probability }, pressed) {
    const bar = el("i");
    bar.style.width = `${100 * probability}%`;
    const button = el(
      "button", { type: "button", title: label, "aria-pressed": String(pressed), on: { click: () => this.onPick(label) } },
      el("span", {}, label), el("span", { class: "num" }, percent(probability)), el("span", { class: "bar" }, bar),
    );
    return el("li", {}, button);
  }

  #typeAhead() {
    const input = el("input", { id: "other-class", type: "text", autocomplete: "off", spellcheck: false, role: "combobox", "aria-expanded": "false", "aria-controls": "class-list", "aria-autocomplete": "list" });
    const list = el("ul", { id: "class-list", role: "listbox", "aria-label": "Classes", hidden: true });
    const node = el("div", { class: "pick", hidden: true }, el("label", { for: "other-class" }, "Another class"), input, list);
    let found = [];
    let at = -1;

    const close = () => {
      list.hidden = true;
      at = -1;
      input.setAttribute("aria-expanded", "false");
      input.removeAttribute("aria-activedescendant");
    };
    const select = (next) => {
      at = next;
      [...list.children].forEach((item, i) => item.setAttribute("aria-selected", String(i === at)));
      list.children[at]?.scrollIntoView({ block: "nearest" });
      input.setAttribute("aria-activedescendant", `class-${at}`);
    };
    const open = () => {
      found = matches(this.labels, input.value);
      const items = found.map((label, i) => el("li", { id: `class-${i}`, role: "option", "aria-selected": "false", data: { label } }, label));
      list.replaceChildren(...(items.length ? items : [el("li", { class: "none", role: "option", "aria-disabled": "true", "aria-selected": "false" }, "no class of this model")]));
      const below = innerHeight - input.getBoundingClientRect().bottom;
      node.classList.toggle("up", below < 300 && input.getBoundingClientRect().top > 300);
      list.hidden = false;
      input.setAttribute("aria-expanded", "true");
      if (found.length && input.value.trim()) select(0);
      else at = -1;
    };
    const take = (label) => {
      input.value = "";
      close();
      this.onPick(label);
    };
    input.addEventListener("input", open);
    input.addEventListener("focus", open);
    input.addEventListener("blur", close);
    input.addEventListener("keydown", (event) => {
      if (event.key === "Escape") return void close();
      if (event.key === "Enter" && !list.hidden && found[at]) {
        event.preventDefault();
        return void take(found[at]);
      }
      if (event.key !== "ArrowDown" && event.key !== "ArrowUp") return;
      event.preventDefault();
      if (list.hidden) open();
      if (found.length) select((at + (event.key === "ArrowDown" ? 1 : at < 0 ? 0 : -1) + found.length) % found.length);
    });
    list.addEventListener("pointerdown", (event) => {
      event.preventDefault(); // the field keeps the focus
      const label = event.target.closest("li")?.dataset.label;
      if (label) take(label);
    });
    return node;
  }
}
