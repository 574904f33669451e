// What each head adds to the cosine of a picture and a prompt: bars of the strongest, and of the one that is chosen
// what it looks for in words, its map, and what the model says without it.

import { el, number, percent, signedNumber } from "../core/dom.js";
import { drawBars, markBar } from "../maps/blocksums.js";
import { headName } from "../maps/headgrid.js";
import { SinglePlates } from "../plates/singleplates.js";

/**
 * @import { SimilarityDecomposition, WithoutHead } from "../core/schemas.js"
 * @import { Head } from "../maps/headgrid.js"
 * @import { WorkbenchView } from "../plates/types.js"
 */

const SHOWN = 6; // heads with a bar
const SAYS_LITTLE = 0.1; // share of what a head adds that its best text has to cover for it to be called words

/** The section of the drawer. */
export class HeadShares {
  #ticket = 0;
  /** @type {SimilarityDecomposition | null} */
  #parts = null;
  /** @type {Head | null} */
  #head = null;

  /**
   * `ask(path, question)` asks about the explanation on show; `choose(head)` makes a head the chosen one.
   * @param {WorkbenchView} workbench
   * @param {{ask: (path: string, question: object) => Promise<any>, choose: (head: Head) => void}} callbacks
   */
  constructor(workbench, { ask, choose }) {
    this.ask = ask;
    this.choose = choose;
    this.figures = new SinglePlates(workbench);
    this.bars = el("div", { class: "head-sums" });
    this.chosen = el("div", { class: "chosen-head" });
    this.says = el("p", { class: "quiet", role: "status" });
    this.node = el(
      "section",
      { class: "adds head-shares", hidden: true },
      el("h3", {}, "What each head adds to the cosine"),
      el(
        "p",
        { class: "quiet" },
        "The cosine of picture and prompt is the sum of what each head sends from each patch to the class token, and of what the MLPs add ",
        el("a", { href: "https://arxiv.org/abs/2310.05916" }, "(Gandelsman et al.)"),
        ". It leaves out what a head does through later blocks.",
      ),
      this.says,
      el("div", { class: "by-head" }, this.bars, this.chosen),
    );
  }

  /**
   * Ask for the parts of the cosine with a target.
   * @param {string} target
   */
  async show(target) {
    const ticket = ++this.#ticket;
    this.node.hidden = false;
    this.node.setAttribute("aria-busy", "true");
    try {
      const parts = await this.ask("similarity", { target });
      if (ticket !== this.#ticket) return;
      this.#parts = parts;
      this.says.replaceChildren(...parts.notes.map((/** @type {string} */ note) => el("span", {}, note)));
      this.#drawBars(parts);
    } catch (problem) {
      if (ticket !== this.#ticket) return;
      this.#parts = null;
      this.bars.replaceChildren();
      this.says.textContent = String(problem.message ?? problem);
    } finally {
      if (ticket === this.#ticket) this.node.setAttribute("aria-busy", "false");
    }
    this.mark(this.#head);
  }

  /**
   * Show a head; nothing for the mean of a block and for null.
   * @param {Head | null} head
   */
  mark(head) {
    this.#head = head;
    const parts = this.#parts;
    const { block, head: number } = head ?? { block: -1, head: "mean" };
    markBar(this.bars, `${block} ${number}`);
    const found = number === "mean" ? undefined : parts?.blocks[block]?.heads[number];
    if (!parts || !head || !found) {
      this.figures.show([]);
      this.chosen.replaceChildren(
        ...(parts
          ? [el("p", { class: "quiet" }, "Choose a head, here or in the maps above, to see what it looks for.")]
          : []),
      );
      return;
    }
    this.#drawHead(parts, head, found);
  }

  /** @param {SimilarityDecomposition} parts */
  #drawBars(parts) {
    const heads = parts.blocks
      .flatMap(({ block, heads }) => heads.map(({ total }, head) => ({ block, head, total })))
      .sort((a, b) => Math.abs(b.total) - Math.abs(a.total));
    const sum = (/** @type {{total: number}[]} */ rows) => rows.reduce((all, { total }) => all + total, 0);
    const mlps = parts.start + parts.blocks.reduce((all, { mlp }) => all + mlp, 0);
    const others = heads.slice(SHOWN);
    const rows = heads.slice(0, SHOWN).map((row) => ({
      key: `${row.block} ${row.head}`,
      name: headName(row),
      total: row.total,
      choose: () => this.choose(row),
    }));
    const rest = [
      ...(others.length ? [{ key: "others", name: `${others.length} other heads`, total: sum(others) }] : []),
      { key: "mlps", name: "MLPs", total: mlps },
    ];
    drawBars(this.bars, [...rows, ...rest], true, `Together ${number(parts.cosine)}: the cosine.`);
  }

  /**
   * @param {SimilarityDecomposition} parts
   * @param {Head} head
   * @param {SimilarityDecomposition["blocks"][0]["heads"][0]} found
   */
  #drawHead(parts, head, found) {
    const { target, grid, cosine } = parts;
    const shareSaid = cosine > 0 ? `, ${percent(found.total / cosine)} of it` : "";
    const answer = el("div", { class: "answer", role: "status" });
    const button = el(
      "button",
      { type: "button", on: { click: () => this.#takeAway(head, answer) } },
      "Remove this head",
    );
    const title = `${headName(head)}: what it adds to “${target}”`;
    const plate = this.figures.showInside(title, { scores: found.scores, grid, signed: true, target });
    this.chosen.replaceChildren(
      plate.node,
      el("p", {}, `Adds ${signedNumber(found.total)} to a cosine of ${number(cosine)}${shareSaid}.`),
      ...this.#words(parts, found.words),
      button,
      answer,
    );
  }

  /**
   * Describe in words what a head looks for.
   * @param {SimilarityDecomposition} parts
   * @param {{text: string, share: number}[] | null} words
   */
  #words({ pictures, texts }, words) {
    if (!words) return [];
    const over = `Chosen from ${texts} texts on these pictures: ${pictures}.`;
    if (!words.length)
      return [el("p", { class: "looks-for" }, "This head adds the same to every picture, so no text describes it.")];
    const little = words[0].share < SAYS_LITTLE ? " (no text describes it well; the best are)" : ":";
    return [
      el("p", { class: "looks-for" }, `What this head looks for${little}`),
      el(
        "ul",
        { class: "looks-for" },
        ...words.map(({ text, share }) => el("li", {}, text, " ", el("span", { class: "num" }, percent(share)))),
      ),
      el("p", { class: "quiet" }, `${over} The share is the part of its variance that the text explains.`),
    ];
  }

  /**
   * Ask the model again without a head.
   * @param {Head} head
   * @param {HTMLElement} place
   */
  async #takeAway({ block, head }, place) {
    const target = this.#parts?.target;
    place.textContent = "Asking the model without it …";
    try {
      /** @type {WithoutHead} */
      const answer = await this.ask("without-head", { target, block, head });
      place.replaceChildren(
        el(
          "p",
          {},
          `Without it the cosine is ${number(answer.without)} (${signedNumber(answer.without - answer.cosine)}). Its own part is ${signedNumber(answer.direct - answer.cosine)} of that. The rest comes through later parts and the length of the embedding.`,
        ),
        el(
          "ul",
          {},
          ...answer.prompts.map(({ prompt, before, without }) =>
            el("li", {}, `${prompt}: ${number(before)} → ${number(without)} (${signedNumber(without - before)})`),
          ),
        ),
      );
    } catch (problem) {
      place.textContent = String(problem.message ?? problem);
    }
  }
}
