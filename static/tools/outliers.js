// Outlier tokens: patches whose norm stands apart, marked on every map, and the same question to the model without
// them.

import { createExplanation, explanationPath, getJSON } from "../core/api.js";
import { el, whole } from "../core/dom.js";
import { classOf } from "../core/targets.js";

/**
 * @import { Registers } from "../core/schemas.js"
 * @import { Explanation } from "../core/types.js"
 * @import { Finished, Report, Tool, WorkbenchView } from "../plates/types.js"
 * @import { Waiting } from "../progress/waiting.js"
 */

const WAYS = { move: "as the paper says", move_published: "as its code does" };

/**
 * The outlier tokens of a picture.
 * @param {HTMLElement} root
 * @param {WorkbenchView} workbench
 * @param {Report} report
 * @param {Waiting} asking
 * @returns {Promise<Tool>}
 */
export async function open(root, workbench, report, asking) {
  return new Outliers(root, workbench, report, asking);
}

class Outliers {
  /**
   * @param {HTMLElement} root
   * @param {WorkbenchView} workbench
   * @param {Report} report
   * @param {Waiting} asking
   */
  constructor(root, workbench, report, asking) {
    this.workbench = workbench;
    this.report = report;
    this.asking = asking;
    this.says = el("p", { class: "says", role: "status" });
    this.controls = el("div", { class: "asked" });
    root.append(
      el(
        "p",
        { class: "about" },
        "Large Vision Transformers keep global information in a few outlier patches, where maps light up. A few neurons make them. Moving these neurons to an added token moves the outliers too ",
        el("a", { href: "https://arxiv.org/abs/2506.08010" }, "(test-time registers)"),
        ".",
      ),
      this.says,
      this.controls,
    );
  }

  /** @param {Finished} subject */
  async show({ id }) {
    this.says.textContent = "Looking for tokens with an unusually large norm …";
    this.controls.replaceChildren();
    this.report(null);
    /** @type {[Registers, Explanation]} */
    const [registers, stored] = await Promise.all([
      this.asking.ask(`${explanationPath(id)}/registers`, {}),
      getJSON(explanationPath(id)),
    ]);
    if (id !== this.workbench.subject.value.id) return;
    const patches = registers.outliers?.patches ?? [];
    Object.assign(this.workbench.plateSet.base, { outliers: patches });
    this.workbench.plateSet.everyPlate.forEach((plate) => plate.setBase(this.workbench.plateSet.base));
    const [rows, columns] = stored.maps[0]?.grid ?? [0, 0];
    const count = `${whole(patches.length)} of this picture's ${whole(rows * columns)} patches are outliers`;
    const some = ` ${count}; a dashed frame marks them on every map.`;
    const here = !registers.outliers ? "" : patches.length ? some : " No patch of this picture is an outlier.";
    const moved = stored.outlier_tokens ?? "keep";
    const now = moved === "keep" ? "" : ` These maps are of the model without outlier tokens, ${WAYS[moved]}.`;
    this.says.textContent = registers.says + here + now;
    if (moved !== "keep") this.controls.replaceChildren(this.#button("Explain with outlier tokens", stored, "keep"));
    else if (registers.can_move)
      this.controls.replaceChildren(
        this.#button("Explain without outlier tokens", stored, "move"),
        this.#button("as the published code does it", stored, "move_published"),
      );
  }

  /**
   * A button that asks the question of an explanation again.
   * @param {string} text
   * @param {Explanation} stored
   * @param {"keep" | "move" | "move_published"} outlierTokens
   */
  #button(text, stored, outlierTokens) {
    const button = el(
      "button",
      { type: "button", on: { click: () => this.#ask(button, stored, outlierTokens) } },
      text,
    );
    return button;
  }

  /**
   * @param {HTMLButtonElement} button
   * @param {Explanation} stored
   * @param {"keep" | "move" | "move_published"} outlierTokens
   */
  async #ask(button, stored, outlierTokens) {
    button.disabled = true;
    const [first] = stored.targets;
    const field = this.workbench.kind === "clip" ? "prompt" : "target";
    try {
      const { id } = await createExplanation({
        model: stored.model,
        source: stored.id,
        [field]: stored.targets.map(classOf),
        against: first?.against,
        read: first?.read,
        methods: stored.methods,
        outlier_tokens: outlierTokens,
      });
      location.search = `?id=${id}&open=outliers`;
    } catch (problem) {
      button.disabled = false;
      this.report(problem);
    }
  }
}
