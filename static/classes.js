// What the model says, and the way to any other class: a list of the top classes, which can be set beside each other, a type-ahead over
// all labels, and which number of a class is explained.

import { more } from "./controls.js";
import { byId, el, percent } from "./dom.js";

const ROWS = 5;
const SHOWN = 60; // matches that a list shows at once
export const MOST = 8; // classes or prompts that the server takes at once

/** The class or prompt that a target is about, whatever is asked of it. */
export const classOf = (target) => target.of ?? target.label;

/** A target in words. */
export const spoken = (target) => (target.against ? `${target.of} rather than ${target.against}` : classOf(target));

/** Several targets in words, for between quotation marks; no longer than a heading may be. */
export const spokenAll = (targets) => (targets.length > 2 ? `${spoken(targets[0])} … and ${targets.length - 1} more` : targets.map(spoken).join("”, “"));

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

/** Which number of a target is explained; `onRead` is told "logit" or "probability". */
export function readChoice(onRead) {
  const names = { logit: "the logit", probability: "the probability" };
  const select = el("select", { id: "read", on: { change: () => onRead(select.value) } }, Object.entries(names).map(([value, name]) => el("option", { value }, name)));
  return { select, node: el("div", { class: "pick" }, el("label", { for: "read" }, "What is explained"), select) };
}

export class Classes {
  /**
   * `explain(labels, asked)` is called with the classes that are chosen, and with what is asked of each: {against, read}, where
   * against null is no other class and read null the logit. Room is kept for the type-ahead where there are `many` classes.
   */
  constructor(root, explain, many = true) {
    Object.assign(this, { explain, labels: [], top: [], targets: [] });
    this.against = el("select", { id: "against", on: { change: () => explain(this.chosen, setAgainst(this.targets[0], this.against.value || null)) } });
    this.rather = el("div", { class: "pick" }, el("label", { for: "against" }, "Rather than"), this.against);
    this.read = readChoice((read) => explain(this.chosen, { against: null, read }));
    this.list = el("ul", { class: "classes", "aria-label": "What the model says" });
    this.pick = this.#typeAhead();
    this.pick.hidden = !many;
    this.find = this.pick.querySelector("label");
    const hint = el("p", { class: "quiet" }, "Tick two or more to set them side by side.");
    const [button, box] = more("more-asking", "Ask more", "Ask more", hint, this.pick, el("div", { class: "asking" }, this.rather, this.read.node));
    this.box = box; // room for more to ask
    root.append(this.list, button, box);
  }

  /** The explained classes. */
  get chosen() {
    return [...new Set(this.targets.map(classOf))];
  }

  /** `top` and `targets` as the API gives them: {label, probability}. The explained classes are in the list wherever their probability is known. */
  show(top, targets) {
    Object.assign(this, { top, targets });
    const { chosen } = this;
    const others = targets.map((target) => ({ ...target, label: classOf(target) })).filter((one) => one.probability !== undefined && !top.slice(0, ROWS).some(({ label }) => label === one.label));
    const rows = [...top.slice(0, Math.max(ROWS - others.length, Math.min(ROWS, top.length) - 1)), ...others];
    this.list.replaceChildren(...rows.map((row) => this.#row(row, chosen.includes(row.label))));
    for (const option of this.against.options) option.disabled = option.value === chosen[0];
    this.against.value = targets[0]?.against ?? "";
    this.against.disabled = chosen.length > 1;
    this.read.select.value = targets[0]?.read ?? "logit";
    this.read.select.disabled = Boolean(targets[0]?.against);
    this.find.textContent = chosen.length > 1 ? "Add a class" : "Another class";
  }

  /** Show again what is explained, where something else was asked for in vain. */
  restore() {
    if (this.targets.length) this.show(this.top, this.targets);
  }

  /** Choose `label` alone. */
  #only(label) {
    this.explain([label], likewise(this.targets[0], label));
  }

  /** Set `label` beside the others, or take it away from them. */
  #beside(label, on) {
    const labels = on ? [...this.chosen, label] : this.chosen.filter((one) => one !== label);
    this.explain(labels, { against: null, read: this.targets[0]?.read });
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
      "button", { type: "button", title: label, "aria-pressed": String(pressed), on: { click: () => this.#only(label) } },
      el("span", {}, label), el("span", { class: "num" }, percent(probability)), el("span", { class: "bar" }, bar),
    );
    const { chosen } = this;
    const stuck = pressed ? chosen.length === 1 : chosen.length >= MOST; // one has to stay, and the server takes no more than so many
    const tick = el("input", { type: "checkbox", checked: pressed, disabled: stuck, "aria-label": `${label} beside the others`, on: { change: () => this.#beside(label, tick.checked) } });
    return el("li", {}, button, el("label", { class: "tick", title: "Set side by side" }, tick));
  }

  #typeAhead() {
    const input = el("input", { id: "other-class", type: "text", autocomplete: "off", spellcheck: false, role: "combobox", "aria-expanded": "false", "aria-controls": "class-list", "aria-autocomplete": "list" });
    const list = el("ul", { id: "class-list", role: "listbox", "aria-label": "Classes", hidden: true });
    const node = el("div", { class: "pick" }, el("label", { for: "other-class" }, "Another class"), input, list);
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
      if (this.chosen.length > 1) this.#beside(label, true);
      else this.#only(label);
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
