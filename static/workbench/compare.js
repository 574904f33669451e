// Compare with another model: the same input through both, each answering for itself; or two stored explanations, which
// may be of one model.

import { Registry } from "../core/registry.js";
import { explanationPath, getJSON, Problem } from "../core/api.js";
import { byId, el, styled } from "../core/dom.js";
import { anyOf, groupsOf } from "../core/search.js";
import { NOTHING } from "../core/state.js";
import { readOf, sent } from "../choice/targetoptions.js";
import { aloneOf } from "../core/targets.js";
import { Job } from "./job.js";
import { fetchModelInfo } from "./modelinfo.js";

/**
 * @import { Explanation, Started } from "../core/types.js"
 * @import { ModelPairs } from "../plates/modelpairs.js"
 * @import { PlateSet } from "../plates/plate.js"
 * @import { PlateSetOptions, WorkbenchView } from "../plates/types.js"
 */

const NONE = "no other model";
const ANOTHER = "another explanation by this model";

/** The choice of another model, and what it answers. */
export class Compare {
  /**
   * The choice is appended to `root`. `baseOf(id, info)` gives what the maps of an explanation are drawn on; `single`
   * is the set of plates of one model; `options` are those of a set.
   * @param {HTMLElement} root
   * @param {WorkbenchView & {otherIds: object, write: () => void, moveTo: (plateSet: PlateSet) => void}} workbench
   * @param {{single: PlateSet, options: PlateSetOptions, baseOf: (id: string, info: Started) => any}} plateSets
   */
  constructor(root, workbench, { single, options, baseOf }) {
    this.workbench = workbench;
    this.single = single;
    this.baseOf = baseOf;
    /** @type {string | null} */
    this.name = null;
    /** @type {string | null} */
    this.id = null;
    /** @type {string[]} */
    this.names = [];
    /** @type {string[]} */
    this.labels = [];
    /** @type {Explanation | null} */
    this.resumed = null;
    /** @type {Started | undefined} of the page's own explanation */
    this.info = undefined;
    this.registry = new Registry();
    this.select = el(
      "select",
      { id: "compare", on: { change: () => this.#choose(this.select.value) } },
      el("option", { value: "" }, NONE),
    );
    this.hint = el("p", { class: "quiet" });
    root.append(el("div", { class: "pick" }, el("label", { for: "compare" }, "Compare with"), this.select, this.hint));
    this.options = options;
    this.plateSet = /** @type {ModelPairs} */ (/** @type {unknown} */ (null)); // until there are two models
    this.job = new Job({
      queued: () => {},
      started: (info, job) => this.#started(info, job),
      method: (map, job) => this.plateSet.receiveFor(1, map, job.id),
      done: () => {
        this.plateSet.closeSide(1);
        workbench.compared.set({ done: true });
      },
      failed: (problem) => this.#failed(problem),
      lost: (problem) => this.#failed(problem),
    });
  }

  /**
   * Whether two models stand side by side.
   * @returns {boolean}
   */
  get isOn() {
    return this.name !== null;
  }

  /** The other models that are at hand. */
  offer() {
    const { models } = this.workbench;
    const names = models.models
      .filter((model) => model.state === "loaded" && model.name !== models.current?.name)
      .map((model) => model.name);
    if (this.isOn && !this.#isOwn && !names.includes(String(this.name))) this.stop();
    this.select.replaceChildren(
      el("option", { value: "" }, NONE),
      this.#isOwn ? el("option", { value: this.name }, ANOTHER) : "",
      ...names.map((name) => el("option", { value: name }, models.shownName(name))),
    );
    this.names = names;
    this.#enable();
    this.select.value = this.name ?? "";
    if (this.isOn && models.current) this.#nameColumns(models.current.name);
  }

  /** Whether both columns are of the page's own model. */
  get #isOwn() {
    return this.isOn && this.name === this.workbench.models.current?.name;
  }

  /**
   * Head the columns: the model that answers first, and the other; where they are one, by their order.
   * @param {string} first
   */
  #nameColumns(first) {
    const names = [first, String(this.name)].map((name) => this.workbench.models.shownName(name));
    const [left, right] = first === this.name ? [`${names[0]}, first`, `${names[1]}, second`] : names;
    this.plateSet.knows = (label) => this.#same(label) !== null;
    this.plateSet.setModels(left, right, this.registry);
  }

  /** Whether there is something to choose; where there is not, why. */
  #enable() {
    const isSeveral = Boolean(this.info && this.info.targets.length > 1);
    this.select.disabled = !this.names.length || isSeveral;
    const models = el("a", { href: "/models" }, "Models page");
    const reason = isSeveral
      ? ["Several classes are side by side: choose one of them to compare models."]
      : this.names.length
        ? ["Get others on the ", models, "."]
        : ["No other model for this page is loaded: get one on the ", models, "."];
    this.hint.replaceChildren(...reason);
  }

