// What Image, Prompt and Text have in common: the newest question, the model, the plates and the address.
//
// A new question is the newest one with a part changed, whether that one is answered or not. An answer is heard only
// while no newer question was taken by the server (see Answering), and all that is on show is of the question whose
// answer began last: `shown`.

import { MethodButton } from "../choice/methodbutton.js";
import { ModelChoice } from "../choice/modelchoice.js";
import { byId, pathOf, say } from "../core/dom.js";
import { reportProblem, showProblem } from "../core/problems.js";
import { remember, rememberSample } from "../core/historylist.js";
import { check } from "../core/limits.js";
import { lineFor, Registry } from "../core/registry.js";
import { NOTHING, readAddress, Store } from "../core/state.js";
import { endsOf } from "../core/targets.js";
import { DeletionBar } from "../deletion/deletionbar.js";
import { figureMenu } from "../export/export.js";
import { firstSample } from "../inputs/firstsample.js";
import { FEW } from "../plates/plategroups.js";
import { addDrawers } from "../tools/drawers.js";
import { AddressBar } from "./addressbar.js";
import { Answering } from "./answering.js";
import { Headline } from "./headline.js";
import { blockStaleClasses } from "./staleclasses.js";
import { fetchModelInfo } from "./modelinfo.js";
import { openPage } from "./opening.js";
import { keyOf, leave } from "./tabmemory.js";
import { ToolStates } from "./toolstates.js";

/**
 * @import { Sample } from "../core/schemas.js"
 * @import { ProblemFields, ScoreMap, Started, Subject, Wish } from "../core/types.js"
 * @import { Input } from "../inputs/input.js"
 * @import { PlateSet } from "../plates/plate.js"
 * @import { ModelInfo, PageSteps, Question, TakenQuestion } from "./types.js"
 */

/** The frame of a page: its question, its answer and its plates. */
export class Workbench {
  #addressBar = new AddressBar();
  /** @type {ProblemFields | null} */
  modelProblem = null; // why another model answers than the page would begin with, until the next question
  #isOpen = () => {};
  /** @type {Promise<void>} */
  #opened = new Promise((resolve) => (this.#isOpen = resolve)); // once it is known which model answers
  /** @type {TakenQuestion | null} the newest question that the server took: the address of the page names it */
  taken = null;
  /** @type {string | null} the explanation of the address, where it is somebody else's */
  sharedId = null;
  /** @type {TakenQuestion | null} the question whose answer is on show */
  shown = null;
  /** @type {ModelInfo | undefined} */
  modelInfo;
  report = reportProblem;

