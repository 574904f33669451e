// The interaction of two inputs, or why the model finds them alike: the input on show compared with an earlier one of
// this browser, or with one that is given here. The same model reads both.

import { createExplanation, explanationPath, getJSON } from "../core/api.js";
import { el, number, addStyleSheet } from "../core/dom.js";
import { remember, rememberedIds } from "../core/historylist.js";
import { classOf, targetInWords } from "../core/targets.js";
import { seenBase } from "../inputs/pictureview.js";
import { askedOf, InteractionView, wayChoice } from "./interactionview.js";

/**
 * @import { Alikeness, ExplanationSummary } from "../core/schemas.js"
 * @import { Finished, Report, Tool, WorkbenchView } from "../plates/types.js"
 * @import { Waiting } from "../progress/waiting.js"
 */

const MOST = 24; // so many earlier ones are offered
const UNRELATED = 0.1; // a cosine nearer to 0 than this
const RELATED = 0.5;
const LIKE = 0.9;

/**
 * Explain the cosine of two inputs in a sentence.
 * @param {number} cosine
 * @returns {string}
 */
export function cosineInWords(cosine) {
  const figure = `Cosine ${number(cosine)}`;
  if (cosine >= LIKE) return `${figure}: for the model the two are nearly the same.`;
  if (cosine >= RELATED) return `${figure}: the model finds much in common between the two.`;
  if (cosine > UNRELATED) return `${figure}: the model finds a little in common between the two.`;
  if (cosine >= -UNRELATED) return `${figure}: for the model the two have nothing to do with each other.`;
  return `${figure}, below 0: for the model the two are opposites. So most parts are blue.`;
}

/**
 * The tool that shows what two inputs have in common.
 * @param {HTMLElement} root
 * @param {WorkbenchView} workbench
 * @param {Report} tell
 * @param {Waiting} asking
 * @returns {Promise<Tool>}
 */
export async function open(root, workbench, tell, asking) {
  await addStyleSheet("tools/interaction.css");
  return new InputInteraction(root, workbench, tell, asking);
}

class InputInteraction {
  /** @type {AbortController | null} */
  #request = null;

  /**
   * @param {HTMLElement} root
   * @param {WorkbenchView} workbench
   * @param {Report} tell
   * @param {Waiting} asking
   */
  constructor(root, workbench, tell, asking) {
    this.asking = asking;
    this.workbench = workbench;
    this.tell = tell;
    this.tool = workbench.toolStates.of("inputinteraction");
    this.subject = /** @type {Finished} */ (/** @type {unknown} */ (null)); // until the first is shown
    this.others = el("div", { class: "others", role: "group", "aria-label": "Compare with" });
    const way = wayChoice("inputinteraction-way", this.tool, () => this.#ask().catch(this.tell));
    this.busy = el("p", { class: "quiet", role: "status" });
    this.result = el("div");
    root.append(
      el("p", { class: "quiet" }, "Compare with"),
      this.others,
      workbench.kind === "text" ? this.#textField() : this.#pictureField(),
      el("div", { class: "pick" }, ...way),
      this.busy,
      this.result,
      el(
        "p",
        { class: "quiet" },
        "The model turns each input into a list of numbers. Their cosine says how alike it finds the two: 1 the same, 0 nothing in common, \u22121 opposites. Red parts make them alike, blue parts make them differ. Point at a part of one to see its partners in the other.",
      ),
    );
  }

  #pictureField() {
    const field = el("input", {
      type: "file",
      accept: "image/*,.heic,.heif,.avif",
      class: "hidden",
      tabIndex: -1,
      "aria-label": "Another picture",
      on: {
        change: () => {
          const [image] = field.files ?? [];
          if (image) this.#setOther({ image });
          field.value = "";
        },
      },
    });
    const button = el(
      "button",
      { type: "button", class: "act plain", on: { click: () => field.click() } },
      "Choose another picture",
    );
    return el("div", { class: "another" }, button, field);
  }

