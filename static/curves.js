// The figure under the plates: the model's answer as tokens go, one line a method, and the methods ranked against chance.

import { el, number, percent } from "./dom.js";

const BOX = { width: 480, height: 250, left: 52, right: 12, top: 30, bottom: 40 };
export const TITLES = { most: "Most relevant first", least: "Least relevant first" };
export const BETTER = { most: "the sooner it falls, the better", least: "the longer it stays, the better" };
const HOW =
  "Area: the mean over the whole range. Most relevant first: the smaller, the better. Least relevant first: the larger, the better. Methods are ranked by the gap between the two. Dots are computed, lines join them.";

function svg(tag, attributes = {}, ...children) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children.flat());
  return node;
}

/** The ends of the axis of values: probabilities from 0, logits from the smallest. */
export function endsOf(answer) {
  const values = [...answer.curves, answer.random].flatMap((one) => one[answer.read]);
  const high = values.reduce((a, b) => Math.max(a, b));
  if (answer.read === "probability") return [0, high > 0.5 ? 1 : Math.ceil(high * 20) / 20 || 0.05];
  const low = values.reduce((a, b) => Math.min(a, b));
  return high > low ? [low, high] : [low - 1, high + 1];
}

/** One order: a line a method, chance dashed. */
class Panel {
  constructor(order, answer, names, ends) {
    const { width, height, left, right, top, bottom } = BOX;
    const x = (share) => left + share * (width - left - right);
    const y = (value) => top + ((ends[1] - value) / (ends[1] - ends[0])) * (height - top - bottom);
    const gone = answer.counts.map((at) => at / answer.tokens);
    const told = answer.read === "probability" ? (value) => `${Number((100 * value).toFixed(1))}\u2009%` : (value) => number(value, 2);
    const line = (values, attributes) => {
      const points = values.map((value, i) => [x(gone[i]), y(value)]);
      const path = svg("path", { d: points.map((point, i) => `${i ? "L" : "M"}${point.map((at) => at.toFixed(1)).join(" ")}`).join("") });
      return svg("g", attributes, path, points.map(([cx, cy]) => svg("circle", { cx: cx.toFixed(1), cy: cy.toFixed(1), r: 1.7 })));
    };
    const text = (at, down, said, anchor, className = "") => svg("text", { x: at, y: down, "text-anchor": anchor, class: className }, said);
    const grid = [0, 0.5, 1].flatMap((t) => {
      const value = ends[0] + t * (ends[1] - ends[0]);
      return [svg("path", { class: "grid", d: `M${left} ${y(value)}H${width - right}` }), text(left - 6, y(value) + 4, told(value), "end")];
    });
    const ticks = [0, 0.25, 0.5, 0.75, 1].map((share) => text(x(share), height - bottom + 17, `${100 * share}`, "middle"));
    const curves = answer.curves.filter((one) => one.order === order);
    this.lines = new Map(curves.map((one) => [one.method, line(one[answer.read], { class: "line", "data-spec": one.method })]));
    const chance = line(answer.random[answer.read], { class: "line chance" });
    const best = answer.ranking.find((row) => !row.control);
    this.lines.get(best.method)?.classList.add("best");
    this.cursor = svg("path", { class: "cursor", d: `M${left} ${top}V${height - bottom}`, visibility: "hidden" });
    this.x = x;
    const label = `${TITLES[order]}: ${answer.read} of ${answer.target} while ${answer.tokens} tokens go. Best of all methods: ${names.get(best.method) ?? best.method}. The table has the numbers.`;
    this.node = svg(
      "svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label, "data-order": order },
      text(left, 16, TITLES[order], "start", "title"), text(width - right, 16, BETTER[order], "end"), grid, ticks,
      text(x(0.5), height - 6, "% taken away", "middle"), this.cursor, chance, [...this.lines.values()],
    );
    const marked = this.lines.get(best.method);
    if (marked) this.node.append(marked); // drawn last, above the others
  }

  mark(share) {
    this.cursor.setAttribute("visibility", share === null ? "hidden" : "visible");
    if (share !== null) this.cursor.setAttribute("transform", `translate(${(this.x(share) - this.x(0)).toFixed(1)} 0)`);
  }