  /**
   * The frame of a page of this `kind`, "image", "clip" or "text", which sets the first `plateSet`.
   * @param {string} kind
   * @param {PageSteps} page
   */
  constructor(kind, page) {
    const address = readAddress();
    this.kind = kind;
    this.page = page;
    this.address = address;
    this.plateSet = /** @type {PlateSet} */ (/** @type {unknown} */ (null));
    this.registry = new Registry();
    /** @type {Sample[]} */
    this.samples = [];
    /** @type {string[]} */
    this.specs = []; // the methods on the page
    this.isContrast = false; // whether it was asked why one answer rather than another
    /** @type {string[] | undefined} */
    this.meaning = undefined; // of the two ends of the colours, where that is not against and for
    this.side = address.side; // whose tokens get the scores
    this.otherIds = {}; // those in the address of explanations shown with this one
    /** @type {ScoreMap[]} */
    this.received = [];
    const { model, side, methods } = address;
    /** @type {Question} the newest one */
    this.question = {
      input: null,
      model,
      side,
      targets: {},
      at: null,
      reference: null,
      methods,
      modelInfo: null,
      id: null,
    };
    this.view = new Store(address.view);
    this.focus = new Store({ at: address.focus, locked: address.focus >= 0 });
    this.subject = new Store(NOTHING); // the explanation on show; `info` is what the model said
    // those that most maps mark most; of a molecule, atoms
    this.agreed = new Store({ patches: /** @type {number[]} */ ([]) });
    this.compared = new Store(NOTHING); // that of another model, shown with it: see Compare
    this.removal = new Store({ order: address.view.order, removed: address.view.removed }); // by the deletion bar
    this.toolStates = new ToolStates(() => this.write()); // what is open, and how it stands
    this.models = new ModelChoice(kind, (name) =>
      this.ask({ model: name, ...(kind === "clip" ? {} : { targets: { target: null } }) }),
    );
    this.chooser = new MethodButton(
      byId("chooser"),
      (methods) => this.ask({ methods }),
      (problem) => this.report(problem, byId("results-problem")),
    );
    byId("controls").prepend(this.chooser.button);
    this.headline = new Headline(this);
    byId("export").append(...figureMenu(this), ...this.headline.naming);
    blockStaleClasses();
    document.addEventListener("claim", (event) =>
      import("../tools/mapclaim.js").then(({ showClaim }) => showClaim(/** @type {CustomEvent} */ (event).detail)),
    );
    byId("plates").addEventListener("options", (/** @type {CustomEvent} */ event) =>
      this.chooser.configure(event.detail),
    );
    this.answering = new Answering(this);
    addDrawers(byId("drawers"), this);
    this.deletionBar = new DeletionBar(this);
    this.deletionBar.over.prepend(this.answering.mapProgress.node);
    const compare = async (/** @type {Subject} */ { done }) => {
      if (!done || this.plateSet.all.length < 2) return; // a map alone is like no other
      stop();
      try {
        const { MapSimilarity } = await import("./mapsimilarity.js");
        new MapSimilarity(this).show();
      } catch {
        stop = this.subject.follow(compare); // the server is away: with the next answer
      }
    };
    let stop = this.subject.follow(compare);
    this.view.follow(() => this.write());
    this.removal.follow(() => this.#addressBar.soon(() => this.write()));
    this.focus.follow((now, before) => (now.locked || before.locked) && this.write());
  }

  /**
   * The id of the explanation on show.
   * @returns {string | null}
   */
  get id() {
    return this.shown?.id ?? null;
  }

  /**
   * The sample that the page begins with, of its model's own rather one that `suits`.
   * @param {(sample: Sample) => boolean} [suits]
   * @returns {Sample | undefined}
   */
  exampleSample(suits) {
    return firstSample(this.samples, this.address, this.models.current?.name, suits);
  }

  /**
   * Begin with what the address names, or with an example.
   * @returns {Promise<void>}
   */
  async open() {
    await openPage(this);
    this.#isOpen();
  }

  /** True where the address of the page, as it opened, names what to show. */
  get isLink() {
    return Boolean(this.address.id || this.address.source);
  }

  /**
   * Resolves to the server's information on a model, once that is loaded: {model, side, registry, detail}.
   * @param {string | undefined | null} name
   * @param {string} side
   * @param {string[]} [specs] that may be asked for
   * @returns {Promise<ModelInfo>}
   */
  async modelInfoOf(name, side, specs) {
    const { modelInfo } = this;
    if (modelInfo?.model.name === name && modelInfo?.side === side) return modelInfo;
    const model = await this.models.ready(String(name ?? ""));
    return { model, side, ...(await fetchModelInfo(model.name, side, specs)) };
  }

  /**
   * Make a model the model of the page.
   * @param {ModelInfo} modelInfo
   */
  adopt(modelInfo) {
    this.modelInfo = modelInfo;
    this.side = modelInfo.side;
    this.registry = modelInfo.registry;
    this.models.show(modelInfo.model);
    this.chooser.setRegistry(modelInfo.registry);
    this.page.changed(modelInfo.model, modelInfo.detail);
  }

  /**
   * Ask the newest question with some of its parts changed: {input, model, side, targets, at, reference, methods}.
   * `targets` is {target} or {prompt}, with what is asked of each: {against, read}. Another input or model has other
   * places. `listed` is the name of the model whose classes
   * the targets were picked from: it is asked where the question's own does not know them. Problems are shown at
   * `place`, and then all stays as it was.
   * @param {{listed?: string | null, input?: Input, model?: string, side?: string, targets?: Wish, at?: string | null,
   *   reference?: Blob | null, methods?: string[]}} change
   * @param {HTMLElement} [place]
   * @returns {Promise<void>}
   */
  async ask({ listed = null, ...change }, place = byId("results-problem")) {
    const isElsewhere = (change.input ?? this.question.input) !== this.question.input || Boolean(change.model);
    const { input, model, side, targets, at, reference, methods } = {
      ...this.question,
      ...(isElsewhere ? { at: null, reference: null } : {}),
      ...change,
    };
    /** @type {Question} */
    const question = { input, model, side, targets, at, reference, methods, modelInfo: null, id: null };
    this.question = question;
    try {
      if (!input) return void (await this.#changeWithoutInput(question));
      const isOther = input !== this.shown?.input;
      this.pend(Boolean(this.shown), isOther);
      if (isOther) this.page.giving?.(input, this.models.titleOf(String(model)));
      /** @type {TakenQuestion | null} */
      const taken = await this.answering.job.start(() => this.#fields(question, input, listed), question);
      if (!taken) return;
      if (taken.stored) this.page.stored?.(taken.id);
      // who left a question unanswered need not go back to it
      const isStep = this.taken?.isOver && this.taken.id !== taken.id;
      this.taken = taken;
      input.source = taken.id;
      this.otherIds = {};
      if (isOther && this.shown) this.removal.set({ removed: 0 }); // another picture or text is whole
      remember(taken.id);
      rememberSample(taken.id, input.sample);
      say("status", "asked");
      showProblem(place, null);
      showProblem(byId("results-problem"), this.modelProblem);
      this.modelProblem = null;
      this.write(isStep);
    } catch (problem) {
      if (question !== this.question) return;
      if (problem.isOf?.("no-such-source") && (await input?.sent())) {
        /** @type {Input} */ (input).source = null; // it was deleted meanwhile; what was given is still here
        return void this.ask({ listed }, place);
      }
      this.revert();
      this.report(problem, place);
    }
  }

  /**
   * Mark what is shown as the answer to the question before, while the newest one waits for its own. Where that is
   * about an `other` input, the maps are marked too, and the classes, which the model named for the input before,
   * cannot be asked for.
   * @param {boolean} isPending
   * @param {boolean} [isOther]
   */
  pend(isPending, isOther = false) {
    const marks = byId("main").classList;
    marks.toggle("pending", isPending);
    marks.toggle("renewing", isPending && isOther);
  }

  /**
   * Change the model, its side or the methods while no input is given yet.
   * @param {Question} question
   */
  async #changeWithoutInput(question) {
    await this.#opened;
    await this.page.load?.({ count: 0, side: question.side });
    const modelInfo = await this.modelInfoOf(question.model, question.side);
    if (question !== this.question) return;
    this.adopt(modelInfo);
    this.models.explain(false, modelInfo.detail.labels ?? []);
    if (this.shown) {
      // the plates stay as they are: their maps, and what stands at them, are of the model before
      this.chooser.setChosen(this.#variantsOf(question.methods).map(({ spec }) => spec));
      return say("status", `these maps are of ${this.models.titleOf(this.shown.model)}`);
    }
    this.expect(question.methods);
    this.plateSet.close();
  }

  /**
   * The fields of the form that asks the question about `input`.
   * @param {Question} question
   * @param {Input} input
   * @param {string | null} listed
   */
  async #fields(question, input, listed) {
    await this.#opened;
    const { side, targets, at, reference, methods } = question;
    await this.page.load?.({ count: (targets.target ?? targets.prompt ?? []).length, side });
    let modelInfo = await this.modelInfoOf(question.model, side);
    const { labels } = modelInfo.detail;
    if (listed && listed !== question.model && !targets.target?.every((label) => labels.includes(label)))
      modelInfo = await this.modelInfoOf(listed, side);
    Object.assign(question, { modelInfo, model: modelInfo.model.name });
    await this.page.examine?.(modelInfo, input);
    const inputFields = await input.fields();
    const { registry } = modelInfo;
    const plates = registry.plates(methods.length ? methods : registry.usual, Boolean(targets.against));
    const fields = {
      model: question.model,
      ...inputFields,
      side: side === "text" ? "text" : null,
      ...targets,
      at,
      reference,
      methods: methods.filter((spec) => registry.runs(spec)),
      order: plates.map(({ spec }) => spec),
    };
    await check(/** @type {any} */ (fields));
    return fields;
  }

  /** Go back to the question on show, as the newest one is not answered. */
  revert() {
    this.pend(false);
    this.taken = this.shown ?? this.taken;
    this.question = this.shown ?? this.question;
    this.models.show();
    this.page.refused?.();
    if (this.shown) return;
    this.headline.clear();
    this.plateSet.close();
  }

  /**
   * Show in another set of plates what this one shows, the maps too where they are of the same kind.
   * @param {PlateSet} plateSet
   * @param {boolean} [withMaps]
   */
  moveTo(plateSet, withMaps = true) {
    const before = this.plateSet;
    if (plateSet === before) return;
    this.plateSet = plateSet;
    plateSet.setBase(before.base);
    this.expect(this.specs);
    before.leave();
    if (withMaps) for (const map of this.received) plateSet.receive(map, String(this.id));
  }

  /**
   * These methods of the model of the page, else its usual ones, in the fixed order; of a few the one comes first that
   * the address names, as it shows what the link is about.
   * @param {string[]} specs
   */
  #variantsOf(specs) {
    const known = this.registry.plates(specs, this.isContrast);
    const { first } = this.view.value;
    if (known.length <= FEW) known.sort((a, b) => Number(b.spec === first) - Number(a.spec === first));
    return known.length ? known : this.registry.plates(this.registry.usual, this.isContrast);
  }

  /**
   * Show plates for these methods, else for the usual ones, in the fixed order.
   * @param {string[]} specs
   */
  expect(specs) {
    const listed = this.#variantsOf(specs);
    const { meaning } = this;
    const hasPlaces = Boolean(this.modelInfo?.detail.details?.task);
    const shown =
      meaning || hasPlaces
        ? listed.map((variant) => ({
            ...variant,
            ...(meaning ? { meaning } : {}),
            line: lineFor(variant.line, Boolean(meaning), hasPlaces),
          }))
        : listed;
    this.specs = shown.map(({ spec }) => spec);
    this.chooser.setChosen(this.specs);
    this.plateSet.expect(shown, this.registry.isUsual(this.specs), this.isContrast);
  }

  /** @param {Pick<Started, "targets" | "input" | "prompts">} info */
  suit(info) {
    const plateSet = this.page.plateSet?.(info) ?? this.plateSet;
    if (plateSet !== this.plateSet) this.moveTo(plateSet);
  }

  /**
   * Show the answer to a question that has begun: the page is of its model, with plates for its methods.
   * @param {Started} info
   * @param {TakenQuestion} question
   */
  show(info, question) {
    this.pend(question !== this.question, question.input !== this.question.input);
    this.shown = question;
    if (this.modelInfo !== question.modelInfo) this.adopt(question.modelInfo);
    this.isContrast = info.targets.some(({ against }) => against);
    this.meaning = endsOf(info.targets);
    this.suit(info); // what is there already stays on show, marked stale
    this.received = [];
    this.expect(info.expected);
    const wanted = [...info.expected, ...(info.left ?? [])]; // of one that was stopped too
    question.methods = this.registry.isUsual(wanted) ? [] : wanted;
  }

  /**
   * Write the state into the address; as a new step of the browser's history where it `isStep`.
   * @param {boolean} [isStep]
   */
  write(isStep = false) {
    if (!this.taken?.id) return;
    const { at, locked } = this.focus.value;
    const ids = { id: this.taken.id, ...this.otherIds };
    const view = { ...this.view.value, ...this.removal.value };
    this.#addressBar.write(ids, view, locked ? at : -1, this.toolStates.entries, isStep);
    if (this.shown === this.taken && !this.#addressBar.isLeaving)
      leave(pathOf(location), location.search, keyOf(this.subject.value.info?.input, this.shown.id));
  }
}
