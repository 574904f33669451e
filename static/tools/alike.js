// Why are these two alike? The input on show beside another one that the same model explained from this browser.

import { explanationPath, getJSON } from "../core/api.js";
import { el, number, styled } from "../core/dom.js";
import { remembered } from "../core/historylist.js";
import { spoken } from "../core/targets.js";
import { seenBase } from "../inputs/specimen.js";
import { askedOf, InteractionView, wayChoice } from "./interactionview.js";

/**
 * @import { Waiting } from "../asking/waiting.js"
 * @import { WorkbenchView, Report, Tool } from "../plates/types.js"
 */

const MOST = 24; // so many earlier ones are offered

/**
 * What two inputs have in common.
 * @param {HTMLElement} root
 * @param {WorkbenchView} workbench
 * @param {Report} tell
 * @param {Waiting} asking
 * @returns {Promise<Tool>}
 */
export async function open(root, workbench, tell, asking) {
  await styled("tools/crossing.css");
  return new Alike(root, workbench, tell, asking);
}

class Alike {
  #request = null;

  constructor(root, workbench, tell, asking) {
    this.asking = asking;
    this.workbench = workbench;
    this.tell = tell;
    this.tool = workbench.toolStates.of("alike");
    this.id = null;
    this.select = el("select", { id: "alike-other", on: { change: () => this.#choose(this.select.value) } });
    const way = wayChoice("alike-way", this.tool, () => this.#ask().catch(this.tell));
    this.busy = el("p", { class: "quiet", role: "status" });
    this.result = el("div");
    root.append(
      el("div", { class: "pick" }, el("label", { for: "alike-other" }, "Compare with"), this.select, ...way),
      this.busy,
      this.result,
      el(
        "p",
        { class: "quiet" },
        "The model turns each input into a list of numbers before it answers; their cosine says how alike it finds the two. Red parts make them alike, blue parts make them differ. Point at a part of one to see its partners in the other.",
      ),
    );
  }

  async show({ id, model, info }) {
    this.id = id;
    const earlier = remembered()
      .filter((other) => other !== id)
      .slice(0, MOST);
    const summaries = await Promise.all(
      earlier.map((other) => getJSON(`${explanationPath(other)}/summary`).catch(() => null)),
    );
    const others = summaries.filter((other) => other?.model === model && other.state === "done");
    if (this.id !== id) return;
    const name = (other) =>
      other.title ??
      `${other.excerpt ?? new Date(other.created).toLocaleTimeString()}: ${other.targets.map(spoken).join(", ")}`;
    this.select.replaceChildren(
      el("option", { value: "" }, "choose"),
      ...others.map((other) => el("option", { value: other.id }, name(other))),
    );
    this.select.disabled = !others.length;
    this.result.replaceChildren();
    this.busy.textContent = others.length
      ? ""
      : `Explain another ${info.input.kind === "text" ? "text" : "picture"} with this model first: earlier ones of this browser are offered here.`;
    this.select.value = others.some((other) => other.id === this.tool.value.other) ? this.tool.value.other : "";
    if (this.select.value) await this.#ask();
  }

  #choose(other) {
    this.tool.set({ other: other || undefined });
    this.#ask().catch(this.tell);
  }

  async #ask() {
    this.#request?.abort();
    this.#request = new AbortController();
    const { signal } = this.#request;
    const { id } = this;
    const other = this.select.value;
    if (!other) return void this.result.replaceChildren();
    this.busy.textContent = "Comparing …";
    try {
      this.tell(null);
      const question = { other, ...askedOf(this.tool) };
      const interaction = await this.asking.ask(`${explanationPath(id)}/alike`, question, signal);
      const bases = await Promise.all([
        interaction.first.grid && seenBase(id),
        interaction.second.grid && seenBase(other),
      ]);
      const crossing = new InteractionView(interaction, {
        names: ["This one", "The other one"],
        bases,
        view: this.workbench.view,
        hint: `Cosine ${number(interaction.cosine)}: 1 is the same, 0 is nothing in common. Point at a part of either; a click holds it.`,
      });
      this.result.replaceChildren(crossing.node, ...interaction.notes.map((note) => el("p", { class: "quiet" }, note)));
      this.busy.textContent = "";
    } catch (problem) {
      if (signal.aborted) return;
      this.busy.textContent = "";
      throw problem;
    }
  }
}
