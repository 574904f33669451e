// What lies under the plates: each is fetched when it is first opened, and asks the server nothing before.

import { el, addStyleSheet } from "../core/dom.js";
import { showProblem } from "../core/problems.js";
import { WRITING_TASKS } from "../core/targets.js";
import { showSentences } from "../maps/summary.js";

/**
 * @import { DrawerEntry, Report, Tool, WorkbenchView } from "../plates/types.js"
 * @import { Waiting } from "../progress/waiting.js"
 */

/** @type {DrawerEntry[]} */
const DRAWERS = [
  {
    id: "promptinteraction",
    kinds: ["clip"],
    title: "Each word to its patches",
    says: "Point at a word or a patch to see which parts of the other go with it.",
    load: () => import("./promptinteraction.js"),
  },
  {
    id: "agreement",
    title: "Which methods agree",
    says: "How alike any two of the maps are.",
    load: () => import("./agreement.js"),
  },
  {
    id: "swipe",
    kinds: ["image", "clip"],
    title: "Two maps at the same place",
    says: "Wipe one map over another, or show them in turn.",
    load: () => import("./swipe.js"),
  },
  {
    id: "brush",
    kinds: ["image", "clip"],
    title: "Hide patches with a brush",
    says: "Paint over the picture and watch the answer change.",
    load: () => import("./brush.js"),
  },
  {
    id: "answertable",
    kinds: ["text"],
    tasks: WRITING_TASKS,
    title: "Words of the answer by words of the prompt",
    says: "How much each word of the prompt counted for each word of the answer.",
    load: () => import("./answertable.js"),
  },
  {
    id: "priorpixels",
    kinds: ["text"],
    tasks: ["image-text-to-text"],
    title: "Prior or pixels",
    says: "How much of each word came from the picture, the prompt and the words before it.",
    load: () => import("./priorpixels.js"),
  },
  {
    id: "tokenmaps",
    kinds: ["text"],
    tasks: ["image-text-to-text"],
    title: "Where in the picture each token was",
    says: "From logits alone.",
    load: () => import("./tokenmaps.js"),
  },
  {
    id: "wordtable",
    kinds: ["text"],
    title: "All words in a table",
    says: "Every word with its score by every method, and the answer without the word on top.",
    load: () => import("./wordtable.js"),
  },
  {
    id: "disagree",
    kinds: ["text"],
    title: "Where two methods disagree",
    says: "How alike two methods rank the words, and which words they see differently.",
    load: () => import("./disagree.js"),
  },
  {
    id: "probe",
    kinds: ["text"],
    title: "Swap a word",
    says: "The same sentence about her and about him: does the answer change, and what did the word do?",
    load: () => import("./probe.js"),
  },
  {
    id: "pair",
    kinds: ["molecule"],
    title: "Compare with a similar molecule",
    says: "The same method on two molecules: what does one group change?",
    load: () => import("./pair.js"),
  },
  {
    id: "inputinteraction",
    kinds: ["image", "clip", "text"],
    title: "Why are these two alike?",
    says: "Which parts of this input and of another one go together.",
    load: () => import("./inputinteraction.js"),
  },
  {
    id: "patchsimilarity",
    kinds: ["image"],
    title: "Which patches are alike",
    says: "The features of the patches as colours. Point at a patch to see those like it.",
    load: () => import("./patchsimilarity.js"),
  },
  {
    id: "outliers",
    kinds: ["image", "clip"],
    title: "Outlier tokens",
    says: "Patches with an unusually large norm, and the same maps without them.",
    load: () => import("./outliers.js"),
  },
  {
    id: "mixer",
    title: "Rule mixer",
    says: "Change the backward rule operator by operator, and see what that does to a map.",
    load: () => import("./mixer.js"),
  },
  {
    id: "layers",
    title: "Layers and heads",
    says: "Where every head of every block looks, and what each block adds.",
    load: () => import("./layers.js"),
  },
];

class Drawer {
  /** @type {Promise<Tool> | null} */
  #feature = null;
  /** @type {Waiting | undefined} */
  #asking; // what it asks the server, once it is open

  /**
   * @param {DrawerEntry} entry
   * @param {WorkbenchView} workbench
   */
  constructor({ id, tasks, title, says, isPlain, load }, workbench) {
    this.id = id;
    this.isPlain = isPlain;
    this.tasks = tasks;
    this.load = load;
    this.workbench = workbench;
    this.tool = workbench.toolStates.of(id);
    this.problem = el("div");
    this.waiting = el("p", { class: "quiet" });
    this.body = el("div", { class: "body" });
    const name = el("summary", {}, el("h2", {}, title), el("span", {}, says));
    this.node = el(
      "details",
      {
        class: "drawer",
        id: `drawer-${id}`,
        open: this.tool.value.open,
        hidden: Boolean(tasks),
        on: { toggle: () => this.#toggle() },
      },
      name,
      this.waiting,
      this.problem,
      this.body,
    );
    showSentences(this.body, workbench.view);
    workbench.subject.follow((now, before) => {
      if (now.id !== before.id) this.#asking?.drop();
      this.#show();
    });
  }

  #toggle() {
    this.tool.set({ open: this.node.open || undefined });
    if (!this.node.open) this.#asking?.drop();
    this.#show();
  }

  async #show() {
    const { done, info: asked } = this.workbench.subject.value;
    if (this.tasks) this.node.hidden = !this.tasks.includes(asked?.task ?? "");
    if (!this.node.open || this.node.hidden) return;
    const isOld = !done && this.body.hasChildNodes();
    this.waiting.hidden = done;
    this.waiting.classList.toggle("old", isOld);
    this.waiting.textContent = isOld
      ? "These results are from the previous question. They update when the maps above are done."
      : "This tool opens when the maps above are done.";
    this.body.inert = isOld;
    if (!done) return;
    try {
      const feature = await (this.#feature ??= this.#fetch());
      const { id, model, info, done: isDone } = this.workbench.subject.value;
      if (isDone && id && model && info) await feature.show({ id, model, info });
    } catch (problem) {
      this.#feature = this.body.hasChildNodes() ? this.#feature : null;
      this.workbench.report(problem, this.problem);
    }
  }

  async #fetch() {
    const [module, { Waiting }] = await Promise.all([
      this.load(),
      import("../progress/waiting.js"),
      this.isPlain || addStyleSheet(`tools/${this.id}.css`),
    ]);
    const asking = (this.#asking = new Waiting());
    this.problem.after(asking.node);
    /** @type {Report} */
    const report = (problem) =>
      problem ? this.workbench.report(problem, this.problem) : showProblem(this.problem, null);
    return module.open(this.body, this.workbench, report, asking);
  }
}

/**
 * Put the drawers of a page into `place`.
 * @param {HTMLElement} place
 * @param {WorkbenchView} workbench
 */
export const addDrawers = (place, workbench) =>
  place.append(
    ...DRAWERS.filter(({ kinds }) => !kinds || kinds.includes(workbench.kind)).map(
      (tool) => new Drawer(tool, workbench).node,
    ),
  );
