// On the Leaderboard page: a data set of one's own, a zip of pictures or a file of texts, sent for a run.

import { sendBytes } from "../../core/api.js";
import { count, el } from "../../core/dom.js";
import { showProblem } from "../../core/problems.js";

/** @import { MeasurableDataset } from "../../core/schemas.js" */

/** A file that is sent for a run, and what the server found in it. */
export class SentFile {
  /**
   * `onSent` is called once one has arrived, or was refused.
   * @param {() => void} onSent
   */
  constructor(onSent) {
    this.onSent = onSent;
    /** @type {MeasurableDataset | null} */
    this.about = null;
    this.file = el("input", {
      type: "file",
      id: "wanted-file",
      accept: ".zip,.csv,.jsonl",
      on: { change: () => void this.#send() },
    });
    this.bounds = el("span");
    this.says = el("p", { role: "status" });
    this.wrong = el("div");
    this.place = el(
      "div",
      { class: "sent wide", hidden: true },
      el("label", { for: "wanted-file" }, "File "),
      this.file,
      el(
        "p",
        { class: "quiet" },
        "A .zip of pictures in a folder for each class, masks of the same names in masks/ where there are any; or a .csv with the columns text and label, or a .jsonl. ",
        this.bounds,
        " The file is kept until its run is done or deleted. If no run begins, it is kept for an hour.",
      ),
      this.says,
      this.wrong,
    );
  }

  /**
   * @param {number} inputs
   * @param {number} megabytes
   */
  limits(inputs, megabytes) {
    this.bounds.textContent = `At most ${inputs} inputs and ${megabytes} MB.`;
  }

  async #send() {
    this.about = null;
    await this.again();
    this.onSent();
  }

  /**
   * Send the chosen file; resolves to whether it was accepted.
   * @returns {Promise<boolean>}
   */
  async again() {
    const file = this.file.files?.[0];
    showProblem(this.wrong, null);
    this.says.textContent = file ? `Sending ${file.name} ...` : "";
    if (!file) return false;
    try {
      this.about = await sendBytes(`/api/runs/data?name=${encodeURIComponent(file.name)}`, file);
    } catch (problem) {
      this.says.textContent = "";
      showProblem(this.wrong, problem);
      return false;
    }
    const { inputs, gives } = /** @type {MeasurableDataset} */ (this.about);
    this.says.textContent = `${count(inputs, "input")}${gives.length ? `, with ${gives.join(" and ")}` : ", without classes"}.`;
    return true;
  }
}
