// The deletion scrubber: every plate loses its own tokens in the order of its map, and says what the model says without them.

import { Curves } from "./curves.js";
import { FIRST } from "./dock.js";
import { byId, el, number, percent, showProblem } from "./dom.js";
import { plateName } from "./plate.js";
import { countAt, Trial, valueAt } from "./trial.js";

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
  #trials = new Map(); // id of an explanation on show -> Trial; two of them where two models are compared
  #after = new WeakMap(); // plate -> After
  #covers = new WeakMap(); // plate -> canvas
  #waiting = 0;

  constructor(dock) {
    const { bench } = dock;
    Object.assign(this, { dock, bench });
    this.figure = new Curves(byId("curves"), dock.tool, (spec) => this.#pick(spec));
    bench.cut.follow(() => this.soon());
    for (const subject of this.#subjects) {
      subject.follow((now, before) => {
        if (now.id !== before.id) this.#begin();
        if (now.done) this.#ask(now);
      });
    }
    // plates that are hung later, and texts that are cut anew, lose their tokens too
    this.hung = new MutationObserver(() => this.soon());
    this.hung.observe(byId("plates"), { childList: true, subtree: true });
    this.#begin();
    for (const { value } of this.#subjects) if (value.done) this.#ask(value);
  }

  /** The explanations on show: the page's own, and that of another model beside it. */
  get #subjects() {
    return [this.bench.subject, this.bench.rival];
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
    const sizes = new Set(this.bench.wall.tested.map((plate) => this.#plate(plate, gone / 100, first)).filter((tokens) => tokens !== null));
    this.hung.takeRecords(); // what was written here is no reason to draw again
    const [tokens] = sizes;
    const many = sizes.size > 1 ? " of each" : ""; // prompts may be of different lengths, and models may cut in different ways
    put(this.dock.output, sizes.size === 1 ? `${gone}\u2009% · ${countAt(gone / 100, tokens)} of ${tokens}` : `${gone}\u2009%${many}`);
    this.figure.mark(first, gone / 100);
  }

  /** Take tokens away from a plate; gives how many it has, null where it shows no map of an explanation on show. */
  #plate(plate, share, first) {
    if (!this.#after.has(plate)) this.#after.set(plate, new After(plate.take.node));
    const after = this.#after.get(plate);
    const { map } = plate;
    const trial = map && this.#trials.get(plate.take.id);
    plate.cut = null;
    if (!trial) {
      put(after.then.value, "–");
      put(after.rank.value, "–");
      return null;
    }
    const order = trial.order(map, first);
    const answer = trial.answers.get(map.target);
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
    return order.length;
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

  /** Another explanation is on show, or another beside it. */
  #begin() {
    const before = this.#trials;
    const shown = this.#subjects.map((subject) => subject.value).filter(({ id }) => id);
    this.#trials = new Map(shown.map((subject) => [subject.id, before.get(subject.id) ?? new Trial(subject)]));
    for (const [id, trial] of before) if (!this.#trials.has(id)) trial.drop();
    showProblem(this.dock.problem, null);
    this.#tell();
    this.soon();
  }

  /** Ask for the curves of an explanation that is done. */
  #ask({ id }) {
    const heard = () => {
      this.#tell();
      this.draw();
    };
    this.#trials.get(id).ask(heard).catch((problem) => this.bench.report(problem, this.dock.problem));
  }

  /** The name of a model, where there are two. */
  #of(trial) {
    return this.#trials.size < 2 ? null : trial.model;
  }

  /** Lay the figure of curves anew, and say what was asked. */
  #tell() {
    const trials = [...this.#trials.values()];
    const names = new Map(this.bench.wall.tested.map(({ variant }) => [variant.spec, plateName(variant)]));
    const entries = trials.flatMap((trial) => [...trial.answers.values()].map((answer) => ({ id: trial.id, name: [this.#of(trial), answer.target].filter(Boolean).join(" · "), answer, names })));
    this.figure.show(entries);
    const told = trials.map((trial) => trial.told && [this.#of(trial), trial.told].filter(Boolean).join(": "));
    put(this.dock.said, trials.some((trial) => trial.isAsking) ? "asking the model…" : told.filter(Boolean).join(" · "));
  }

  /** The curves on show: {id, answer, names}; null while there are none. */
  get curves() {
    return this.figure.shown;
  }

  #pick(spec) {
    for (const plate of this.bench.wall.tested) plate.node.classList.toggle("picked", plate.variant.spec === spec);
  }
}
