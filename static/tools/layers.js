// Layers and heads: a small map of every head of every block, one of them large, and what each block adds to a map.

import { explanationPath, getJSON } from "../core/api.js";
import { labelled, segment } from "../core/controls.js";
import { el, number, percent, refill } from "../core/dom.js";
import { Store } from "../core/state.js";
import { BlockSums } from "../maps/blocksums.js";
import { patchName } from "../maps/mapcanvas.js";
import { HeadGrid, headName } from "../maps/headgrid.js";
import { whyHeadsAreSimilar } from "../maps/headsimilarity.js";
import { contentOf, readFor } from "../plates/content.js";
import { MoleculePlate } from "../plates/molecule.js";
import { baseOf, SinglePlates } from "../plates/singleplates.js";
import { HeadShares } from "./headshares.js";

/**
 * @import { HeadMaps, HeadRow, HeadsOfBlock, Quantity } from "../core/schemas.js"
 * @import { Head } from "../maps/headgrid.js"
 * @import { Finished, Report, Tool, WorkbenchView } from "../plates/types.js"
 * @import { Waiting } from "../progress/waiting.js"
 */

const LARGE = 100; // maps; where a model has more, those of a block are asked for when they come into view
const ABOUT =
  "Attention alone shows where a head looks, not whether that changed the answer. The gradient shows what would change the answer, and their product what did. Relevance shows how much of the answer came that way.";

/**
 * The heads of every block, and what each block adds.
 * @param {HTMLElement} root
 * @param {WorkbenchView} workbench
 * @param {Report} report
 * @param {Waiting} asking
 * @returns {Promise<Tool>}
 */
export async function open(root, workbench, report, asking) {
  return new Layers(root, workbench, report, asking, (await getJSON("/api/quantities")).quantities);
}

/**
 * What is known of the heads so far: what the server said first, and the maps of each block that has come.
 * @typedef {{id: string, question: object, heads: HeadMaps, blocks: Map<number, HeadsOfBlock>, isBusy: boolean}} Strip
 */

class Layers {
  #ticket = 0;
  /** @type {Map<string, Promise<any>>} */
  #answers = new Map();

