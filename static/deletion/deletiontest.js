// One explanation under the deletion test: in which order the tokens of its maps are removed, and what its model says
// then.

import { explanationPath } from "../core/api.js";
import { sayMethods } from "../core/registry.js";
import { ordinal } from "../maps/caption.js";
import { isFailing } from "../maps/chance.js";
import { rankedMethods } from "../maps/curvepanel.js";
import { partsNoun, readFor } from "../plates/content.js";

const MOST_NAMED = 3; // methods that fail; of more, how many

/**
 * @import { ProgressData } from "../core/schemas.js"
 * @import { Judged } from "../maps/chance.js"
 * @import { DeletionAnswer, ScoreMap, Started } from "../core/types.js"
 * @import { Waiting } from "../progress/waiting.js"
 */

/**
 * Sort the tokens `content` (indices of `scores`) in the order of removal; of equal ones the earlier is first, as on
 * the server.
 * @param {number[]} scores
 * @param {number[]} content
 * @param {string} order
 */
function removalOrder(scores, content, order) {
  const sign = order === "most" ? -1 : 1;
  return [...content].sort((a, b) => sign * (scores[a] - scores[b]));
}

/**
 * The number of `tokens` that are removed at a share; a half is rounded up, as on the server.
 * @param {number} share
 * @param {number} tokens
 * @returns {number}
 */
export const countAt = (share, tokens) => Math.floor(share * tokens + 0.5);

/**
 * The value when so many tokens are removed: computed, or on the straight line between the two computed points around
 * it.
 * @param {number[]} counts
 * @param {number[]} values
 * @param {number} removed
 * @returns {{value: number, computed: boolean}}
 */
export function valueAt(counts, values, removed) {
  const right = counts.findIndex((at) => at >= removed);
  if (right < 0) return { value: values[values.length - 1], computed: false };
  if (counts[right] === removed) return { value: values[right], computed: true };
  const t = (removed - counts[right - 1]) / (counts[right] - counts[right - 1]);
  return { value: values[right - 1] + t * (values[right] - values[right - 1]), computed: false };
}

/**
 * Say how the test on this input stands to the recommendation, which rests on many inputs, and which maps fail it.
 * @param {Judged} answer
 * @param {{spec: string, title: string, standing?: {inputs: string} | null} | undefined} best the recommended method,
 *   where there is one
 * @param {{spec: string, title: string}[]} methods those of the plates, without the control
 * @param {Set<string>} [doubtful] the specs of the maps that cannot be trusted for this input
 * @returns {string}
 */
export function verdict(answer, best, methods, doubtful = new Set()) {
  const rows = rankedMethods(answer.ranking);
  const row = rows.find(({ method }) => method === best?.spec);
  const first = methods.find(({ spec }) => spec === rows[0]?.method)?.title ?? rows[0]?.method;
  const says =
    row && rows.length > 1
      ? row.rank === 1
        ? `Here the test agrees: ${best?.title} is best of ${rows.length}.`
        : `Here ${first} does best; ${best?.title}, best on ${best?.standing?.inputs ?? "many inputs"}, is ${ordinal(row.rank)} of ${rows.length}.`
      : "";
  const judged = methods.filter(({ spec }) => rows.some(({ method }) => method === spec));
  const failing = judged
    .filter(({ spec }) => rows.some((one) => one.method === spec && isFailing(answer, one)))
    .map(({ title }) => title);
  const which = judged.some(({ spec }) => doubtful.has(spec)) ? " this test" : ""; // the sentence before names those in doubt
  const fails = failing.length
    ? `${namesOf(failing)} ${failing.length > 1 ? "fail" : "fails"}: what ${failing.length > 1 ? "each" : "it"} marks matters no more than random parts.`
    : judged.length &&
      `No map fails${which}: what ${judged.length > 1 ? "each" : "it"} marks matters more than random parts.`;
  return [says, fails].filter(Boolean).join(" ");
}

/**
 * Join titles to a list in words; of many, the first and how many more.
 * @param {string[]} titles
 * @returns {string}
 */
