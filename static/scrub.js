// The deletion scrubber: every plate loses its own tokens in the order of its map, and says what the model says without them.

import { explanationPath, sendJSON } from "./api.js";
import { Curves } from "./curves.js";
import { FIRST } from "./dock.js";
import { byId, count, el, number, percent, showProblem } from "./dom.js";
import { readFor } from "./figure.js";
import { plateName } from "./plate.js";

/** The tokens `content` (indices of `scores`) in the order in which they go; of equal ones the earlier goes first, as on the server. */
export function removalOrder(scores, content, first) {
  const sign = first === "most" ? -1 : 1;
  return [...content].sort((a, b) => sign * (scores[a] - scores[b]));
}

/** How many of `tokens` are gone at a share; a half is rounded up, as on the server. */
export const countAt = (share, tokens) => Math.floor(share * tokens + 0.5);

/** The value when `gone` tokens are gone: computed, or on the straight line between the two computed points around it. */
export function valueAt(counts, values, gone) {
  const right = counts.findIndex((at) => at >= gone);
  if (right < 0) return { value: values.at(-1), computed: false };
  if (counts[right] === gone) return { value: values[right], computed: true };
  const t = (gone - counts[right - 1]) / (counts[right] - counts[right - 1]);
  return { value: values[right - 1] + t * (values[right] - values[right - 1]), computed: false };
}

/** A number of the target as it is read: a probability or a logit. */
export const shownValue = (read, value) => (read === "probability" ? percent(value) : number(value));

/** The lines that a plate gets under its map. */
class After {
  constructor(take) {
    const line = (name, title) => {
      const term = el("dt", {}, name);
      const value = el("dd", {}, "–");
      return { term, value, node: el("div", { title }, term, value) };
    };
    this.then = line("says then", "What the model says of the class or prompt when these tokens are gone");
    this.rank = line("test rank", "Rank in the deletion test: by the gap between the areas of least and most relevant first");
    this.node = el("dl", { class: "facts after" }, this.then.node, this.rank.node);
    take.before(this.node);
  }
}

const put = (node, text) => node.textContent !== text && (node.textContent = text);

export class Scrubber {
  #asked = null; // ends the asking for an explanation that is not shown any more
  #answers = new Map(); // label of a target -> curves
  #orders = new Map();
  #after = new WeakMap(); // plate -> After
  #covers = new WeakMap(); // plate -> canvas
  #waiting = 0;