  /**
   * @param {HTMLElement} root
   * @param {WorkbenchView} workbench
   * @param {Report} report
   * @param {Waiting} asking
   * @param {Quantity[]} quantities
   */
  constructor(root, workbench, report, asking, quantities) {
    this.workbench = workbench;
    this.report = report;
    this.asking = asking;
    this.subject = /** @type {Finished} */ (/** @type {unknown} */ (null)); // until the first is shown
    /** @type {HeadMaps | null} */
    this.heads = null;
    /** @type {Strip | null} */
    this.strip = null;
    this.figures = new SinglePlates(workbench);
    this.tool = workbench.toolStates.of("layers");
    this.quantities = new Map(quantities.map((quantity) => [quantity.name, quantity]));
    const state = this.tool.value;
    this.look = new Store({
      quantity: this.quantities.has(state.show) ? state.show : quantities[0].name,
      from: state.from === "held" ? "held" : "answer",
    });
    this.chosen = new Store(readChosen(state));
    this.sums = new BlockSums({
      now: () => ({ target: this.target.value, id: this.subject.id }),
      ask: (question) => this.#ask("contributions", question),
      choose: (block) => this.chosen.set({ part: true, block }),
      onAsk: () => this.#note(),
      onParts: () => this.chosen.value.part && this.#enlarge(),
      report,
    });
    const held =
      { image: "the held patch", text: "the held word", molecule: "the held atom" }[workbench.kind] ?? "what is held";
    this.target = el("select", {
      id: "layers-target",
      on: { change: () => Promise.all([this.#run(), this.sums.show(), this.#showShares()]) },
    });
    this.targetField = labelled("Target", this.target);
    this.says = el("p", { class: "says" });
    this.origin = el("p", { class: "origin", role: "status" });
    this.grid = new HeadGrid({
      cell: (head) => this.#cell(head),
      content: (scores) => contentOf(scores, this.#read()),
      base: () => baseOf(workbench, this.heads?.target),
      view: () => workbench.view.value,
      now: () => this.#now(),
      choose: (head) => this.chosen.set({ part: false, ...head }),
      onView: () => this.#fetch(),
    });
    this.similarity = el("p", { class: "quiet similarity", role: "status" });
    this.large = el("div", { class: "large" });
    // of models of images and prompts, seen from the image
    this.shares = new HeadShares(workbench, {
      ask: (path, question) => this.#ask(path, question),
      choose: (head) => this.chosen.set({ part: false, ...head }),
    });
    this.outside = el("p", { class: "quiet outside" });
    root.append(
      el("p", { class: "about" }, ABOUT),
      el(
        "div",
        { class: "controls" },
        segment(
          this.look,
          "quantity",
          "Show",
          Object.fromEntries(quantities.map((quantity) => [quantity.name, quantity.title])),
        ),
        segment(this.look, "from", "Seen from", { answer: "where the answer is read", held }),
        this.targetField,
      ),
      this.says,
      this.origin,
      el(
        "div",
        { class: "inside" },
        el("div", { class: "scroll" }, this.grid.node),
        el("div", { class: "side-by-side" }, this.large, this.outside, this.similarity),
      ),
      this.shares.node,
      this.sums.node,
    );
    this.look.follow((now, before) => {
      if (now.quantity !== before.quantity) this.chosen.set({ part: false });
      this.#run();
    });
    this.chosen.follow(() => {
      this.#note();
      this.#enlarge();
      this.#fetch();
    });
    workbench.view.follow(() => this.grid.draw());
    workbench.focus.follow(
      (now, before) => this.look.value.from === "held" && (now.locked || before.locked) && this.subject && this.#run(),
    );
  }

  /** @param {Finished} subject */
  async show(subject) {
    if (subject.id !== this.subject?.id) this.#answers.clear();
    this.subject = subject;
    const labels = subject.info.targets.map((target) => target.label);
    const state = this.tool.value;
    refill(
      this.target,
      labels.map((label) => [label, label]),
      state.target,
    );
    this.targetField.hidden = labels.length < 2;
    this.sums.offer(this.workbench.registry.methods, state.method);
    await this.#run();
    await this.sums.show();
    await this.#showShares();
  }

  /** What each head adds to the cosine, where there is one. */
  async #showShares() {
    if (this.workbench.kind === "clip" && this.workbench.side === "image") await this.shares.show(this.target.value);
  }

  /** The token that is held, counted as the scores are; null where none is. */
  #held() {
    const { at, locked } = this.workbench.focus.value;
    if (this.look.value.from !== "held" || !locked) return null;
    const units = baseOf(this.workbench, this.target.value)?.units;
    return units ? (units[at]?.tokens[0] ?? null) : at;
  }

  /** Write what is looked at into the address. */
  #note() {
    const { quantity, from } = this.look.value;
    const target = this.targetField.hidden ? undefined : this.target.value;
    this.tool.set({
      show: quantity,
      from: from === "held" ? "held" : undefined,
      target,
      method: this.sums.method.value || undefined,
      ...writeChosen(this.chosen.value),
    });
  }

  /**
   * @param {string} path
   * @param {object} question
   * @returns {Promise<any>}
   */
  #ask(path, question) {
    const key = JSON.stringify([path, question]);
    const known = this.#answers.get(key);
    if (known) return known;
    const answer = this.asking.ask(`${explanationPath(this.subject.id)}/${path}`, question);
    answer.catch(() => this.#answers.get(key) === answer && this.#answers.delete(key));
    this.#answers.set(key, answer);
    return answer;
  }

  async #run() {
    const ticket = ++this.#ticket;
    const { quantity } = this.look.value;
    this.#note();
    this.says.textContent = this.quantities.get(quantity)?.says ?? "";
    this.grid.node.setAttribute("aria-busy", "true");
    try {
      const strip = await this.#strip({ quantity, target: this.target.value, token: this.#held() });
      if (ticket !== this.#ticket) return;
      this.report(null);
      this.strip = strip;
      this.heads = strip.heads;
      this.origin.textContent = this.#originSaid(strip.heads);
      this.grid.lay({ ...strip.heads, grid: strip.heads.grid ?? null });
      this.#enlarge();
      this.#fetch();
    } catch (problem) {
      if (ticket === this.#ticket) this.report(problem);
    } finally {
      this.sums.node.hidden = false; // its place is known now
      if (ticket === this.#ticket) this.grid.node.setAttribute("aria-busy", "false");
    }
  }

  /**
   * What is known of the heads that a question is about.
   * @param {{quantity: string, target: string, token: number | null}} question
   * @returns {Promise<Strip>}
   */
  async #strip(question) {
    const { blocks = 0, heads } = this.workbench.models.current?.details ?? {};
    const isLarge = blocks * ((heads ?? 0) + 1) > LARGE;
    /** @type {HeadMaps & {strip?: Strip}} */
    const answer = await this.#ask("layers", isLarge ? { ...question, block: [0] } : question);
    return (answer.strip ??= {
      id: this.subject.id,
      question,
      heads: answer,
      blocks: new Map(answer.blocks.map((blockMaps) => [blockMaps.block, blockMaps])),
      isBusy: false,
    });
  }

  /**
   * Ask for the blocks that are in view or large and are not there yet: all of them at once, and one such question at a
   * time.
   */
  async #fetch() {
    const { strip } = this;
    if (!strip || strip.isBusy || strip.id !== this.subject.id) return;
    const wanted = [...new Set([this.#now().block, ...this.grid.inView])].filter(
      (block) => block < strip.heads.heads.length && !strip.blocks.has(block),
    );
    if (!wanted.length) return;
    strip.isBusy = true;
    try {
      /** @type {HeadMaps} */
      const answer = await this.asking.ask(`${explanationPath(strip.id)}/layers`, {
        ...strip.question,
        block: wanted.sort((a, b) => a - b),
      });
      for (const blockMaps of answer.blocks) strip.blocks.set(blockMaps.block, blockMaps);
    } catch (problem) {
      if (strip === this.strip) this.report(problem); // asked again when a row comes into view
      return;
    } finally {
      strip.isBusy = false;
    }
    if (strip !== this.strip) return;
    this.report(null);
    this.grid.draw();
    if (wanted.includes(this.#now().block)) this.#enlarge();
    this.#fetch();
  }

  /** @param {HeadMaps} heads */
  #originSaid({ origin, token, grid }) {
    const piece = grid || token === null ? null : this.#read()?.tokens[token].text;
    const ofMolecule = this.workbench.kind === "molecule";
    const name = {
      class_token: ofMolecule
        ? "Seen from the token of the whole molecule, which the answer is read from."
        : `Seen from the classification token${piece ? ` ${piece}` : ""}, which the answer is read from.`,
      read_token: `Seen from “${piece}”, the token that the answer is read from.`,
      mean: "Mean over all tokens: the answer is read from all of them together, not from one.",
      token: grid
        ? `Seen from the patch in ${patchName(token ?? 0, grid, baseOf(this.workbench, this.target.value)?.sheet)}.`
        : ofMolecule
          ? `Seen from the atom “${piece}”: the arcs lead to the atoms that it reads most.`
          : `Seen from the word piece “${piece}”.`,
    }[origin];
    const wanting =
      this.look.value.from === "held" && origin !== "token"
        ? ` Click ${ofMolecule ? "an atom" : grid ? "a patch" : "a word"} in any map to hold it.`
        : "";
    return name + wanting;
  }

  /** What the model read, where the maps are over words. */
  #read() {
    return this.heads && readFor(this.subject, this.heads.target);
  }

  /**
   * The map of a head: null where there is none, undefined while it is not there yet.
   * @param {Head} place
   */
  #cell({ block, head }) {
    const blockMaps = this.strip?.blocks.get(block);
    return blockMaps && (head === "mean" ? blockMaps.mean : (blockMaps.heads?.[head] ?? null));
  }

  /**
   * Block and head that are large now.
   * @returns {Head}
   */
  #now() {
    const { block, head } = this.chosen.value;
    const { heads } = /** @type {HeadMaps} */ (this.heads);
    const place = block === null || block < 0 || block >= heads.length ? heads.length - 1 : block;
    return { block: place, head: head !== "mean" && head < (heads[place] ?? 0) ? head : "mean" };
  }

  #enlarge() {
    const { parts } = this.sums;
    const { block: chosen, part } = this.chosen.value;
    const term = part && parts ? this.sums.term(chosen) : null;
    this.sums.mark(Boolean(term), chosen);
    if (parts && term) {
      const title = `${parts.title}: what ${chosen === null ? "belongs to no block" : `block ${chosen + 1} adds`}`;
      this.similarity.textContent = "";
      this.grid.mark(null);
      this.shares.mark(null);
      this.large.setAttribute("aria-busy", "false");
      this.#draw(parts, term, title, "");
      return;
    }
    if (!this.heads || !this.strip) return;
    const now = this.#now();
    const cell = this.#cell(now);
    this.similarity.textContent = this.#similaritySentence(now.block);
    this.grid.mark(now);
    this.shares.mark(now);
    this.large.setAttribute("aria-busy", String(cell === undefined));
    if (!this.strip.blocks.has(now.block)) return;
    const title = `${headName(now)}, ${this.quantities.get(this.heads.quantity)?.title}`;
    this.#draw(this.heads, cell, title, cell ? this.#outsideSaid(cell, this.heads) : "");
  }

