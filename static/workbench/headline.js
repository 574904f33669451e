// What stands over the plates: the question with its answer, the sentence that sums up, the person's own name for it,
// and notes.

import { explanationPath, getJSON } from "../core/api.js";
import { byId, el, unbroken } from "../core/dom.js";
import { inPageWords } from "../core/pagewords.js";
import { isMethod } from "../core/registry.js";
import { askingLine, headingTargets, isFound, targetInWords, spokenAll } from "../core/targets.js";
import { correlation } from "../core/stats.js";
import { withTerms } from "../help/terms.js";
import { namingField } from "./naming.js";
import {
  aboutWhich,
  answerLine,
  findsPrompts,
  judgingRules,
  mainTarget,
  sameMapLine,
  withoutNumbers,
} from "./overview.js";

/**
 * @import { Model, Target } from "../core/schemas.js"
 * @import { Store } from "../core/state.js"
 * @import { Started } from "../core/types.js"
 * @import { WorkbenchView } from "../plates/types.js"
 */

/**
 * The sentences on what the model can't know of a picture or of its prompts; of classes the sentence over the plates
 * says it.
 * @param {Started} started
 */
const withheld = ({ abstention, targets }) =>
  [abstention, ...targets.map((target) => target.abstention)].flatMap((judgement) =>
    judgement ? [judgement.detail] : [],
  );

/**
 * Split a text into its sentences, each but the last with the space after it.
 * @param {string} text
 * @returns {string[]}
 */
const sentencesOf = (text) => text.split(/(?<=\. )(?=[A-Z\d])/);

/**
 * How prompts were judged, folded: the rules, and what the model cannot know of each prompt.
 * @param {string[]} rules
 * @param {string[]} details
 */
const judged = (rules, details) =>
  el(
    "details",
    { class: "judged" },
    el("summary", {}, "How this is judged"),
    rules.length ? el("p", {}, withTerms(rules.join(" "))) : null,
    details.map((detail) => el("p", { title: detail }, withoutNumbers(detail))),
  );

/** Which prompt fits best, which a phone has no room for: the shares stand at the prompts. */
const BEST = /(“[^”]+” fits the whole picture best: .+? among the prompts\.)/;
const LINES = 2; // of the sentence on Prompt, so that the first maps are in sight

const SHARED = "Somebody shared this with you to read. Give the picture or the text yourself to ask more.";

/** The heading above the plates. */
export class Headline {
  #page = document.title; // its name
  #answer = "";
  #agreement = "";
  #about = ""; // which prompt that is said of

  /** @param {WorkbenchView & {modelInfo: {model: Model} | undefined, sharedId: string | null,
   *   agreed: Store<{patches: number[]}>}} workbench */
  constructor(workbench) {
    this.workbench = workbench;
    const naming = namingField(
      () => ({ id: String(workbench.id), title: workbench.subject.value.info?.title }),
      (title, id) => this.#showTitle(title, id),
    );
    naming.button.disabled = true; // while nothing is on show
    workbench.subject.follow(({ id }) => (naming.button.disabled = !id || id === workbench.sharedId));
    this.naming = [naming.button, naming.form];
    this.title = el("p", { class: "own-title", hidden: true });
    byId("question").parentNode.before(this.title);
    this.place = el("span"); // of the output that is asked about, where it has several
    byId("question").append(this.place);
  }

