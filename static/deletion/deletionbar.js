// The deletion bar over the plates of Image, Prompt and Text. One slider for all plates; what it needs is loaded when
// it is first used.

import { segment } from "../core/controls.js";
import { byId, el, addStyleSheet } from "../core/dom.js";
import { ORDER_NAMES } from "../maps/deletionfacts.js";

/**
 * @import { WorkbenchView } from "../plates/types.js"
 * @import { DeletionView } from "./deletionview.js"
 */

/** The test over the plates; it stays in sight while it is open. */
export class DeletionBar {
  /** @type {Promise<any> | undefined} */
  #opened;
  /** @type {DeletionView | null} */
  view = null; // once it is loaded

  /** @param {WorkbenchView} workbench */
  constructor(workbench) {
    this.workbench = workbench;
    this.tool = workbench.toolStates.of("deletion");
    const { removal } = workbench;
    const use = () => this.open();
    this.slider = el("input", {
      type: "range",
      min: 0,
      max: 100,
      step: 1,
      id: "removed",
      on: { input: () => removal.set({ removed: Number(this.slider.value) }), focus: use, pointerdown: use },
    });
    this.share = el("span");
    this.counted = el("span"); // how many of how many parts, which take a second line where one has no room
    this.output = el("output", { class: "num", for: "removed" }, this.share, this.counted);
    const shares = "With so many shares of the parts removed, from none to all, the model was asked.";
    this.statusLine = el("p", { class: "num said", role: "status", title: shares });
    this.problem = el("div");
    this.over = el("div", { class: "over" }); // what is said in a corner of the window, so that nothing moves
    const slide = el("div", { class: "removal" }, el("label", { for: "removed" }, "Remove"), this.slider, this.output);
    const title = el("h2", { id: "deletion-bar-title" }, "Deletion test");
    const see = el(
      "button",
      { type: "button", class: "act plain to-curves", on: { click: () => byId("curves").scrollIntoView() } },
      "Curves",
    );
    const end = el(
      "button",
      { type: "button", class: "act plain to-curves", "aria-label": "End the test", on: { click: () => this.close() } },
      "End",
    );
    byId("deletion-bar").append(
      this.over,
      title,
      slide,
      // on a phone this lies at the foot of the window while the test is open, so that no map moves
      el("div", { class: "extra" }, segment(removal, "order", "First the", ORDER_NAMES), this.statusLine, see, end),
      workbench.kind === "text" ? this.#editing() : "",
      this.problem,
    );
    byId("plates").classList.add("untested"); // nothing is said of a test that nobody began
    // what has the focus is scrolled to below the deletion bar, see deletion.css
    new ResizeObserver(() =>
      document.documentElement.style.setProperty("--deletion-bar", `${byId("deletion-bar").offsetHeight}px`),
    ).observe(byId("deletion-bar"));
    this.#show();
    removal.follow((now, before) => {
      this.#show();
      if (now.removed > 0 || now.order !== before.order) this.open(); // another input is whole: that begins no test
    });
    if (removal.value.removed > 0 || removal.value.order !== "most" || this.tool.value.open) this.open();
  }

  /**
   * True while the deletion test is open.
   * @returns {boolean}
   */
  get isOpen() {
    return byId("deletion-bar").classList.contains("open");
  }

  /** @param {boolean} isOpen */
  #setOpen(isOpen) {
    byId("curves").hidden = !isOpen;
    byId("deletion-bar").classList.toggle("open", isOpen);
    byId("plates").classList.toggle("untested", !isOpen);
    this.tool.set({ open: isOpen || undefined });
  }

  /** Close the deletion test: nothing is removed any more, and the model is not asked about the next input. */
  close() {
    this.workbench.removal.set({ removed: 0, order: "most" });
    this.#setOpen(false);
    this.view?.rest();
  }

  /**
   * Load what draws and asks, once.
   * @returns {Promise<any>}
   */
  open() {
    if (!this.isOpen) {
      this.#setOpen(true);
      this.view?.wake();
    }
    const sheets = ["curves", "ranks"].map((name) => addStyleSheet(`workbench/${name}.css`));
    this.#opened ??= Promise.all([import("./deletionview.js"), ...sheets]).then(
      ([{ DeletionView }]) => (this.view = new DeletionView(this)),
      (problem) => this.workbench.report(problem, this.problem),
    );
    return this.#opened;
  }

  /** Open the words for editing. */
  #editing() {
    const place = byId("edits");
    const tool = this.workbench.toolStates.of("edits");
    /** @param {boolean} isAsked */
    const open = async (isAsked) => {
      tool.set({ open: place.hidden || undefined });
      button.setAttribute("aria-expanded", String((place.hidden = !place.hidden) === false));
      if (!place.hasChildNodes()) {
        const sheets = ["edits", "ranks"].map((name) => addStyleSheet(`workbench/${name}.css`));
        const [{ Edits }] = await Promise.all([import("./edits.js"), ...sheets]);
        if (!place.hasChildNodes()) new Edits(place, this.workbench);
      }
      if (!place.hidden && isAsked) place.scrollIntoView({ block: "nearest" });
    };
    const button = el(
      "button",
      {
        type: "button",
        class: "act plain",
        "aria-expanded": "false",
        "aria-controls": "edits",
        on: { click: () => toggle(true) },
      },
      "Remove words",
    );
    /** @param {boolean} isAsked */
    const toggle = (isAsked) => open(isAsked).catch((problem) => this.workbench.report(problem, this.problem));
    if (tool.value.open) toggle(false); // as the address says
    return button;
  }

  #show() {
    const { removed } = this.workbench.removal.value;
    this.slider.valueAsNumber = removed;
    this.showCount(`${removed}\u2009%`, removed ? (this.counted.textContent ?? "") : "");
  }

  /**
   * Show the share that is removed, and the parts that this is, "39 of 196 patches", where that is known.
   * @param {string} share
   * @param {string} counted
   */
  showCount(share, counted) {
    const text = counted ? `${share} · ` : share;
    if (this.share.textContent !== text) this.share.textContent = text;
    if (this.counted.textContent !== counted) this.counted.textContent = counted;
  }
}
