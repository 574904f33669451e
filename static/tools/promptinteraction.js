// The interaction of a prompt and a picture, each word and its patches: point at a word and the picture lights, point
// at a patch and the words do.

import { explanationPath } from "../core/api.js";
import { el, number, addStyleSheet } from "../core/dom.js";
import { classOf } from "../core/targets.js";
import { askedOf, InteractionView, wayChoice, WAYS } from "./interactionview.js";

/**
 * @import { FaithfulInteraction, Interaction } from "../core/schemas.js"
 * @import { Finished, Report, Tool, WorkbenchView } from "../plates/types.js"
 * @import { Waiting } from "../progress/waiting.js"
 */

const FITTED = "fixlip"; // the way that asks the model about prompts and pictures with parts left out
const WAYS_OF_PROMPTS = {
  ...WAYS,
  [FITTED]: { name: "FIxLIP: fitted with words and patches left out, slow", asked: {} },
};

/**
 * The words of a prompt and their patches.
 * @param {HTMLElement} root
 * @param {WorkbenchView} workbench
 * @param {Report} tell
 * @param {Waiting} asking
 * @returns {Promise<Tool>}
 */
export async function open(root, workbench, tell, asking) {
  await addStyleSheet("tools/interaction.css");
  return new PromptInteraction(root, workbench, tell, asking);
}

/**
 * Say in a sentence how well the terms of a fit predict other answers; nothing where nothing was fitted.
 * @param {Interaction | FaithfulInteraction} interaction
 * @returns {string}
 */
function predicted(interaction) {
  if (!("faithfulness" in interaction)) return "";
  const [prompts, pictures] = interaction.coalitions;
  const share = Math.max(0, Math.round(100 * interaction.faithfulness));
  return ` The map was fitted to the answers for ${prompts} prompts and ${pictures} pictures with parts left out. It explains ${share} % of how the answers for others vary.`;
}

class PromptInteraction {
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
    this.tool = workbench.toolStates.of("promptinteraction");
    /** @type {string | null} */
    this.id = null;
    this.select = el("select", {
      id: "promptinteraction-prompt",
      on: { change: () => this.#choose(this.select.value) },
    });
    const way = wayChoice("promptinteraction-way", this.tool, () => this.#ask().catch(this.tell), WAYS_OF_PROMPTS);
    this.busy = el("p", { class: "quiet", role: "status" });
    this.result = el("div");
    root.append(
      el("div", { class: "pick" }, el("label", { for: "promptinteraction-prompt" }, "Words of"), this.select, ...way),
      this.busy,
      this.result,
      el(
        "p",
        { class: "quiet" },
        "What each word and each patch together add to the cosine of prompt and picture (second-order interaction, ",
        el("a", { href: "https://arxiv.org/abs/2408.14153" }, "exCLIP"),
        "; ",
        el("a", { href: "https://arxiv.org/abs/2508.05430" }, "FIxLIP"),
        "). Red parts go together; blue parts speak against each other. Trust FIxLIP: it predicts what changes when parts are left out. On 11 of 12 photos exCLIP does not. But it is twenty times faster, so good for a first look.",
      ),
    );
  }

  /** @param {Finished} subject */
  async show({ id, info }) {
    const prompts = [
      ...new Set(
        info.targets.flatMap((target) => (target.against ? [classOf(target), target.against] : [classOf(target)])),
      ),
    ];
    this.select.replaceChildren(...prompts.map((prompt) => el("option", {}, prompt)));
    this.select.value = prompts.includes(this.tool.value.prompt) ? this.tool.value.prompt : prompts[0];
    this.id = id;
    await this.#ask();
  }

  /** @param {string} prompt */
  #choose(prompt) {
    this.tool.set({ prompt });
    this.#ask().catch(this.tell);
  }

  async #ask() {
    this.#request?.abort();
    const { signal } = (this.#request = new AbortController());
    const { id } = this;
    const isFitted = this.tool.value.way === FITTED;
    this.busy.textContent = isFitted
      ? "Asking the model some hundred times, with words and patches left out …"
      : "Finding the patches that go with each word …";
    this.result.inert = true;
    try {
      this.tell(null);
      /** @type {Interaction | FaithfulInteraction} */
      const interaction = await this.asking.ask(
        `${explanationPath(String(id))}/${isFitted ? "faithful-interactions" : "interactions"}`,
        { prompt: this.select.value, ...askedOf(this.tool) },
        signal,
      );
      const view = new InteractionView(interaction, {
        names: ["The prompt", "The picture"],
        bases: [null, this.workbench.plateSet.base],
        view: this.workbench.view,
        hint: `Cosine ${number(interaction.cosine)}.${predicted(interaction)} Point at a word or at a patch; a click holds it.`,
      });
      this.result.replaceChildren(view.node, ...interaction.notes.map((note) => el("p", { class: "quiet" }, note)));
      this.busy.textContent = "";
    } catch (problem) {
      if (signal.aborted) return;
      this.busy.textContent = "";
      throw problem;
    } finally {
      if (!signal.aborted) this.result.inert = false;
    }
  }
}
