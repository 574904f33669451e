// What lies under the wall of plates: each is fetched when it is first opened, and asks the server nothing before.

import { el, showProblem } from "./dom.js";
import { tellIn } from "./summary.js";

/**
 * A drawer's module has open(root, bench), which resolves to {show(subject)}; `show` is called for every finished explanation. One with
 * `kind` is for that page alone.
 */
const DRAWERS = [
  { id: "wordtable", kind: "text", title: "All words in a table", says: "Every word with its score by every method, sorted by any of them.", load: () => import("./wordtable.js") },
  { id: "disagree", kind: "text", title: "Where two methods disagree", says: "How alike two methods order the words, and which words they see differently.", load: () => import("./disagree.js") },
  { id: "probe", kind: "text", title: "Swap a word", says: "The same sentence about her and about him: does the answer change, and what did the word do?", load: () => import("./probe.js") },
  { id: "mixer", title: "Rule mixer", says: "Switch the way back through the model operator by operator, and see what it does to a map.", load: () => import("./mixer.js") },
  { id: "layers", title: "Layers and heads", says: "What every head of every block attends to, and what each block adds.", load: () => import("./layers.js") },
];

class Drawer {
  #feature = null;

  constructor({ id, title, says, load }, bench) {
    Object.assign(this, { id, load, bench, tool: bench.tools.of(id) });
    this.problem = el("div");
    this.waiting = el("p", { class: "quiet" }, "This opens once the maps above are done.");
    this.body = el("div", { class: "body" });
    const name = el("summary", {}, el("h2", {}, title), el("span", {}, says));
    this.node = el("details", { class: "drawer", id: `drawer-${id}`, open: this.tool.value.open, on: { toggle: () => this.#toggle() } }, name, this.waiting, this.problem, this.body);
    tellIn(this.body, bench.view);
    bench.subject.follow(() => this.#show());
  }

  #toggle() {
    this.tool.set({ open: this.node.open || undefined });
    this.#show();
  }

  async #show() {
    if (!this.node.open) return;
    const { done } = this.bench.subject.value;
    this.waiting.hidden = done || this.body.hasChildNodes();
    if (!done) return;
    try {
      this.#feature ??= this.#fetch();
      const feature = await this.#feature;
      if (this.bench.subject.value.done) await feature.show(this.bench.subject.value);
    } catch (problem) {
      this.#feature = this.body.hasChildNodes() ? this.#feature : null;
      this.bench.report(problem, this.problem);
    }
  }

  async #fetch() {
    const [module] = await Promise.all([this.load(), styled(`/static/${this.id}.css`)]);
    return module.open(this.body, this.bench, (problem) => (problem ? this.bench.report(problem, this.problem) : showProblem(this.problem, null)));
  }
}

/** Add a style sheet; resolves once it applies. */
const styled = (href) =>
  new Promise((resolve, reject) => document.head.append(el("link", { rel: "stylesheet", href, on: { load: resolve, error: () => reject(new Error(`${href} did not arrive`)) } })));

export const addDrawers = (place, bench) => place.append(...DRAWERS.filter(({ kind }) => kind === undefined || kind === bench.kind).map((one) => new Drawer(one, bench).node));
