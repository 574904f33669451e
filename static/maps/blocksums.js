// What each block adds to a map, of methods that are a sum over the blocks: a bar each.

import { labelled } from "../core/controls.js";
import { el, number, refill, signedNumber } from "../core/dom.js";

/** @import { Contributions, Method } from "../core/schemas.js" */

const USUAL = "fullgrad_plus:libra";

/**
 * Draw the parts of a sum, a bar each, and a sentence below. A part without `choose` cannot be chosen.
 * @param {HTMLElement} place
 * @param {{key: string, name: string, total: number, choose?: () => void}[]} parts
 * @param {boolean} signed
 * @param {string} sentence
 */
export function drawBars(place, parts, signed, sentence) {
  const most = Math.max(...parts.map(({ total }) => Math.abs(total))) || 1;
  place.classList.toggle("two", signed && parts.some(({ total }) => total < 0));
  const bars = parts.map(({ key, name, total, choose }) => {
    const bar = el("i", { class: !signed ? "mag" : total < 0 ? "con" : "pro" });
    bar.style.setProperty("--size", (Math.abs(total) / most).toFixed(4));
    return el(
      "button",
      { type: "button", disabled: !choose, "aria-pressed": "false", data: { key }, on: { click: () => choose?.() } },
      el("span", {}, name),
      el("span", { class: "track" }, bar),
      el("span", { class: "num" }, (signed ? signedNumber : number)(total)),
    );
  });
  place.replaceChildren(...bars, el("p", { class: "quiet" }, sentence));
}

/**
 * Mark the bar of the part that is on show; without a key none is.
 * @param {HTMLElement} place
 * @param {string} [key]
 */
export function markBar(place, key) {
  for (const button of place.querySelectorAll("button"))
    button.setAttribute("aria-pressed", String(button.dataset.key === key));
}

/** The bars, and the choice of the method that they are of. */
export class BlockSums {
  /** @type {Contributions | null} */
  parts = null; // as the API gives them: {title, grid, signed, target, blocks, rest}

  /**
   * `now()` gives the target and the explanation on show; `ask({method, target})` resolves to the parts; `choose(block)`
   * is called with the block whose part is wanted, null for what belongs to no block; `onAsk()` is called before parts
   * are asked for, `onParts()` once they are there.
   * @param {{now: () => {target: string, id: string}, ask: (asked: {method: string, target: string}) => Promise<any>,
   *   choose: (block: number | null) => void, onAsk: () => void, onParts: () => void,
   *   report: (problem: unknown) => void}} callbacks
   */
  constructor({ now, ask, choose, onAsk, onParts, report }) {
    this.now = now;
    this.ask = ask;
    this.choose = choose;
    this.onAsk = onAsk;
    this.onParts = onParts;
    this.report = report;
    this.method = el("select", { id: "layers-method", on: { change: () => this.show() } });
    this.bars = el("div", { class: "sums" });
    this.node = el(
      "section",
      { class: "adds", hidden: true },
      el("h3", {}, "What each block adds"),
      el(
        "p",
        { class: "quiet" },
        "Some methods are a sum over the blocks. Each bar is the sum of one block's part. Choose a bar to see that part.",
      ),
      labelled("Method", this.method),
      this.bars,
    );
  }

  /**
   * The methods to choose from; `wanted` is the spec that the address names.
   * @param {Method[]} methods
   * @param {string} [wanted]
   */
  offer(methods, wanted) {
    const summed = methods
      .filter((method) => method.summed)
      .flatMap((method) => method.pairs.filter((pair) => !pair.reason));
    refill(
      this.method,
      summed.map((pair) => [pair.spec, pair.title]),
      wanted,
      USUAL,
    );
  }

  /**
   * Ask for the parts of what is on show, and show them unless another is asked for meanwhile.
   * @returns {Promise<void>}
   */
  async show() {
    const method = this.method.value;
    if (!method) return;
    const { target, id } = this.now();
    this.onAsk();
    /** @type {Contributions} */
    let parts;
    try {
      parts = await this.ask({ method, target });
      if (id !== this.now().id || method !== this.method.value || target !== this.now().target) return;
      this.parts = parts;
    } catch (problem) {
      if (id === this.now().id) this.report(problem);
      return;
    }
    const { blocks, rest, signed } = parts;
    const rows = [...blocks, ...(rest ? [{ ...rest, block: null }] : [])].map(({ block, total }) => ({
      key: String(block),
      name: block === null ? "no block (biases)" : `block ${block + 1}`,
      total,
      choose: () => this.choose(block),
    }));
    const sum = rows.reduce((all, { total }) => all + total, 0);
    drawBars(
      this.bars,
      rows,
      signed,
      `All bars add up to ${(signed ? signedNumber : number)(sum)}, the sum of the map.`,
    );
    this.onParts();
  }

  /**
   * The part of a block, null for what belongs to none.
   * @param {number | null} block
   * @returns {{block?: number, scores: number[], total: number} | null | undefined}
   */
  term(block) {
    return block === null ? this.parts?.rest : this.parts?.blocks.find((part) => part.block === block);
  }

  /**
   * Mark the bar of the part that is on show.
   * @param {boolean} isShown whether one is
   * @param {number | null} block
   */
  mark(isShown, block) {
    markBar(this.bars, isShown ? String(block) : undefined);
  }
}
