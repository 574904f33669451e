// What stands over the plates: the question with its answer, the sentence that sums up, the person's own name for it,
// and notes.

import { byId, el, unbroken } from "../core/dom.js";
import { isMethod } from "../core/registry.js";
import { spoken, spokenAll } from "../core/targets.js";
import { namingField } from "./naming.js";
import { answerLine, askingLine, mainTarget, pointLine } from "./overview.js";

/**
 * @import { Model, Started } from "../core/types.js"
 * @import { WorkbenchView } from "../plates/types.js"
 */

/**
 * What the model can't know of a picture or of its prompts, in a sentence each; of classes the sentence over the plates
 * says it.
 */
const withheld = ({ abstention, targets }) =>
  [abstention, ...targets.map((target) => target.abstention)].flatMap((judgement) =>
    judgement ? [judgement.detail] : [],
  );

/** What stands over the plates. */
export class Headline {
  #page = document.title; // its name

  /** @param {WorkbenchView & {modelInfo: {model: Model} | undefined}} workbench */
  constructor(workbench) {
    this.workbench = workbench;
    const naming = namingField(
      () => ({ id: workbench.id, title: workbench.subject.value.info?.title }),
      (title, id) => this.#named(title, id),
    );
    naming.button.disabled = true; // while nothing is on show
    workbench.subject.follow(({ id }) => (naming.button.disabled = !id));
    this.naming = [naming.button, naming.form];
    this.title = el("p", { class: "own-title", hidden: true });
    byId("question").parentNode.before(this.title);
  }

  /**
   * Another explanation is on show.
   * @param {Started} info
   */
  show(info) {
    const isClip = this.workbench.kind === "clip";
    // a new one: the closing mark of the one before would move
    byId("answer").replaceWith(el("q", { id: "answer" }, spokenAll(info.targets)));
    byId("asking").textContent = askingLine(info, isClip);
    this.#entitle();
    byId("notes").replaceChildren(
      ...[...(isClip ? withheld(info) : []), ...(info.notes ?? [])].map((note) => el("li", {}, note)),
    );
    this.sumUp(false);
  }

  /** Nothing is asked. */
  clear() {
    byId("overview").replaceChildren();
  }

  /**
   * The sentence over the plates; where methods point is known once all maps are there.
   * @param {boolean} isDone
   */
  sumUp(isDone) {
    const { subject, received, registry, modelInfo } = this.workbench;
    const { info } = subject.value;
    const main = mainTarget(info.targets);
    const read = info.prompts?.find(({ prompt }) => prompt === main.label) ?? info.input;
    const maps = received
      .filter(({ target }) => target === main.label)
      .map((map) => ({ map, plate: registry.plate(map.method) }))
      .filter(({ plate }) => plate && isMethod(plate))
      .map(({ map, plate }) => ({ map, title: plate.title }));
    const { details, calibration } = modelInfo.model;
    const sentences = [answerLine(info, { ...details, calibration }), isDone && pointLine(maps, read)]
      .filter(Boolean)
      .join(" ");
    byId("overview").replaceChildren(...unbroken(sentences));
  }

  /** The explanation `id` is called so from now on; null: it has no name. */
  #named(title, id) {
    if (id !== this.workbench.id) return;
    this.workbench.subject.value.info.title = title ?? undefined;
    this.#entitle();
  }

  #entitle() {
    const { title, targets } = this.workbench.subject.value.info;
    document.title = `${title ?? spoken(targets[0])} · ${this.#page}`;
    this.title.textContent = title ?? "";
    this.title.hidden = !title;
  }
}
