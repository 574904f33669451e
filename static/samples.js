// The strip of samples that can be tried at once.

import { byId, el } from "./dom.js";

export class Samples {
  constructor(root, onPick) {
    Object.assign(this, { root, onPick, all: [] });
  }

  show(samples) {
    this.all = samples;
    this.root.replaceChildren(...samples.map((sample) => this.#button(sample)));
  }

  /** Mark the sample that is on show, and say what it shows; null where it is none of them. */
  mark(id) {
    const sample = this.all.find((one) => one.id === id);
    byId("remark").textContent = sample ? [sample.title, sample.note].filter(Boolean).join(". ").replace(/([^.!?])$/, "$1.") : "";
    for (const button of this.root.children) button.setAttribute("aria-pressed", String(button.dataset.id === id));
  }

  #button(sample) {
    const face = sample.image ? el("img", { src: sample.image, alt: sample.title, width: 48, height: 48 }) : sample.title;
    return el("button", { type: "button", title: sample.title, "aria-pressed": "false", data: { id: sample.id }, on: { click: () => this.onPick(sample) } }, face);
  }
}
