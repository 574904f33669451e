// Which methods are on the page: sets to begin with, families with a line each, a search, and for experts every
// method with every rule.

import { optionsOf, Registry } from "../core/registry.js";
import { count, el } from "../core/dom.js";
import { most } from "../core/limits.js";
import { byLine } from "../maps/caption.js";
import { RuleMatrix } from "./rulematrix.js";

/** @import { Listed } from "../core/types.js" */

/** @param {Listed} pair */
const isListed = (pair) => pair.rule === null || pair.rules.includes(pair.rule);

/** @param {Listed} pair */
const rankOf = ({ standing }) => standing?.rank ?? Infinity;

/** The choice of methods. */
export class MethodPicker {
  #ticked = new Set();
  /** @type {{pair: Listed, node: HTMLElement, box: HTMLInputElement, aside: string | undefined, isShort: boolean}[]} */
  #items = []; // of every method that can run
  /** @type {Listed[]} */
  #unable = []; // under no rule

  /**
   * `onChoose(specs)` is called with the chosen specs.
   * @param {HTMLElement} root
   * @param {(specs: string[]) => void} onChoose
   */
  constructor(root, onChoose) {
    this.onChoose = onChoose;
    this.registry = new Registry();
    this.presets = el("div", { class: "presets", role: "group", "aria-label": "Sets to begin with" });
    this.search = el("input", {
      type: "search",
      id: "find-method",
      placeholder: "name, author or rule",
      autocomplete: "off",
      spellcheck: false,
      on: { input: () => this.#filter() },
    });
    this.matchCount = el("span", { class: "quiet", role: "status" });
    this.families = el("div", { class: "families" });
    this.moreTitle = el("summary");
    this.moreList = el("ul", { class: "family" });
    this.more = el("details", { class: "unable", data: { group: "behind" } }, this.moreTitle, this.moreList);
    this.unableTitle = el("summary");
    this.unableList = el("ul");
    this.unable = el("details", { class: "unable" }, this.unableTitle, this.unableList);
    this.squares = new RuleMatrix(
      (spec, on) => this.#tick(spec, on),
      (spec) => this.#add(spec),
    );
    this.experts = el(
      "details",
      { class: "experts" },
      el("summary", {}, "For experts: every method with every rule"),
      this.squares.node,
    );
    this.warning = el("span", { class: "quiet", role: "status" });
    this.submit = el("button", { type: "submit", class: "act" });
    const find = el(
      "div",
      { class: "find" },
      el("label", { for: "find-method" }, "Find a method"),
      this.search,
      this.matchCount,
    );
    const finish = el("div", { class: "finish" }, this.submit, this.warning);
    root.replaceChildren(
      el(
        "form",
        { noValidate: true, on: { submit: (event) => this.#submit(event) } },
        this.presets,
        find,
        this.families,
        this.more,
        this.unable,
        this.experts,
        finish,
      ),
    );
  }

  /** Begin with the search, unless the keyboard is a finger's. */
  focus() {
    if (matchMedia("(pointer: fine)").matches) this.search.focus({ preventScroll: true });
  }

  /**
   * Set the methods to choose from.
   * @param {Registry} registry
   */
  setRegistry(registry) {
    this.registry = registry;
    this.presets.replaceChildren(...registry.presets.map((preset) => this.#preset(preset)));
    this.squares.setRegistry(registry);
    // the best measured first, and of those that were not measured in the order of the page
    const pairs = [...registry.pairs.values()].filter(isListed).sort((a, b) => rankOf(a) - rankOf(b) || 0);
    this.#items = pairs.filter(({ reason }) => !reason).map((pair) => this.#item(pair, pairs));
    const families = registry.families.toSorted((a, b) => this.#bestOf(a.name) - this.#bestOf(b.name) || 0);
    this.families.replaceChildren(...families.flatMap((family) => this.#family(family) ?? []));
    this.moreList.replaceChildren(...this.#items.filter(({ aside }) => aside).map(({ node }) => node));
    this.#unable = pairs.filter(
      (pair) => pair.reason && !this.#items.some((item) => item.pair.readout === pair.readout),
    );
    this.#filter();
    this.#show();
  }

  /**
   * Tick these and no others.
   * @param {string[]} specs
   */
  setTicked(specs) {
    this.#ticked = new Set(specs);
    this.squares.add(specs.filter((spec) => optionsOf(spec).length));
    this.#filter(); // what is ticked is always to be seen
    this.#show();
  }

  /**
   * Open the fields of a method, filled in as `spec` has them.
   * @param {string} spec
   */
  configure(spec) {
    this.experts.open = true;
    this.squares.configure(spec);
  }

  /** @param {{name: string, title: string, says: string, specs: string[]}} item */
  #preset({ name, title, says, specs }) {
    const tick = () => this.setTicked(specs);
    const button = el(
      "button",
      {
        type: "button",
        class: "act plain",
        title: says,
        "aria-pressed": "false",
        data: { preset: name },
        disabled: !specs.length,
        on: { click: tick },
      },
      title,
      " ",
      el("span", { class: "num" }, specs.length),
    );
    return button;
  }

  /**
   * Make the row of a method; without a search each method has its best rule, and those that have names of their own.
   * @param {Listed} pair
   * @param {Listed[]} pairs
   */
  #item(pair, pairs) {
    const box = el("input", {
      type: "checkbox",
      data: { spec: pair.spec },
      on: { change: () => this.#tick(pair.spec, box.checked) },
    });
    const first = pairs.find(({ readout, reason }) => readout === pair.readout && !reason) ?? pair;
    const rank = pair.standing
      ? el("span", { class: "num", title: `rank by “${pair.standing.metric.title}”` }, pair.standing.rank)
      : null;
    const aside = this.registry.asides[pair.readout];
    const by = [byLine(pair).trim(), pair.slow && "slow", aside].filter(Boolean).join(" · ");
    const node = el(
      "li",
      {},
      el("label", { title: pair.line }, box, el("span", { class: "title" }, pair.title), rank, el("small", {}, by)),
    );
    return { pair, box, node, aside, isShort: pair === first || !pair.names_rule };
  }

  /**
   * The best rank in a family.
   * @param {string} name
   */
  #bestOf(name) {
    return Math.min(...this.#items.filter(({ pair }) => pair.family === name).map(({ pair }) => rankOf(pair)), 1e9);
  }

  /**
   * Show the methods that cannot run, all in one line, by reason.
   * @param {(pair: Listed) => boolean} matches
   * @param {boolean} isSearch
   */
  #showUnable(matches, isSearch) {
    /** @type {Map<string, Set<string>>} */
    const byReason = new Map();
    for (const pair of this.#unable.filter(matches)) {
      const reason = String(pair.reason);
      byReason.set(reason, (byReason.get(reason) ?? new Set()).add(pair.title));
    }
    const names = new Set([...byReason.values()].flatMap((titles) => [...titles]));
    this.unable.hidden = !names.size;
    this.unable.open = isSearch && names.size > 0;
    this.unableTitle.textContent = `${count(names.size, "method")} cannot run on this model`;
    this.unableList.replaceChildren(
      ...[...byReason].map(([reason, titles]) => el("li", {}, el("b", {}, [...titles].join(", ")), ` ${reason}`)),
    );
    return names.size;
  }

  /** @param {{name: string, title: string, line: string}} item */
  #family({ name, title, line }) {
    const items = this.#items.filter(({ pair, aside }) => pair.family === name && !aside);
    if (!items.length) return null;
    return el(
      "fieldset",
      { class: "family", data: { family: name } },
      el("legend", {}, title),
      el("p", { class: "quiet" }, line),
      el(
        "ul",
        {},
        items.map(({ node }) => node),
      ),
    );
  }

  /** Show only the methods that match what was typed. */
  #filter() {
    const words = this.search.value.trim().toLowerCase().split(/\s+/).filter(Boolean);
    const titles = new Map(this.registry.families.map(({ name, title }) => [name, title]));
    let matches = 0;
    /** @param {Listed} pair */
    const isMatch = (pair) => {
      const text = [pair.title, pair.by, pair.year, pair.spec, titles.get(pair.family), pair.line]
        .join(" ")
        .toLowerCase();
      return words.every((word) => text.includes(word));
    };
    for (const { pair, node, isShort } of this.#items) {
      node.hidden = words.length ? !isMatch(pair) : !isShort && !this.#ticked.has(pair.spec);
      if (!node.hidden) matches++;
    }
    for (const family of this.families.querySelectorAll("fieldset"))
      family.hidden = [...family.querySelectorAll("li")].every((node) => node.hidden);
    const behind = this.#items.filter(({ aside, node }) => aside && !node.hidden);
    this.more.hidden = !behind.length;
    this.more.open = words.length > 0 || behind.some(({ pair }) => this.#ticked.has(pair.spec));
    this.moreTitle.textContent = `${count(behind.length, "more method")}: measured, and never among the best`;
    const unable = this.#showUnable(isMatch, words.length > 0);
    this.matchCount.textContent = words.length
      ? matches || unable
        ? count(matches, "method")
        : "No method is called that."
      : "";
  }

  /**
   * @param {string} spec
   * @param {boolean} on
   */
  #tick(spec, on) {
    if (on) this.#ticked.add(spec);
    else this.#ticked.delete(spec);
    this.#show();
  }

  /**
   * Add a method with options: it is made, ticked and shown.
   * @param {string} spec
   */
  #add(spec) {
    this.setTicked([...this.#ticked, spec]);
    this.onChoose([...this.#ticked]);
  }

  #show() {
    const ticked = this.#ticked;
    for (const { box, pair } of this.#items) box.checked = ticked.has(pair.spec);
    this.squares.show(ticked);
    for (const button of this.presets.querySelectorAll("button")) {
      const { specs = [] } = this.registry.presets.find(({ name }) => name === button.dataset.preset) ?? {};
      button.setAttribute(
        "aria-pressed",
        String(specs.length === ticked.size && specs.every((spec) => ticked.has(spec))),
      );
    }
    const limit = most("methods");
    const over = ticked.size - limit;
    this.submit.textContent = `Show ${count(ticked.size, "method")}`;
    this.submit.disabled = !ticked.size || over > 0;
    this.warning.textContent = !ticked.size
      ? "Tick at least one."
      : over > 0
        ? `This server takes at most ${limit} methods at once: untick ${over}.`
        : "";
  }

  /** @param {Event} event */
  #submit(event) {
    event.preventDefault();
    if (!this.submit.disabled) this.onChoose([...this.#ticked]);
  }
}