  /**
   * @param {Pick<HeadMaps, "grid" | "signed" | "target">} whole
   * @param {{scores: number[]} | null | undefined} cell
   * @param {string} caption
   * @param {string} outside
   */
  #draw({ grid, signed, target }, cell, caption, outside) {
    this.outside.textContent = outside;
    if (!cell)
      return void this.large.replaceChildren(
        el("p", { class: "quiet" }, "This block has no attention map over all tokens."),
      );
    const content = contentOf(cell.scores, readFor(this.subject, target));
    const plate = this.figures.showInside(caption, { scores: cell.scores, grid, signed, target }, content);
    if (plate instanceof MoleculePlate && this.heads?.origin === "token" && outside)
      plate.arcs(this.workbench.focus.value.at);
    this.large.replaceChildren(plate.node);
  }

  /**
   * Why all heads of a block show one picture, where they do.
   * @param {number} block
   */
  #similaritySentence(block) {
    const heads = this.strip?.blocks.get(block)?.heads ?? [];
    const read = this.#read();
    return whyHeadsAreSimilar(
      heads.map(({ scores }) => contentOf(scores, read)),
      this.heads?.quantity === "attention",
    );
  }

  /**
   * @param {HeadRow} cell
   * @param {HeadMaps} heads
   */
  #outsideSaid(cell, { grid, quantity }) {
    const what = grid
      ? "the tokens that are no patch, such as the classification token"
      : this.workbench.kind === "molecule"
        ? "the token of the whole molecule"
        : "special tokens, which are no words";
    return quantity === "attention"
      ? `${percent(cell.outside)} of it goes to ${what}.`
      : `${number(cell.outside)} of it belongs to ${what}.`;
  }
}

/**
 * Block and head that the address names, {part, block, head}: block -1 is the last one, null of a part what belongs to
 * no block.
 * @param {{[part: string]: string | undefined}} state
 * @returns {{part: boolean, block: number | null, head: Head["head"]}}
 */
function readChosen({ block, head, part }) {
  /** @param {string | undefined} text */
  const number = (text) => (/^\d{1,4}$/.test(text ?? "") ? Number(text) - 1 : null); // counted from 1, as on the page
  if (part !== undefined) return { part: true, block: part === "rest" ? null : (number(part) ?? 0), head: "mean" };
  return { part: false, block: number(block) ?? -1, head: number(head) ?? "mean" };
}

/** @param {{part: boolean, block: number | null, head: Head["head"]}} item */
function writeChosen({ part, block, head }) {
  if (part) return { part: block === null ? "rest" : String(block + 1), block: undefined, head: undefined };
  return {
    part: undefined,
    block: block === null || block < 0 ? undefined : String(block + 1),
    head: head === "mean" ? undefined : String(head + 1),
  };
}