  /**
   * Get ready to show a stored explanation beside another, which the address names.
   * @param {string | null} id
   * @param {string} first
   * @returns {Promise<void>}
   */
  async prepare(id, first) {
    if (!id) return;
    try {
      const stored = await getJSON(explanationPath(id));
      const { kind, name } = this.workbench.models.pageOf(stored);
      if (kind !== this.workbench.kind)
        throw new Problem({
          title: "Cannot be set beside this one",
          detail: `The explanation ${id} belongs on the ${name} page.`,
          send: "Compare two explanations of the same page",
        });
      await this.#use(stored.model);
      this.#nameColumns(first);
      this.id = id;
      this.resumed = stored;
      this.workbench.otherIds = { compare: id };
    } catch (problem) {
      this.name = null;
      this.workbench.report(problem, byId("results-problem"));
    }
  }

  /**
   * The page's own explanation has started: the other model answers the same question.
   * @param {Started} info
   */
  follow(info) {
    this.info = info;
    this.#enable();
    if (!this.isOn) return;
    // of the same model the same question has the same answer
    if (info.targets.length > 1 || (this.#isOwn && !this.resumed)) return void this.stop();
    this.plateSet.setInfo(0, info);
    this.job.drop(); // what it says of the question before
    this.workbench.compared.set(NOTHING);
    const { resumed } = this;
    this.resumed = null;
    if (resumed) this.job.follow(resumed);
    else this.#ask();
  }

  /**
   * The text is cut anew.
   * @returns {Promise<void>}
   */
  async cut() {
    const info = this.isOn && this.plateSet.sides[1].info;
    if (info) this.plateSet.setSideBase(1, await this.baseOf(String(this.id), info));
  }

  /** Back to one model. */
  stop() {
    this.job.drop();
    this.name = null;
    this.id = null;
    this.resumed = null;
    this.select.value = "";
    this.workbench.otherIds = {};
    this.workbench.compared.set(NOTHING);
    if (this.workbench.plateSet === this.plateSet) this.workbench.moveTo(this.single);
    this.workbench.write();
  }

  /** @param {string} name */
  async #use(name) {
    const [{ ModelPairs }, { registry, detail }] = await Promise.all([
      import("../plates/modelpairs.js"),
      fetchModelInfo(name, undefined, this.workbench.specs),
      styled("workbench/wordrows.css"), // before the next, which goes on from it
      styled("workbench/compare.css"),
    ]);
    this.plateSet ??= new ModelPairs(byId("plates"), this.options);
    this.name = name;
    this.registry = registry;
    this.labels = [...(detail.labels ?? []), ...[...groupsOf(detail.classes ?? []).keys()].map(anyOf)];
  }

  /** @param {string} name */
  async #choose(name) {
    if (!name) return this.stop();
    try {
      await this.#use(name);
      this.#nameColumns(String(this.workbench.models.current?.name));
      this.workbench.moveTo(this.plateSet);
      if (this.info) this.plateSet.setInfo(0, this.info);
      await this.#ask();
    } catch (problem) {
      this.stop();
      this.workbench.report(problem, byId("results-problem"));
    }
  }

  /**
   * The label of the second model that means the same class, or null.
   * @param {string} label
   */
  #same(label) {
    return this.labels.find((known) => known.toLowerCase() === label?.toLowerCase()) ?? null;
  }

  async #ask() {
    const { id: source, specs } = this.workbench;
    const [wanted] = this.info?.targets ?? [];
    const same = wanted ? this.#same(aloneOf(wanted)) : null;
    const against = same && wanted.against ? this.#same(wanted.against) : null;
    const [[target], { read }] = sent([same], { read: against ? null : readOf(wanted) });
    try {
      const methods = specs.filter((spec) => this.registry.runs(spec));
      const fields = { model: this.name, source, target, against, read, methods };
      const job = await this.job.start(() => fields);
      if (!job) return;
      this.id = job.id;
      this.workbench.otherIds = { compare: job.id };
      this.workbench.write();
    } catch (problem) {
      this.#failed(problem);
    }
  }

  /**
   * @param {Started} info
   * @param {{id: string}} job
   */
  async #started(info, job) {
    this.plateSet.setInfo(1, info);
    this.workbench.compared.set({ id: job.id, model: this.name, info, done: false });
    const base = await this.baseOf(job.id, info);
    if (this.id === job.id && base) this.plateSet.setSideBase(1, base);
  }

  /** @param {unknown} problem */
  #failed(problem) {
    this.plateSet.closeSide(1);
    this.workbench.report(problem, byId("results-problem"));
  }
}