  #sharing() {
    const { id, sharedId } = this.workbench;
    return id && id === sharedId ? [SHARED] : [];
  }

  /**
   * Show the heading of another explanation.
   * @param {Started} info
   */
  show(info) {
    const isClip = this.workbench.kind === "clip";
    const { details, calibration } = this.workbench.modelInfo?.model ?? {};
    const known = { ...details, calibration };
    const named = isClip && !info.prompts ? headingTargets(info.targets) : info.targets;
    // a new one: the closing mark of the one before would move
    byId("answer").replaceWith(el("q", { id: "answer" }, spokenAll(named)));
    this.place.textContent = info.place && info.output !== "regression" ? ` of “${info.place.label}”` : "";
    byId("asking").textContent = askingLine({ ...info, targets: named }, isClip, "it", findsPrompts(known));
    this.#entitle();
    this.sumUp(false);
    const unsaid = (isClip ? withheld(info) : []).filter((detail) => !this.#answer.includes(withoutNumbers(detail)));
    const rules = isClip ? judgingRules(info.targets, known) : [];
    byId("notes").replaceChildren(
      ...(unsaid.length + rules.length ? [el("li", {}, judged(rules, unsaid))] : []),
      ...[...(info.notes ?? []), ...this.#sharing()].map((note) => el("li", {}, inPageWords(note))),
    );
  }

  /** Clear the heading, as nothing is asked. */
  clear() {
    byId("overview").replaceChildren();
  }

  /**
   * Show the sentence over the plates; what the maps have in common is known once all are there.
   * @param {boolean} isDone
   * @returns {Promise<void>}
   */
  async sumUp(isDone) {
    const { subject, received, registry, modelInfo, id } = this.workbench;
    const { info } = subject.value;
    if (!info || !modelInfo || !id) return;
    const { details, calibration } = modelInfo.model;
    this.#answer = answerLine(info, { ...details, calibration });
    this.#agreement = "";
    byId("overview").title = info.abstention?.detail ?? "";
    this.#render();
    this.workbench.agreed.set({ patches: [] });
    const { label } = mainTarget(info.targets);
    const maps = received.filter(({ method, target }) => target === label && isMethod(registry.plate(method) ?? {}));
    if (!isDone || maps.length < 2 || !isFound(mainTarget(info.targets))) return;
    if (!info.prompts && this.workbench.kind !== "clip" && info.targets.length > 1)
      return this.#compareTargets(info.targets);
    const { sentence, outline } = await getJSON(
      `${explanationPath(id)}/agreement?target=${encodeURIComponent(label)}`,
    ).catch(() => ({ sentence: "", outline: [] })); // the maps stand there without it
    if (subject.value.info !== info) return;
    this.#agreement = sentence;
    this.#about = aboutWhich(info.targets);
    this.#render();
    this.workbench.agreed.set({ patches: outline });
  }

  /**
   * Of two classes side by side say which methods tell them apart: how alike maps of one of them are was not asked.
   * @param {Target[]} targets
   */
  #compareTargets(targets) {
    const { received, registry, plateSet } = this.workbench;
    const content = /** @type {{content?: boolean[] | null}} */ (plateSet).content ?? null;
    const [first, second] = targets.map(({ label }) => label);
    const maps = received.filter(({ method }) => isMethod(registry.plate(method) ?? {}));
    const pairs = maps.flatMap((map) => {
      const other = map.target === first && maps.find((each) => each.method === map.method && each.target === second);
      if (!other) return [];
      const [a, b] = [map, other].map(({ scores }) => scores.filter((_, i) => content?.[i] ?? true));
      return [{ title: registry.plate(map.method)?.title ?? map.method, r: correlation(a, b) }];
    });
    this.#agreement = targets.length === 2 ? sameMapLine(pairs) : "";
    this.#about = "";
    this.#render();
  }

  /** Show what the model answers, and what the maps have in common. */
  #render() {
    /** @param {string} text */
    const spelled = (text) => unbroken(text).flatMap((part) => (typeof part === "string" ? withTerms(part) : [part]));
    const agreement = this.#agreement;
    byId("overview").replaceChildren(
      ...this.#answer.split(BEST).map((part, i) => el("span", i % 2 ? { class: "best" } : {}, spelled(part))),
      ...(agreement
        ? [
            " ",
            el(
              "span",
              { class: "agreement", title: agreement },
              // on a phone the first sentence is shown
              sentencesOf(`${this.#about}${withoutNumbers(agreement)}`).map((sentence) =>
                el("span", {}, spelled(sentence)),
              ),
            ),
          ]
        : []),
    );
    this.#fit();
  }

  /**
   * Leave the last sentences on the maps to the hover, then which prompt fits best to the prompts, where they would
   * push the maps down.
   */
  #fit() {
    if (this.workbench.kind !== "clip") return;
    const overview = byId("overview");
    const most = LINES * parseFloat(getComputedStyle(overview).lineHeight) + 1;
    /** @type {HTMLElement[]} */
    const sentences = [...overview.querySelectorAll(".agreement > span:not(:first-child)")].reverse();
    /** @type {HTMLElement[]} */
    const shares = [...overview.querySelectorAll(".best")];
    for (const sentence of [...sentences, ...shares]) if (overview.offsetHeight > most) sentence.hidden = true;
  }

  /**
   * Show the new title of explanation `id`; null: it has no name.
   * @param {string | null} title
   * @param {string} id
   */
  #showTitle(title, id) {
    if (id !== this.workbench.id) return;
    const { info } = this.workbench.subject.value;
    if (info) info.title = title ?? undefined;
    this.#entitle();
  }

  #entitle() {
    const { title, targets = [] } = this.workbench.subject.value.info ?? {};
    if (!targets.length) return;
    document.title = `${title ?? targetInWords(targets[0])} · ${this.#page}`;
    this.title.textContent = title ?? "";
    this.title.hidden = !title;
  }
}