function namesOf(titles) {
  const [shown, more] = [titles.slice(0, MOST_NAMED), titles.length - MOST_NAMED];
  return more > 0 ? `${shown.join(", ")} and ${more} more` : shown.join(", ").replace(/, ([^,]*)$/, " and $1");
}

/** The deletion test of one explanation. */
export class DeletionTest {
  /** @type {Map<string, DeletionAnswer>} */
  answers = new Map(); // label of a target -> curves, as the API gives them
  isAsking = false;
  /** @type {ProgressData | null} */
  progress = null; // {asked, total} inputs of the target that is asked about now
  #orders = new Map();
  /** @type {AbortController | null} */
  #request = null;

  /**
   * `subject` is {id, model, info}: the explanation, the name of its model, and what that said when it began.
   * @param {{id: string, model: string, info: Started}} options
   */
  constructor({ id, model, info }) {
    this.id = id;
    this.model = model;
    this.info = info;
  }

  /**
   * The tokens of a map that can be removed, in the order of removal.
   * @param {ScoreMap} map
   * @param {string} order
   * @returns {number[]}
   */
  tokensInOrder(map, order) {
    const key = `${map.method}\n${map.target}\n${order}`;
    if (!this.#orders.has(key)) {
      const read = readFor(this, map.target);
      const content = read ? read.tokens.flatMap((token, i) => (token.special ? [] : [i])) : [...map.scores.keys()];
      this.#orders.set(key, removalOrder(map.scores, content, order));
    }
    return this.#orders.get(key);
  }

  /**
   * The noun for the inputs that the model is asked about, from each of which parts are removed.
   * @returns {string}
   */
  get inputNoun() {
    return this.info.prompts
      ? "prompts"
      : this.info.input.kind === "image"
        ? "pictures"
        : this.info.input.molecule
          ? "molecules"
          : "texts";
  }

  /**
   * Ask for the curves of every target, once, the first one first; `onAnswer` is called after each, `onProgress` when
   * there is
   * progress. Rejects with the Problem.
   * @param {Waiting} asking
   * @param {() => void} onAnswer
   * @param {() => void} onProgress
   * @returns {Promise<void>}
   */
  async ask(asking, onAnswer, onProgress) {
    if (this.#request) return;
    const { signal } = (this.#request = new AbortController());
    this.isAsking = true;
    onAnswer();
    try {
      for (const { label, against } of this.info.targets) {
        /** @param {{asked: number, total: number}} progress */
        const report = (progress) => {
          this.progress = progress;
          onProgress();
        };
        const path = `${explanationPath(this.id)}/deletion-test`;
        const answer = await asking.ask(path, { target: label }, signal, report);
        if (signal.aborted) return;
        this.answers.set(label, { ...answer, isContrast: Boolean(against) });
        if (this.answers.size < this.info.targets.length) onAnswer();
      }
    } catch (problem) {
      if (problem.name !== "AbortError") throw problem;
    } finally {
      this.isAsking = false;
      this.progress = null;
      if (!signal.aborted) onAnswer();
    }
  }

  /** Stop asking: nobody waits for the answers any more. */
  drop() {
    (this.#request ??= new AbortController()).abort();
  }

  /**
   * The number of shares without which the model was asked, none and all among them; 0 while the answers are not all
   * there.
   * @returns {number}
   */
  get steps() {
    const [first] = this.answers.values();
    return this.isAsking || !first ? 0 : first.counts.length;
  }

  /**
   * A sentence or two on what was asked; empty while the answers are not all there.
   * @returns {string}
   */
  get summaryLine() {
    if (!this.steps) return "";
    const [{ curves, how, ranking }] = this.answers.values();
    const methods = rankedMethods(ranking).length;
    const asked = `${sayMethods(methods, curves.length / 2 - methods)}, measured with ${this.steps} shares of the ${partsNoun(this.info)} removed, none to all; values marked ≈ are in between.`;
    const painted = how === "painted" && "Patches were painted grey, as this model needs them all.";
    const words = this.info.prompts && "Each prompt loses its own words, which changes its likeness to the picture.";
    return [asked, painted, words].filter(Boolean).join(" ");
  }
}
