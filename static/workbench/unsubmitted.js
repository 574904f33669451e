// What was written and not submitted: what is on show is the answer to what stood there before, and is marked so.

import { byId, el } from "../core/dom.js";

/** A form whose fields ask the model when it is sent. */
export class Unsubmitted {
  /**
   * `isChanged()` says whether the fields hold something else than what was asked last, `says` what to do.
   * @param {HTMLElement} form
   * @param {() => boolean} isChanged
   * @param {string} says
   */
  constructor(form, isChanged, says) {
    this.isChanged = isChanged;
    this.note = el("p", { class: "quiet unsubmitted", role: "status", hidden: true }, says);
    form.after(this.note);
    const look = () => queueMicrotask(() => this.look()); // once the form itself has heard of it
    for (const event of ["input", "click", "paste", "submit"]) form.addEventListener(event, look);
  }

  /** Check whether the form has changed, and mark it. */
  look() {
    const isUnsubmitted = this.isChanged();
    this.note.hidden = !isUnsubmitted;
    byId("main").classList.toggle("unsubmitted", isUnsubmitted);
  }
}
