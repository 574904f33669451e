// The deletion test on the page: every plate loses its own tokens in the order of its map, and says what the model says
// without them.

import { byId, el, number, percent } from "../core/dom.js";
import { showProblem } from "../core/problems.js";
import { isMethod, methodNames } from "../core/registry.js";
import { failureRule, isFailing } from "../maps/chance.js";
import { rankedMethods } from "../maps/curvepanel.js";
import { Curves } from "../maps/curves.js";
import { DeletionFacts, NOT_ASKED, NOT_RANKED, ORDER_NAMES } from "../maps/deletionfacts.js";
import { coverPatches, paperColour, strikeWords } from "../maps/tokenremoval.js";
import { ordinal } from "../maps/caption.js";
import { Waiting } from "../progress/waiting.js";
import { partsNoun } from "../plates/content.js";
import { countAt, DeletionTest, valueAt, verdict } from "./deletiontest.js";

/**
 * @import { Store } from "../core/state.js"
 * @import { Subject } from "../core/types.js"
 * @import { CurvesEntry } from "../maps/curves.js"
 * @import { MapPlate } from "../maps/types.js"
 * @import { WorkbenchView } from "../plates/types.js"
 */

/** @type {{[read: string]: string}} */
const READ_TERMS = {
  probability: "without these parts",
  logit: "logit without them",
  value: "value without them",
};
const WHOLE = "with nothing removed";

/**
 * Format a number of the target by how it is read: a probability, a logit or a value.
 * @param {string} read
 * @param {number} value
 * @returns {string}
 */
const shownValue = (read, value) => (read === "probability" ? percent(value) : number(value));

/**
 * The lines of the test under a map: those of its plate, else new ones.
 * @param {MapPlate} mapPlate
 */
function factsOf({ node, actions, deletion }) {
  if (deletion) return deletion;
  const facts = new DeletionFacts();
  // where there are plain words, it lies over them, so that nothing moves
  const words = node.querySelector(".plainly");
  if (words?.checkVisibility()) words.append(facts.node);
  else actions.node.before(facts.node);
  return facts;
}

// Why there are no curves yet.
const WAITING = "The test begins when all maps are there.";
const ASKING = "All maps are there. The model now answers without the parts that each map names.";

/**
 * @param {Element | HTMLSpanElement} node
 * @param {string} text
 */
const put = (node, text) => node.textContent !== text && (node.textContent = text);

/** The display of the deletion test: what the plates lose at the place of the slider, and the curves. */
export class DeletionView {
  /** @type {Map<string, DeletionTest>} */
  #trials = new Map(); // id of an explanation on show -> DeletionTest; two of them where two models are compared
  #facts = new WeakMap(); // plate -> DeletionFacts
  #waiting = 0;
  asking = new Waiting(); // the curves
  begun = el("span", {}, "asking the model…"); // until it is known how much is asked

  /**
   * @param {{workbench: WorkbenchView, tool: Store<any>, problem: Element, statusLine: HTMLElement,
   *   showCount: (share: string, counted: string) => void, isOpen: boolean}} bar
   */
  constructor(bar) {
    const { workbench } = bar;
    this.bar = bar;
    this.workbench = workbench;
    this.figure = new Curves(byId("curves"), bar.tool, {
      onPick: (spec) => this.#pick(spec),
    });
    workbench.removal.follow(() => this.soon());
    addEventListener("scheme", () => this.soon());
    for (const subject of this.#subjects) {
      subject.follow((now, before) => {
        if (now.id !== before.id) this.#begin();
        if (now.done && bar.isOpen) this.#ask(now);
      });
    }
    // plates that come later, and texts that are split again, lose their tokens too
    this.observer = new MutationObserver(() => this.soon());
    this.observer.observe(byId("plates"), { childList: true, subtree: true });
    this.#begin();
    this.wake();
  }

