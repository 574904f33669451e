// Two inputs side by side, each a picture or a text: point at a part of one, and the parts of the other that go with it
// light up.

import { place, signedLimits } from "../core/colour.js";
import { el, signedNumber } from "../core/dom.js";
import { Store } from "../core/state.js";
import { MapCanvas, patchName } from "../maps/mapcanvas.js";
import { tint } from "../plates/words.js";

/**
 * @import { Ends } from "../core/colour.js"
 * @import { FaithfulInteraction, Interaction, InteractionSide, TextInput } from "../core/schemas.js"
 * @import { Focus, Grid, View } from "../core/types.js"
 */

/**
 * The state of a tool, which the address has.
 * @typedef {Store<{[name: string]: any}>} ToolState
 */

/**
 * The ways to compute interactions of two inputs: their names, and the fields of the request.
 * @typedef {{[way: string]: {name: string, asked: {[name: string]: any}}}} Ways
 * @type {Ways}
 */
export const WAYS = {
  "": { name: "Libra's rule, at the input", asked: {} },
  path: { name: "exCLIP: gradients, 20 steps from zero", asked: { rule: "gradient", steps: 20 } },
  published: {
    name: "exCLIP's own code: from an empty input, at the last block",
    asked: { rule: "gradient", steps: 50, baseline: "empty", block: "last", quadrature: "riemann" },
  },
};

/**
 * The choice of a way, kept in the state of a tool, with its label.
 * @param {string} id
 * @param {ToolState} tool
 * @param {() => void} onChange
 * @param {Ways} ways
 * @returns {[HTMLLabelElement, HTMLSelectElement]}
 */
export function wayChoice(id, tool, onChange, ways = WAYS) {
  const options = Object.entries(ways).map(([value, { name }]) =>
    el("option", { value, selected: value === (tool.value.way ?? "") }, name),
  );
  const select = el(
    "select",
    {
      id,
      on: {
        change: () => {
          tool.set({ way: select.value || undefined });
          onChange();
        },
      },
    },
    options,
  );
  return [el("label", { for: id }, "by"), select];
}

/**
 * The fields of the request, besides the inputs.
 * @param {ToolState} tool
 * @returns {{[name: string]: any}}
 */
export const askedOf = (tool) => (WAYS[tool.value.way] ?? WAYS[""]).asked;

const NAMED = 3; // so many partners of a part are named in words
const NOWHERE = { at: -1, locked: false };

/** A picture, whose parts are patches. */
class Picture {
  /**
   * @param {string} name
   * @param {InteractionSide} side
   * @param {OffscreenCanvas | null} base
   * @param {Store<View>} view
   * @param {Store<Focus>} focus
   */
  constructor(name, { grid }, base, view, focus) {
    /** @type {Grid} */
    this.grid = grid ?? [1, 1];
    this.focus = focus;
    this.mapCanvas = new MapCanvas({ name, focus, view });
    this.node = this.mapCanvas.node;
    this.mapCanvas.setBase(base);
    focus.follow((value) => this.mapCanvas.mark(value));
  }

  /**
   * @param {number[]} scores
   * @param {Ends} ends
   */
  show(scores, ends) {
    this.mapCanvas.ends = ends;
    this.mapCanvas.setMap({ scores, grid: this.grid, signed: true, sided: true });
    this.mapCanvas.draw();
    this.mapCanvas.mark(this.focus.value);
  }

  /** @param {number} i */
  nameOf(i) {
    return patchName(i, this.grid, this.mapCanvas.sheet);
  }
}

