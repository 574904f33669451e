// Compare with another model: the same input through both, each answering for itself; or two stored explanations, which
// may be of one model.

import { Registry } from "../core/registry.js";
import { explanationPath, getJSON, Problem } from "../core/api.js";
import { byId, el, addStyleSheet } from "../core/dom.js";
import { anyOf, groupsOf } from "../core/search.js";
import { NOTHING } from "../core/state.js";
import { readOf, sent } from "../choice/targetoptions.js";
import { aloneOf } from "../core/targets.js";
import { Job } from "./job.js";
import { fetchModelInfo } from "./modelinfo.js";

/**
 * @import { Explanation, Started } from "../core/types.js"
 * @import { Model } from "../core/schemas.js"
 * @import { ModelPairs } from "../plates/modelpairs.js"
 * @import { PlateSet } from "../plates/plate.js"
 * @import { PlateSetOptions, WorkbenchView } from "../plates/types.js"
 */

const NONE = "no other model";
const ANOTHER = "another explanation by this model";

/**
 * Return whether two models of one page read inputs of one kind: pictures or none in a prompt, sounds or pictures,
 * clips.
 * @param {Model} one
 * @param {Model | null | undefined} other
 */
const readsLike = (one, other) =>
  /** @type {const} */ (["picture_grid", "sound_rate", "frames"]).every(
    (name) => Boolean(one.details[name]) === Boolean(other?.details[name]),
  );

/** The choice of a second model, and its answer. */
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
   * True while two models are shown side by side.
   * @returns {boolean}
   */
  get isOn() {
    return this.name !== null;
  }

  /** Offer the other models that are available and read what the one on show reads. */
  offer() {
    const { models } = this.workbench;
    const names = models.models
      .filter((model) => model.state === "loaded" && model.name !== models.current?.name)
      .filter((model) => readsLike(model, models.current))
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

  /** True where both columns are of the page's own model. */
  get #isOwn() {
    return this.isOn && this.name === this.workbench.models.current?.name;
  }

  /**
   * Name the columns: the model that answers first, and the other; where they are one, by their order.
   * @param {string} first
   */
  #nameColumns(first) {
    const names = [first, String(this.name)].map((name) => this.workbench.models.shownName(name));
    const [left, right] = first === this.name ? [`${names[0]}, first`, `${names[1]}, second`] : names;
    this.plateSet.knows = (label) => this.#sameClass(label) !== null;
    this.plateSet.setModels(left, right, this.registry);
  }

  /** True where the page has no other loaded model at all. */
  get #isAlone() {
    const { models, current } = this.workbench.models;
    return !models.some(({ name, state }) => state === "loaded" && name !== current?.name);
  }

  /** Enable the choice where there is something to choose; where there is not, say why. */
  #enable() {
    const isSeveral = Boolean(this.info && this.info.targets.length > 1);
    this.select.disabled = !this.names.length || isSeveral;
    const models = el("a", { href: "/models" }, "Models page");
    const reason = isSeveral
      ? ["You see several classes side by side. Choose one of them to compare models."]
      : this.names.length
        ? ["Get others on the ", models, "."]
        : [
            `${this.#isAlone ? "No other model for this page is loaded" : "No other loaded model reads what this one does"}. Get one on the `,
            models,
            ".",
          ];
    this.hint.replaceChildren(...reason);
  }

  /**
   * Prepare to show a stored explanation next to another, which the address names.
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
          title: "These two cannot be compared",
          detail: `The explanation ${id} belongs to the ${name} page.`,
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
   * Ask the other model the same question, once the page's own explanation has started.
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
   * Divide the text of the second model again.
   * @returns {Promise<void>}
   */
  async cut() {
    const info = this.isOn && this.plateSet.sides[1].info;
    if (info) this.plateSet.setSideBase(1, await this.baseOf(String(this.id), info));
  }

  /** Go back to one model. */
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
      addStyleSheet("workbench/wordrows.css"), // before the next, which goes on from it
      addStyleSheet("workbench/compare.css"),
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
  #sameClass(label) {
    return this.labels.find((known) => known.toLowerCase() === label?.toLowerCase()) ?? null;
  }

  async #ask() {
    const { id: source, specs } = this.workbench;
    const [wanted] = this.info?.targets ?? [];
    const same = wanted ? this.#sameClass(aloneOf(wanted)) : null;
    const against = same && wanted.against ? this.#sameClass(wanted.against) : null;
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