  /** Ask about what is on show. */
  wake() {
    for (const { value } of this.#subjects) if (value.done) this.#ask(value);
    this.soon();
  }

  /** Stop asking; what is answered already is kept. */
  rest() {
    for (const [id, trial] of this.#trials) {
      if (!trial.isAsking) continue;
      trial.drop();
      this.#trials.set(id, new DeletionTest(trial));
    }
    this.#renderCurves();
    this.soon();
  }

  /** The explanations on show: the page's own, and the one of another model where there is one. */
  get #subjects() {
    return [this.workbench.subject, this.workbench.compared];
  }

  /** Draw once before the next frame. */
  soon() {
    this.#waiting ||= requestAnimationFrame(() => {
      this.#waiting = 0;
      this.draw();
    });
  }

  /** Remove from every plate the share that the slider shows. */
  draw() {
    const { removed, order } = this.workbench.removal.value;
    this.paper = paperColour(byId("plates")); // read once, before anything is written
    const sizes = new Set(
      this.workbench.plateSet.tested
        .map((plate) => this.#plate(plate, removed / 100, order))
        .filter((tokens) => tokens !== null),
    );
    const { info } = this.workbench.subject.value;
    this.observer.takeRecords(); // what was written here is no reason to draw again
    const [tokens] = sizes;
    // prompts may be of different lengths, and models may cut in different ways
    const many = sizes.size > 1 ? " of each" : "";
    const counted = sizes.size === 1 && info ? `${countAt(removed / 100, tokens)} of ${tokens} ${partsNoun(info)}` : "";
    this.bar.showCount(`${removed}\u2009%${counted ? "" : many}`, counted);
    this.figure.mark(order, removed / 100);
  }

  /**
   * Remove tokens from a plate; gives how many it has, null where it shows no map of an explanation on show.
   * @param {MapPlate} plate
   * @param {number} share
   * @param {string} order
   */
  #plate(plate, share, order) {
    if (!this.#facts.has(plate)) this.#facts.set(plate, factsOf(plate));
    const facts = this.#facts.get(plate);
    const { map } = plate;
    const trial = this.#trials.get(plate.actions.id ?? "");
    plate.removal = null;
    if (!map || !trial) {
      put(facts.then.value, NOT_ASKED);
      put(facts.rank.value, NOT_ASKED);
      return null;
    }
    const tokens = trial.tokensInOrder(map, order);
    const answer = trial.answers.get(map.target);
    const most = Math.min(countAt(share, tokens.length), answer?.counts.at(-1) ?? tokens.length);
    const removed = new Set(tokens.slice(0, most));
    if (plate.mapCanvas) coverPatches(plate.mapCanvas, map.grid ?? [], removed, this.paper ?? "");
    else strikeWords(/** @type {any} */ (plate), removed);
    plate.picture?.cover(removed, this.paper ?? "");
    const which = `${Math.round(100 * share)}\u2009% ${ORDER_NAMES[order]}`;
    const parts = partsNoun(trial.info);
    plate.removal = { removed, of: tokens.length, parts, which, resultLine: null }; // for who draws the plate elsewhere
    const curve = answer?.curves.find((candidate) => candidate.method === map.method && candidate.order === order);
    const row = answer?.ranking.find((candidate) => candidate.method === map.method && !candidate.control);
    if (answer && curve && row) {
      const { value, computed } = valueAt(answer.counts, curve[answer.read] ?? [], most);
      const rows = rankedMethods(answer.ranking);
      const without = answer.isContrast ? "difference without them" : READ_TERMS[answer.read];
      const term = removed.size ? without : WHOLE;
      const then = `${computed ? "" : "≈ "}${shownValue(answer.read, value)}`;
      const rank = row.rank
        ? `${rows.length > 1 ? `${ordinal(row.rank)} of ${rows.length}` : "the only map"}${isFailing(answer, row) ? ", fails" : ""}`
        : NOT_RANKED;
      put(facts.then.term, term);
      put(facts.then.value, then);
      put(facts.rank.value, rank);
      // after the test, and while nothing is removed, the whole answer stands over the figure
      if (this.bar.isOpen)
        plate.removal.resultLine = [removed.size && `${term} ${then}`, row.rank ? `rank ${rank}` : rank]
          .filter(Boolean)
          .join(" · ");
    } else {
      put(facts.then.value, NOT_ASKED);
      put(facts.rank.value, NOT_ASKED);
    }
    return tokens.length;
  }

  /** Start again for another explanation on show, or for another second one. */
  #begin() {
    const before = this.#trials;
    this.#trials = new Map();
    for (const { value } of this.#subjects) {
      const { id, model, info } = value;
      if (id && model && info) this.#trials.set(id, before.get(id) ?? new DeletionTest({ id, model, info }));
    }
    for (const [id, trial] of before) if (!this.#trials.has(id)) trial.drop();
    showProblem(this.bar.problem, null);
    this.#renderCurves();
    this.soon();
  }

  /**
   * Ask for the curves of an explanation that is done.
   * @param {Subject} subject
   */
  #ask({ id }) {
    const onAnswer = () => {
      this.#renderCurves();
      this.draw();
    };
    this.#trials
      .get(id ?? "")
      ?.ask(this.asking, onAnswer, () => this.#showProgress())
      .catch((problem) => this.workbench.report(problem, this.bar.problem));
  }

  /**
   * The name of a trial's model, where there are two.
   * @param {DeletionTest} trial
   */
  #modelName(trial) {
    return this.#trials.size < 2 ? null : this.workbench.models.shownName(trial.model);
  }

  /** Render the figure of curves, and say what was asked. */
  #renderCurves() {
    const trials = [...this.#trials.values()];
    const names = methodNames(this.workbench.plateSet.tested.map(({ variant }) => variant));
    const entries = trials.flatMap((trial) =>
      [...trial.answers.values()].map((answer) => ({
        id: trial.id,
        name: [this.#modelName(trial), answer.target].filter(Boolean).join(" · "),
        answer,
        names,
      })),
    );
    const isAsking = trials.some((trial) => trial.isAsking);
    const summaries = trials.map(
      (trial) => trial.summaryLine && [this.#modelName(trial), trial.summaryLine].filter(Boolean).join(": "),
    );
    this.figure.asked.textContent = summaries.filter(Boolean).join(" ");
    this.figure.show(entries, isAsking ? ASKING : this.#subjects.some(({ value }) => value.done) ? "" : WAITING);
    if (isAsking) this.bar.statusLine.replaceChildren(this.begun, this.figure.bar);
    else {
      const steps = [...new Set(trials.map((trial) => trial.steps).filter(Boolean))].join(" and ");
      put(this.bar.statusLine, steps && `${steps} shares measured`);
    }
    this.#showProgress();
    const { id, done } = this.workbench.subject.value;
    const answer = isAsking || !done ? undefined : [...(this.#trials.get(id ?? "")?.answers.values() ?? [])][0];
    const methods = this.workbench.plateSet.variants.filter(isMethod);
    const { recommended: best, doubtful } = this.workbench.plateSet.groups;
    this.workbench.plateSet.groups.judge(
      answer ? verdict(answer, best, methods, doubtful) : "",
      answer ? failureRule(answer) : "",
    );
  }

  /** Show how many inputs of how many the model has answered, at the curves and in the deletion bar. */
  #showProgress() {
    const now = [...this.#trials.values()].find((trial) => trial.isAsking && trial.progress);
    this.figure.progress(now?.progress ?? null, now?.inputNoun ?? "");
    this.begun.hidden = Boolean(now); // the progress says it
  }

  /**
   * The curves on show: {id, answer, names}; null while there are none.
   * @returns {CurvesEntry | null}
   */
  get curves() {
    return this.figure.shown;
  }

  /** @param {string | null} spec */
  #pick(spec) {
    for (const plate of this.workbench.plateSet.tested)
      plate.node.classList.toggle("picked", plate.variant.spec === spec);
  }
}