  constructor(dock) {
    const { bench } = dock;
    Object.assign(this, { dock, bench });
    this.figure = new Curves(byId("curves"), dock.tool, (spec) => this.#pick(spec));
    bench.cut.follow(() => this.soon());
    bench.subject.follow((now, before) => {
      if (now.id !== before.id) this.#forget();
      if (now.done) this.#ask();
    });
    // plates that are hung later, and texts that are cut anew, lose their tokens too
    this.hung = new MutationObserver(() => this.soon());
    this.hung.observe(byId("plates"), { childList: true, subtree: true });
    this.#forget();
    if (bench.subject.value.done) this.#ask();
  }

  /** Draw once before the next frame. */
  soon() {
    this.#waiting ||= requestAnimationFrame(() => {
      this.#waiting = 0;
      this.draw();
    });
  }

  draw() {
    const { gone, first } = this.bench.cut.value;
    this.paper = getComputedStyle(byId("plates")).getPropertyValue("--paper"); // read once, before anything is written
    for (const plate of this.bench.wall.all) this.#plate(plate, gone / 100, first);
    this.hung.takeRecords(); // what was written here is no reason to draw again
    const { targets = [], prompts } = this.bench.subject.value.info ?? {};
    const sizes = new Set(targets.map(({ label }) => this.#content(label)?.length ?? 0));
    const [tokens] = sizes.size === 1 ? sizes : [0]; // prompts may be of different lengths
    put(this.dock.output, tokens ? `${gone}\u2009% · ${countAt(gone / 100, tokens)} of ${tokens}` : `${gone}\u2009%${prompts ? " of each" : ""}`);
    this.figure.mark(first, gone / 100);
  }

  /** Which scores of maps for `target` stand for tokens that can go; null while that is not known. */
  #content(target) {
    const { info } = this.bench.subject.value;
    const read = info && readFor({ info }, target);
    if (read) return read.tokens.flatMap((token, i) => (token.special ? [] : [i]));
    const map = this.bench.received[0];
    return map ? map.scores.map((_, i) => i) : null;
  }

  #order(map, first) {
    const key = `${map.method}\n${map.target}\n${first}`;
    if (!this.#orders.has(key)) this.#orders.set(key, removalOrder(map.scores, this.#content(map.target), first));
    return this.#orders.get(key);
  }

  #plate(plate, share, first) {
    if (!this.#after.has(plate)) this.#after.set(plate, new After(plate.take.node));
    const after = this.#after.get(plate);
    const { map } = plate;
    plate.cut = null;
    if (!map || !this.#content(map.target)) {
      put(after.then.value, "–");
      put(after.rank.value, "–");
      return;
    }
    const order = this.#order(map, first);
    const answer = this.#answers.get(map.target);
    const most = Math.min(countAt(share, order.length), answer?.counts.at(-1) ?? order.length);
    if (plate.face) this.#cover(plate, order, most);
    else this.#strike(plate, order, most);
    const which = `${Math.round(100 * share)}\u2009% ${FIRST[first]}`;
    plate.cut = { gone: new Set(order.slice(0, most)), of: order.length, which, told: null }; // for who draws the plate elsewhere
    const curve = answer?.curves.find((one) => one.method === map.method && one.order === first);
    if (curve) {
      const { value, computed } = valueAt(answer.counts, curve[answer.read], most);
      const rows = answer.ranking.filter((row) => !row.control);
      const row = answer.ranking.find((one) => one.method === map.method && !one.control);
      const said = [answer.read === "logit" ? "logit then" : "says then", `${computed ? "" : "≈ "}${shownValue(answer.read, value)}`, `${row.rank} of ${rows.length}`];
      put(after.then.term, said[0]);
      put(after.then.value, said[1]);
      put(after.rank.value, said[2]);
      plate.cut.told = `${said[0]} ${said[1]} · rank ${said[2]}`;
    } else {
      put(after.then.value, "–");
      put(after.rank.value, "–");
    }
  }

  /** Cover the patches that are gone with the colour of the paper. */
  #cover(plate, order, most) {
    const [rows, columns] = plate.map.grid;
    if (!this.#covers.has(plate)) {
      const cover = el("canvas", { class: "cover", "aria-hidden": "true" });
      plate.face.canvas.after(cover);
      this.#covers.set(plate, cover);
    }
    const cover = this.#covers.get(plate);
    if (cover.width !== columns || cover.height !== rows) Object.assign(cover, { width: columns, height: rows });
    const context = cover.getContext("2d");
    context.clearRect(0, 0, columns, rows);
    context.fillStyle = this.paper;
    for (const patch of order.slice(0, most)) context.fillRect(patch % columns, Math.floor(patch / columns), 1, 1);
    cover.dataset.gone = String(most);
  }

  /** Strike out the words whose pieces are gone. */
  #strike(plate, order, most) {
    const gone = new Set(order.slice(0, most));
    plate.spans.forEach((span, i) => {
      const { tokens } = plate.base.units[i];
      const left = tokens.filter((token) => !gone.has(token)).length;
      const state = left === 0 ? "all" : left < tokens.length ? "some" : undefined;
      if (span.dataset.gone === state) return;
      if (state) span.dataset.gone = state;
      else delete span.dataset.gone;
    });
  }

  #forget() {
    this.#asked?.abort();
    this.#asked = null;
    this.#answers.clear();
    this.#orders.clear();
    showProblem(this.dock.problem, null);
    this.figure.clear();
    this.soon();
  }

  /** The curves of every target, the first one first. */
  async #ask() {
    const { id, info } = this.bench.subject.value;
    if (!id || this.#asked) return;
    const say = (text) => put(this.dock.said, text);
    const asked = (this.#asked = new AbortController());
    say("asking the model…");
    try {
      for (const { label } of info.targets) {
        const answer = await sendJSON(`${explanationPath(id)}/perturbations`, { target: label }, asked.signal);
        if (asked.signal.aborted) return;
        this.#answers.set(label, answer);
        this.figure.add(answer, this.#names());
        this.draw();
      }
      const { curves, counts, how } = this.#answers.values().next().value;
      const painted = how === "painted" ? "; patches painted grey, as this model needs them all" : "";
      const words = info.prompts ? "; each prompt loses its own words, and what changes is its likeness to the picture" : "";
      say(`${count(curves.length / 2, "method")}, asked at ${counts.length} points; ≈ lies between two of them${painted}${words}`);
    } catch (problem) {
      if (problem.name === "AbortError") return;
      say("");
      this.bench.report(problem, this.dock.problem);
    }
  }

  /** The curves on show: {answer, names}; null while there are none. */
  get curves() {
    const answer = this.#answers.get(this.figure.select.value);
    return answer ? { answer, names: this.figure.names } : null;
  }

  /** What the methods are called. */
  #names() {
    return new Map(this.bench.wall.all.map(({ variant }) => [variant.spec, plateName(variant)]));
  }

  #pick(spec) {
    for (const plate of this.bench.wall.all) plate.node.classList.toggle("picked", plate.variant.spec === spec);
  }
}
