// What stands over the plates: the question with its answer, the sentence that sums up, the person's own name for it,
// and notes.

import { explanationPath, getJSON } from "../core/api.js";
import { byId, el, unbroken } from "../core/dom.js";
import { isMethod } from "../core/registry.js";
import { askingLine, isFound, targetInWords, spokenAll } from "../core/targets.js";
import { withTerms } from "../help/terms.js";
import { namingField } from "./naming.js";
import { answerLine, mainTarget, withoutNumbers } from "./overview.js";

/**
 * @import { Model } from "../core/schemas.js"
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

const SHARED = "Somebody shared this with you to read. Give the picture or the text yourself to ask more.";

/** The heading above the plates. */
export class Headline {
  #page = document.title; // its name
  #answer = "";
  #agreement = "";

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
    // a new one: the closing mark of the one before would move
    byId("answer").replaceWith(el("q", { id: "answer" }, spokenAll(info.targets)));
    this.place.textContent = info.place && info.output !== "regression" ? ` of “${info.place.label}”` : "";
    byId("asking").textContent = askingLine(info, isClip);
    this.#entitle();
    this.sumUp(false);
    const unsaid = (isClip ? withheld(info) : []).filter((detail) => !this.#answer.includes(withoutNumbers(detail)));
    byId("notes").replaceChildren(
      ...unsaid.map((detail) => el("li", { title: detail }, withoutNumbers(detail))),
      ...[...(info.notes ?? []), ...this.#sharing()].map((note) => el("li", {}, note)),
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
    const { sentence, outline } = await getJSON(
      `${explanationPath(id)}/agreement?target=${encodeURIComponent(label)}`,
    ).catch(() => ({ sentence: "", outline: [] })); // the maps stand there without it
    if (subject.value.info !== info) return;
    this.#agreement = sentence;
    this.#render();
    this.workbench.agreed.set({ patches: outline });
  }

  /** Show what the model answers, and what the maps have in common. */
  #render() {
    /** @param {string} text */
    const spelled = (text) => unbroken(text).flatMap((part) => (typeof part === "string" ? withTerms(part) : [part]));
    const agreement = this.#agreement;
    byId("overview").replaceChildren(
      ...spelled(this.#answer),
      ...(agreement
        ? [
            " ",
            el(
              "span",
              { class: "agreement", title: agreement },
              // on a phone the first sentence is shown
              sentencesOf(withoutNumbers(agreement)).map((sentence) => el("span", {}, spelled(sentence))),
            ),
          ]
        : []),
    );
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