  pick(spec) {
    for (const [name, line] of this.lines) line.classList.toggle("picked", name === spec);
    const line = this.lines.get(spec);
    if (line) this.node.append(line);
  }
}

export class Curves {
  entries = [];
  shown = null; // the entry that is drawn
  panels = [];
  share = 0;
  first = "most";

  /** `tool` is a store of {target, picked}: whose curves are shown, and which method is singled out; `onPick(spec)` is told that too. */
  constructor(root, tool, onPick) {
    Object.assign(this, { root, tool, onPick });
    this.select = el("select", { "aria-label": "Curves of", on: { change: () => tool.set({ target: this.select.value }) } });
    this.body = el("div", { class: "figure" });
    this.root.append(el("div", { class: "over" }, el("h2", {}, "What the model says as tokens go"), this.select), this.body, el("p", { class: "quiet" }, HOW));
    tool.follow((now, before) => {
      if (now.target !== before.target) this.#draw();
      if (now.picked !== before.picked) this.#pick();
    });
  }

  /** The curves there are, the first of them drawn unless another was chosen: {id, name, answer, names}, `names` says what methods are called. */
  show(entries) {
    this.entries = entries;
    this.select.replaceChildren(...entries.map(({ name }) => el("option", { value: name }, name)));
    this.select.hidden = entries.length < 2;
    this.#draw();
  }

  /** Where the slider stands: the share that is gone, in the panel of the order in force. */
  mark(first, share) {
    Object.assign(this, { first, share });
    for (const [order, panel] of this.panels) panel.mark(order === first && share > 0 ? share : null);
  }

  #draw() {
    const before = this.shown;
    this.shown = this.entries.find(({ name }) => name === this.tool.value.target) ?? this.entries[0] ?? null;
    if (!this.shown) {
      this.panels = [];
      this.body.replaceChildren(el("p", { class: "quiet" }, "The model is asked when all maps are there."));
      return;
    }
    const { answer, name } = this.shown;
    this.select.value = name;
    if (before?.answer === answer) return;
    const ends = endsOf(answer);
    this.panels = ["most", "least"].map((order) => [order, new Panel(order, answer, this.shown.names, ends)]);
    this.body.replaceChildren(el("div", { class: "panels" }, this.panels.map(([, panel]) => panel.node)), this.#table(answer));
    this.mark(this.first, this.share);
    this.#pick();
  }

  #table(answer) {
    const told = answer.read === "probability" ? percent : number;
    const cell = (value) => el("td", { class: "num" }, value);
    const row = ({ method, rank, most, least, gap, control }) => {
      const name = control ? "chance" : (this.shown.names.get(method) ?? method);
      const pick = el("button", { type: "button", "aria-pressed": "false", data: { spec: method }, on: { click: () => this.tool.set({ picked: this.tool.value.picked === method ? undefined : method }) } }, name);
      return el(
        "tr", control ? { class: "chance" } : { data: { spec: method } },
        cell(control ? "–" : rank), el("th", { scope: "row" }, control ? `${name} (${answer.random.seeds} draws)` : pick), cell(told(most)), cell(told(least)), cell(number(gap, 2)),
      );
    };
    const head = ["rank", "method", "most first", "least first", "gap"].map((name) => el("th", { scope: "col" }, name));
    const caption = el("caption", { class: "hidden" }, `Areas under the curves of ${answer.target}, by ${answer.read}`);
    return el("div", { class: "ranks", tabIndex: 0, role: "region", "aria-label": "Areas and ranks" }, el("table", {}, caption, el("thead", {}, el("tr", {}, head)), el("tbody", {}, answer.ranking.map(row))));
  }

  #pick() {
    const spec = this.tool.value.picked ?? null;
    for (const [, panel] of this.panels) panel.pick(spec);
    for (const button of this.root.querySelectorAll("button[data-spec]")) button.setAttribute("aria-pressed", String(button.dataset.spec === spec));
    this.onPick?.(spec);
  }
}
