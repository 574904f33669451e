// The figure under the plates: the model's answer as tokens are removed, one line a method, and the methods ranked
// against the random baseline.

import { el, number, percent, whole } from "../core/dom.js";
import { failureRule, isFailing } from "./chance.js";
import { BASELINE, endsOf, NAMED, Panel } from "./curvepanel.js";

/**
 * @import { DeletionRank } from "../core/schemas.js"
 * @import { Store } from "../core/state.js"
 * @import { DeletionAnswer } from "../core/types.js"
 */

const HOW =
  "Area: the mean over the whole range. Most relevant first: smaller is better. Least relevant first: larger is better. Methods are ranked by the gap between the two areas. Dots are computed; lines join them.";

/**
 * The deletion test of a target, and the names of its methods.
 * @typedef {{id: string, name: string, answer: DeletionAnswer, names: Map<string, string>}} CurvesEntry
 */

/** The curves of the deletion test in both orders, and the ranking as a table. */
export class Curves {
  /** @type {CurvesEntry[]} */
  entries = [];
  /** @type {CurvesEntry | null} */
  shown = null; // the entry that is drawn
  /** @type {[string, Panel][]} */
  panels = [];
  why = "";
  share = 0;
  order = "most";

  /**
   * `tool` is a store of {target, picked}: whose curves are shown, and which method is singled out; `onPick(spec)` is
   * told that too.
   * @param {HTMLElement} root
   * @param {Store<{[name: string]: any}>} tool
   * @param {{onPick?: (spec: string | null) => void}} callbacks
   */
  constructor(root, tool, { onPick }) {
    this.root = root;
    this.tool = tool;
    this.onPick = onPick;
    this.select = el("select", {
      "aria-label": "Curves of",
      on: { change: () => tool.set({ target: this.select.value }) },
    });
    this.body = el("div", { class: "figure" });
    this.bar = el(
      "span",
      { class: "asked", role: "progressbar", "aria-label": "Deletion test", "aria-valuemin": 0, "aria-live": "off" },
      el("span", { class: "num" }, "\u00a0"),
      el("i"),
    );
    this.bar.hidden = true;
    this.asked = el("p", { class: "quiet asked-of" }); // filled by who asks
    this.root.append(
      el("div", { class: "over" }, el("h2", {}, "What the model says as more is removed"), this.select),
      this.body,
      el("p", { class: "quiet" }, HOW),
      this.asked,
    );
    tool.follow((now, before) => {
      if (now.target !== before.target) this.#draw();
      if (now.picked !== before.picked) this.#pick();
    });
  }

  /**
   * Show the available curves, the first of them unless another was chosen: {id, name, answer, names}, `names` are the
   * titles of methods; `why` says why there are none yet.
   * @param {{id: string, name: string, answer: DeletionAnswer, names: Map<string, string>}[]} entries
   * @param {string} why
   */
  show(entries, why) {
    this.entries = entries;
    this.why = why;
    this.select.replaceChildren(...entries.map(({ name }) => el("option", { value: name }, name)));
    this.select.hidden = entries.length < 2;
    this.#draw();
  }

  /**
   * Show in `bar` how many of the inputs are answered: {asked, total}, null while nothing is asked; `inputNoun` says
   * what they are.
   * @param {{asked: number, total: number} | null} progress
   * @param {string} inputNoun
   */
  progress(progress, inputNoun) {
    this.bar.hidden = !progress;
    if (!progress) return;
    const [asked, total] = [progress.asked, progress.total].map(whole);
    const sentence = `asked ${asked} of ${total} ${inputNoun}`;
    const [text, done] = /** @type {Iterable<HTMLElement>} */ (this.bar.children);
    text.textContent = sentence;
    done.style.setProperty("--done", String(progress.asked / progress.total));
    for (const [name, value] of [
      ["max", progress.total],
      ["now", progress.asked],
      ["text", sentence],
    ])
      this.bar.setAttribute(`aria-value${name}`, String(value));
  }

