// The dock at the foot of Image, Prompt and Text: "is it true?" One slider for all plates; what it needs is loaded when it is first used.

import { byId, el } from "./dom.js";
import { segment } from "./controls.js";

export const FIRST = { most: "most relevant", least: "least relevant" };

export class Dock {
  #opened = null;
  scrubber = null; // once it is loaded

  constructor(bench) {
    Object.assign(this, { bench, tool: bench.tools.of("test") });
    const { cut } = bench;
    const use = () => this.open();
    this.slider = el("input", { type: "range", min: 0, max: 100, step: 1, id: "gone", on: { input: () => cut.set({ gone: Number(this.slider.value) }), focus: use, pointerdown: use } });
    this.slider.value = cut.value.gone;
    this.output = el("output", { class: "num", for: "gone" });
    this.said = el("p", { class: "num said", role: "status" });
    this.problem = el("div");
    const slide = el("div", { class: "cutting" }, el("label", { for: "gone" }, "Take away"), this.slider, this.output);
    const title = el("h2", { id: "truth-title" }, "Is it true?");
    byId("truth").append(title, segment(cut, "first", "First the", FIRST), slide, bench.kind === "text" ? this.#editing() : "", this.said, this.problem);
    this.#show();
    cut.follow(() => {
      this.#show();
      this.open();
    });
    if (cut.value.gone > 0 || cut.value.first !== "most" || this.tool.value.open) this.open();
  }

  /** Load what draws and asks, once. */
  open() {
    byId("curves").hidden = false;
    this.tool.set({ open: true });
    this.#opened ??= import("./scrub.js").then(
      ({ Scrubber }) => (this.scrubber = new Scrubber(this)),
      (problem) => this.bench.report(problem, this.problem),
    );
    return this.#opened;
  }

  /** Opens the words for editing. */
  #editing() {
    const place = byId("edits");
    const tool = this.bench.tools.of("edits");
    const open = async (isAsked) => {
      tool.set({ open: place.hidden || undefined });
      button.setAttribute("aria-expanded", String((place.hidden = !place.hidden) === false));
      if (!place.hasChildNodes()) {
        const { Edits } = await import("./edits.js");
        if (!place.hasChildNodes()) new Edits(place, this.bench);
      }
      if (!place.hidden && isAsked) place.scrollIntoView({ block: "nearest" });
    };
    const button = el("button", { type: "button", class: "act plain", "aria-expanded": "false", "aria-controls": "edits", on: { click: () => toggle(true) } }, "Take words away");
    const toggle = (isAsked) => open(isAsked).catch((problem) => this.bench.report(problem, this.problem));
    if (tool.value.open) toggle(false); // as the address says
    return button;
  }

  #show() {
    this.output.textContent = `${this.bench.cut.value.gone}\u2009%`;
  }
}