  #textField() {
    const field = el("textarea", { id: "inputinteraction-text", rows: 2, placeholder: "A warm and wonderful film." });
    const give = () => field.value.trim() && this.#setOther({ text: field.value });
    return el(
      "div",
      { class: "another" },
      el("label", { for: "inputinteraction-text" }, "or with this text"),
      field,
      el("button", { type: "button", class: "act plain", on: { click: give } }, "Compare"),
    );
  }

  /** @param {Finished} subject */
  async show(subject) {
    const { id, model } = (this.subject = subject);
    const earlier = rememberedIds()
      .filter((other) => other !== id)
      .slice(0, MOST);
    const summaries = await Promise.all(
      earlier.map((other) => getJSON(`${explanationPath(other)}/summary`).catch(() => null)),
    );
    if (this.subject.id !== id) return;
    const others = summaries.filter((other) => other?.model === model && other.state === "done");
    this.others.replaceChildren(...others.map((other) => this.#button(other)));
    this.result.replaceChildren();
    this.busy.textContent = others.length
      ? ""
      : "Explain a second input with this model first: this browser knows of no other.";
    const { other } = this.tool.value;
    if (!other) return;
    this.#mark(other);
    await this.#ask();
  }

  /** @param {ExplanationSummary} other */
  #button(other) {
    const says = other.title ?? (other.targets ?? []).map(targetInWords).join(", ");
    return el(
      "button",
      {
        type: "button",
        "aria-pressed": "false",
        title: other.excerpt ?? says,
        data: { id: other.id },
        on: { click: () => this.#choose(other.id) },
      },
      other.thumbnail
        ? el("img", { src: other.thumbnail, alt: "", loading: "lazy" })
        : el("q", {}, other.excerpt ?? ""),
      el("span", {}, says),
    );
  }

  /** @param {string} id */
  #mark(id) {
    for (const button of this.others.querySelectorAll("button"))
      button.setAttribute("aria-pressed", String(button.dataset.id === id));
  }

  /** @param {string} other */
  #choose(other) {
    this.#mark(other);
    this.tool.set({ other });
    this.#ask().catch(this.tell);
  }

  /**
   * Have the model read another input, so that there is something to compare with; its maps are not needed.
   * @param {{image?: Blob, text?: string}} input
   */
  async #setOther(input) {
    const { id, model, info } = this.subject;
    const prompt = info.targets.some((target) => target.prompt) ? info.targets.map(classOf) : null;
    this.busy.textContent = "The model reads it …";
    try {
      this.tell(null);
      const other = await createExplanation({ model, ...input, prompt, methods: ["random"] }, undefined, true);
      remember(other.id);
      if (this.subject.id !== id) return;
      this.others.querySelector(`[data-id="${other.id}"]`)?.remove();
      this.others.prepend(this.#button(await getJSON(`${explanationPath(other.id)}/summary`)));
      this.#choose(other.id);
    } catch (problem) {
      this.busy.textContent = "";
      this.tell(problem);
    }
  }

  async #ask() {
    this.#request?.abort();
    const { signal } = (this.#request = new AbortController());
    const { id } = this.subject;
    const { other } = this.tool.value;
    if (!other) return;
    this.busy.textContent = "Comparing …";
    try {
      this.tell(null);
      const question = { other, ...askedOf(this.tool) };
      /** @type {Alikeness} */
      const interaction = await this.asking.ask(`${explanationPath(id)}/alike`, question, signal);
      const bases = await Promise.all([
        interaction.first.grid ? seenBase(id, interaction.first) : null,
        interaction.second.grid ? seenBase(other, interaction.second) : null,
      ]);
      const view = new InteractionView(interaction, {
        names: ["This one", "The other one"],
        bases,
        view: this.workbench.view,
        hint: `${cosineInWords(interaction.cosine)} Point at a part of either; a click holds it.`,
      });
      this.result.replaceChildren(view.node, ...interaction.notes.map((note) => el("p", { class: "quiet" }, note)));
      this.busy.textContent = "";
    } catch (problem) {
      if (signal.aborted) return;
      this.busy.textContent = "";
      throw problem;
    }
  }
}