  /**
   * Mark the place of the slider: the share that is removed, in the panel of the order in force.
   * @param {string} order
   * @param {number} share
   */
  mark(order, share) {
    this.order = order;
    this.share = share;
    for (const [name, panel] of this.panels) panel.mark(name === order && share > 0 ? share : null);
  }

  #draw() {
    const before = this.shown;
    this.shown = this.entries.find(({ name }) => name === this.tool.value.target) ?? this.entries[0] ?? null;
    if (!this.shown) {
      this.panels = [];
      this.body.replaceChildren(el("p", { class: "quiet" }, this.why));
      return;
    }
    const { answer, name, names } = this.shown;
    this.select.value = name;
    if (before?.answer === answer) return;
    const ends = endsOf(answer);
    this.panels = ["most", "least"].map((order) => [
      order,
      new Panel(order, answer, names, ends, (spec) => this.#point(spec)),
    ]);
    this.body.replaceChildren(
      el(
        "div",
        { class: "panels" },
        this.panels.map(([, panel]) => panel.node),
      ),
      this.#table(answer, names),
    );
    this.mark(this.order, this.share);
    this.#pick();
  }

  /**
   * @param {DeletionAnswer} answer
   * @param {Map<string, string>} names
   */
  #table(answer, names) {
    const format = answer.read === "probability" ? percent : number;
    /** @param {string} value */
    const cell = (value) => el("td", { class: "num" }, value);
    /** @param {DeletionRank} entry */
    const row = ({ method, rank, most = NaN, least = NaN, gap = NaN, control }) => {
      const name = control ? BASELINE : (names.get(method) ?? method);
      const pick = el(
        "button",
        {
          type: "button",
          "aria-pressed": "false",
          data: { spec: method },
          on: { click: () => this.tool.set({ picked: this.tool.value.picked === method ? undefined : method }) },
        },
        name,
      );
      /** @type {{[event: string]: () => void}} */
      const point = control
        ? {}
        : {
            pointerenter: () => this.#point(method),
            pointerleave: () => this.#point(null),
            focusin: () => this.#point(method),
            focusout: () => this.#point(null),
          };
      const isFailed = rank && isFailing(answer, { method, rank, gap });
      const mark = rank && rank <= NAMED ? el("i", { class: `hue-${rank}`, "aria-hidden": "true" }) : null;
      return el(
        "tr",
        { on: point, ...(control ? { class: "baseline" } : { data: { spec: method } }) },
        cell(String(rank || "–")),
        el("th", { scope: "row" }, mark, control ? `${name} (${answer.random.seeds} draws)` : pick),
        cell(format(most)),
        cell(format(least)),
        el("td", { class: "num" }, number(gap, 2), isFailed ? el("span", { class: "fails" }, " fails") : null),
      );
    };
    const head = ["rank", "method", "most first", "least first", "gap"].map((name) => el("th", { scope: "col" }, name));
    const caption = el("caption", { class: "hidden" }, `Areas under the curves of ${answer.target}, by ${answer.read}`);
    return el(
      "div",
      { class: "ranks", tabIndex: 0, role: "region", "aria-label": "Areas and ranks" },
      el("table", {}, caption, el("thead", {}, el("tr", {}, head)), el("tbody", {}, answer.ranking.map(row))),
      el("p", { class: "quiet" }, failureRule(answer)),
    );
  }

  /**
   * Highlight a method in both panels and in the table.
   * @param {string | null} spec
   */
  #point(spec) {
    for (const [, panel] of this.panels) panel.point(spec);
    for (const row of this.root.querySelectorAll("tr[data-spec]"))
      row.classList.toggle("pointed", row.getAttribute("data-spec") === spec);
  }

  #pick() {
    const spec = this.tool.value.picked ?? null;
    for (const [, panel] of this.panels) panel.pick(spec);
    for (const button of this.root.querySelectorAll("button[data-spec]"))
      button.setAttribute("aria-pressed", String(button.getAttribute("data-spec") === spec));
    this.onPick?.(spec);
  }
}