/** A text, whose parts are words: each is a button, and the arrow keys walk them. */
class Words {
  /**
   * @param {string} name
   * @param {TextInput} input
   * @param {Store<Focus>} focus
   */
  constructor(name, { text: read, words }, focus) {
    this.focus = focus;
    const text = read ?? "";
    /** @type {(string | Node)[]} */
    const parts = [];
    let at = 0;
    this.buttons = words.map(({ start, end }, i) => {
      parts.push(text.slice(at, start));
      const button = el(
        "button",
        { type: "button", tabIndex: i ? -1 : 0, "aria-pressed": "false", data: { w: i } },
        text.slice(start, end),
      );
      parts.push(button);
      at = end;
      return button;
    });
    parts.push(text.slice(at));
    this.node = el(
      "div",
      {
        class: "reading",
        dir: "auto",
        role: "group",
        "aria-label": `${name}: point at a word, or use the arrow keys; Enter holds it`,
      },
      parts,
    );
    /** @param {PointerEvent | FocusEvent} event */
    const over = ({ target }) =>
      Number((target instanceof Element && target.closest("[data-w]")?.getAttribute("data-w")) || -1);
    this.node.addEventListener("pointerover", (event) => focus.value.locked || focus.set({ at: over(event) }));
    this.node.addEventListener("pointerleave", () => focus.value.locked || focus.set({ at: -1 }));
    this.node.addEventListener("focusin", (event) => focus.value.locked || focus.set({ at: over(event) }));
    this.node.addEventListener("click", (event) => {
      const word = over(event);
      if (word < 0) return;
      focus.set(focus.value.locked && focus.value.at === word ? { locked: false } : { at: word, locked: true });
    });
    this.node.addEventListener("keydown", (event) => this.#walk(event));
    focus.follow((value) => this.#mark(value));
  }

  /**
   * @param {number[]} scores
   * @param {Ends} ends
   */
  show(scores, ends) {
    this.buttons.forEach((button, i) => tint(button, place(scores[i], ends, true), true));
    this.#mark(this.focus.value);
  }

  /** @param {number} i */
  nameOf(i) {
    return `“${this.buttons[i].textContent}”`;
  }

  /** @param {Focus} focus */
  #mark({ at, locked }) {
    this.buttons.forEach((button, i) => {
      button.classList.toggle("on", i === at);
      button.classList.toggle("locked", i === at && locked);
      button.setAttribute("aria-pressed", String(i === at && locked));
    });
  }

  /** @param {KeyboardEvent} event */
  #walk(event) {
    if (event.key === "Escape") return void this.focus.set(NOWHERE);
    /** @type {{[key: string]: number}} */
    const steps = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 };
    const step = steps[event.key];
    const here = event.target;
    if (!step || !(here instanceof HTMLElement)) return;
    event.preventDefault();
    const now = Number(here.dataset.w ?? 0);
    const next = this.buttons[Math.min(this.buttons.length - 1, Math.max(0, now + step))];
    here.tabIndex = -1;
    next.tabIndex = 0;
    this.focus.set(NOWHERE);
    next.focus();
  }
}

/** Two inputs of which each part lights up its partners in the other. */
export class InteractionView {
  /** @type {number | undefined} the side that is pointed at */
  from;

  /**
   * `interaction` as the API gives it: {first, second, pairs, cosine}; each side has {input, grid, scores}. `names` of both
   * sides; `bases` their grey pictures, null for texts; `hint` is said while nothing is pointed at.
   * @param {Interaction | FaithfulInteraction} interaction
   * @param {{names: string[], bases: (OffscreenCanvas | null)[], view: Store<View>, hint: string}} options
   */
  constructor(interaction, { names, bases, view, hint }) {
    const { first, second, pairs } = interaction;
    this.sides = [first, second].map((side, i) => {
      const focus = new Store(NOWHERE);
      const part = side.grid
        ? new Picture(names[i], side, bases[i], view, focus)
        : new Words(names[i], /** @type {TextInput} */ (side.input), focus);
      return Object.assign(part, { ownScores: side.scores });
    });
    const turned = pairs[0].map((_, j) => pairs.map((row) => row[j]));
    this.rows = [pairs, turned];
    this.ends = signedLimits(pairs);
    this.hint = hint;
    this.statusLine = el("p", { class: "said", role: "status" });
    const panes = this.sides.map((side, i) =>
      el(
        "figure",
        { class: side instanceof Picture ? "pane picture" : "pane" },
        el("figcaption", {}, names[i]),
        side.node,
      ),
    );
    // below: its length moves nothing
    this.node = el("div", { class: "interaction" }, el("div", { class: "panes" }, panes), this.statusLine);
    this.sides.forEach((side, i) => side.focus.follow((now) => this.#showPartners(i, now)));
    view.follow(() => this.#draw());
    this.#draw();
  }

  /**
   * Show the partners of a part that is pointed at on side `i`, or of none.
   * @param {number} i
   * @param {Focus} focus
   */
  #showPartners(i, { at }) {
    if (at >= 0) {
      this.from = i;
      this.sides[1 - i].focus.set(NOWHERE);
    } else if (this.from === i) this.from = undefined;
    this.#draw();
  }

  #draw() {
    const { from } = this;
    this.sides.forEach((side, i) => {
      const isAnswer = from === 1 - i;
      const scores = isAnswer ? this.rows[from][this.sides[from].focus.value.at] : side.ownScores;
      const [low, high] = signedLimits([scores]);
      // partners of a part without any stay pale
      side.show(scores, isAnswer && high < this.ends[1] ? this.ends : [low, high]);
    });
    this.statusLine.textContent = from === undefined ? this.hint : this.#sentence(from);
  }

  /** @param {number} from */
  #sentence(from) {
    const { at } = this.sides[from].focus.value;
    const scores = this.rows[from][at];
    const order = scores.map((_, i) => i).sort((a, b) => scores[b] - scores[a]);
    const best = order
      .slice(0, NAMED)
      .filter((i) => scores[i] > 0)
      .map((i) => `${this.sides[1 - from].nameOf(i)} (${signedNumber(scores[i], 2)})`);
    const name = this.sides[from].nameOf(at);
    return best.length
      ? `${name[0].toUpperCase()}${name.slice(1)} goes with ${best.join(", ")}.`
      : `${name[0].toUpperCase()}${name.slice(1)} goes with nothing on the other side.`;
  }
}
