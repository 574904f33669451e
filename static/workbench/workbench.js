// What Image, Prompt and Text have in common: the newest question, the running explanation, the address, the status.
//
// A question is {input, model, side, targets, methods}. A new one is the newest one with a part changed, whether that
// one is answered or not. An answer is heard only while no newer question was taken by the server (see Job), and all
// that is on show is of the question whose answer began last: `shown`.

import { MethodButton } from "../choice/methodbutton.js";
import { ModelChoice } from "../choice/modelchoice.js";
import { getJSON } from "../core/api.js";
import { byId, el, say, seconds } from "../core/dom.js";
import { reportProblem, showProblem } from "../core/problems.js";
import { remember } from "../core/historylist.js";
import { check, loadLimits } from "../core/limits.js";
import { countMethods, isMethod, Registry } from "../core/registry.js";
import { NOTHING, readAddress, Store } from "../core/state.js";
import { MapProgress } from "../progress/mapprogress.js";
import { LOST } from "../progress/waiting.js";
import { DeletionBar } from "../deletion/deletionbar.js";
import { figureMenu } from "../export/export.js";
import { firstSample, linkedSample } from "../inputs/firstsample.js";
import { Input } from "../inputs/input.js";
import { addDrawers } from "../tools/drawers.js";
import { AddressBar } from "./addressbar.js";
import { MapSimilarity } from "./mapsimilarity.js";
import { Headline } from "./headline.js";
import { blockStaleClasses } from "./staleclasses.js";
import { Job } from "./job.js";
import { fetchModelInfo } from "./modelinfo.js";
import { scrollToAnswer } from "./scrolltoanswer.js";
import { findStored, questionOf } from "./stored.js";
import { carry, keyOf, leave } from "./tabmemory.js";
import { ToolStates } from "./toolstates.js";

/**
 * @import { Wish } from "../core/types.js"
 * @import { Sample } from "../inputs/samples.js"
 * @import { PlateSet } from "../plates/plate.js"
 */

/** What a page works at: its question, its answer and its plates. */
export class Workbench {
  #drawn = Promise.resolve(); // once the input of the explanation is on show
  #addressBar = new AddressBar();
  #accepted = null; // the newest question that the server took: the address of the page names it
  #modelProblem = null; // why another model answers than the page would begin with, until the next question
  #isOpen;
  #opened = new Promise((resolve) => (this.#isOpen = resolve)); // once it is known which model answers
  shown = null; // the question whose answer is on show
  report = reportProblem;

  /**
   * kind      "image", "clip" or "text"
   * page      {started(info, job, isNew), method(map, job), changed(model, detail)}: what the page does at each step;
   *           ready(): the samples are known; reopen(stored), example(), carry(input): how it begins, one of the three;
   *           prepare(stored): what the page needs before a stored explanation is shown;
   *           load({count, side}): the modules that it needs for so many targets explained on that side;
   *           giving(input, model): another input is asked about, by the model of that title;
   *           refused(): what was asked for last is not explained, all stays as it was;
   *           plateSet(info): the set of plates for an explanation of these {targets}, where the page has several
   * @param {string} kind
   * @param {{[step: string]: (...args: any[]) => any}} page
   */
  constructor(kind, page) {
    const address = readAddress();
    this.kind = kind;
    this.page = page;
    this.address = address;
    this.plateSet = null;
    this.registry = new Registry();
    this.samples = [];
    this.specs = []; // the methods on the page
    this.side = address.side; // whose tokens get the scores
    this.otherIds = {}; // those in the address of explanations beside the one on show
    this.received = []; // maps
    const { model, side, methods } = address;
    this.question = { input: null, model, side, targets: {}, methods }; // no methods: the usual ones
    this.view = new Store(address.view);
    this.focus = new Store({ at: address.focus, locked: address.focus >= 0 });
    this.subject = new Store(NOTHING); // the explanation on show; `info` is what the model said
    this.compared = new Store(NOTHING); // that of another model beside it, see Compare
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
    byId("plates").addEventListener("options", (event) => this.chooser.configure(event.detail));
    this.job = new Job({
      queued: ({ position }) => say("status", position > 0 ? `waiting, ${position} before you` : "waiting"),
      started: (info, question) => this.#started(info, question),
      method: (map, question) => this.#method(map, question),
      done: ({ seconds: took }, question) => {
        this.mapProgress.end();
        this.plateSet.close();
        this.headline.sumUp(true);
        this.#drawn.then(() => question === this.shown && this.subject.set({ done: true }));
        say("status", `${countMethods(this.plateSet.shown)}${took === undefined ? "" : ` in ${seconds(took)}`}`);
      },
      failed: (problem, question) => this.#failed(problem, question),
      lost: (problem) => this.#stopped(problem),
      away: () => {
        say("status", LOST);
        this.mapProgress.lose();
      },
      back: () => {
        say("status", "connected again");
        this.mapProgress.regain();
      },
      renewed: (question) => this.#renewed(question),
    });
    this.mapProgress = new MapProgress(
      (problem) => this.report(problem, byId("results-problem")),
      () => this.ask({}),
    );
    addDrawers(byId("drawers"), this);
    this.deletionBar = new DeletionBar(this);
    this.deletionBar.over.prepend(this.mapProgress.node);
    this.mapSimilarity = new MapSimilarity(this);
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
   * Fetch what the page needs, then reopen the explanation of the address, or let the page begin with an example.
   * @returns {Promise<void>}
   */
  async open() {
    try {
      const [, { samples }] = await Promise.all([this.models.load(), getJSON("/api/samples"), loadLimits()]);
      this.samples = samples.filter((sample) => sample.kind === this.kind);
      this.page.ready();
      const { id } = this.address;
      const stored = id && (await findStored(id, this.kind, this.models));
      if (id && !stored) this.headline.clear(); // nothing is asked
      this.models.chosen = Boolean(this.address.model);
      if (stored) await this.page.prepare?.(stored);
      const first = this.address.sample
        ? linkedSample(this.samples, this.address)
        : this.samples.find(({ model }) => model === this.models.forPhotos);
      await this.#use(
        stored?.model ?? this.address.model ?? this.models.usable(first?.model) ?? this.models.preferred,
        stored,
      );
      if (this.question.input) return; // the person was faster
      if (stored) {
        this.#reopen(stored);
        this.page.reopen?.(stored);
      } else if (this.address.source) this.page.carry?.(new Input({ source: this.address.source }));
      else if (!this.address.id) this.page.example();
      else {
        this.plateSet.close();
        this.page.refused?.();
        say("status", "nothing to show");
      }
    } catch (problem) {
      this.report(problem, byId("results-problem"));
    } finally {
      if (!this.question.input) this.headline.clear();
      this.#isOpen();
    }
  }

  /**
   * Take `name` as the model of the page. A stored explanation, and a page that nobody asked for a model, are shown even
   * where that model cannot be had: with another, and a word on why.
   */
  async #use(name, stored) {
    if (stored) this.question.side = stored.prompts ? "text" : "image";
    await this.page.load?.({ count: stored?.targets?.length ?? 0, side: this.question.side });
    const model = await this.models.ready(name).catch((problem) => {
      if (!stored && this.address.model) throw problem;
      this.#modelProblem = problem;
      showProblem(byId("results-problem"), problem);
      return this.models.ready(this.models.preferred);
    });
    const modelInfo = await this.#modelInfoOf(model.name, this.question.side);
    this.question.model = model.name;
    this.#adopt(modelInfo);
    if (stored) this.#suit(stored);
    this.#expect(stored?.methods ?? this.question.methods);
  }

  #reopen(stored) {
    const { model, side } = this.question;
    const { modelInfo } = this;
    const question = { ...questionOf(stored, this.kind), model, side, modelInfo, id: stored.id, state: stored.state };
    this.question = this.#accepted = question;
    this.job.follow(question);
  }

  /** Whether the address of the page, as it opened, names what to show. */
  get #isLink() {
    return Boolean(this.address.id || this.address.source);
  }

  /** What the server tells of a model, once that is loaded: {model, side, registry, detail}. */
  async #modelInfoOf(name, side) {
    if (this.modelInfo?.model.name === name && this.modelInfo.side === side) return this.modelInfo;
    const model = await this.models.ready(name);
    return { model, side, ...(await fetchModelInfo(name, side)) };
  }

  /** Make a model, as `#modelInfoOf` gives it, the model of the page. */
  #adopt(modelInfo) {
    this.modelInfo = modelInfo;
    this.side = modelInfo.side;
    this.registry = modelInfo.registry;
    this.models.show(modelInfo.model);
    this.chooser.setRegistry(modelInfo.registry);
    this.page.changed(modelInfo.model, modelInfo.detail);
  }

  /**
   * Ask the newest question with some of its parts changed: {input, model, side, targets, methods}. `targets` is
   * {target} or {prompt}, with what is asked of each: {against, read}. `listed` is the name of the model whose classes
   * the targets were picked from: it is asked where the question's own does not know them. Problems are shown at
   * `place`, and then all stays as it was.
   * @param {{listed?: string | null, input?: Input, model?: string, side?: string, targets?: Wish,
   *   methods?: string[]}} change
   * @param {HTMLElement} [place]
   * @returns {Promise<void>}
   */
  async ask({ listed = null, ...change }, place = byId("results-problem")) {
    const { input, model, side, targets, methods } = { ...this.question, ...change };
    const question = (this.question = { input, model, side, targets, methods, modelInfo: null, id: null });
    try {
      if (!input) return void (await this.#turn(question));
      const isOther = input !== this.shown?.input;
      this.#pend(Boolean(this.shown), isOther);
      if (isOther) this.page.giving?.(input, this.models.titleOf(model));
      if (!(await this.job.start(() => this.#fields(question, listed), question))) return;
      // who left a question unanswered need not go back to it
      const isStep = this.#accepted?.isOver && this.#accepted.id !== question.id;
      this.#accepted = question;
      question.input.source = question.id;
      this.otherIds = {};
      if (isOther && this.shown) this.removal.set({ removed: 0 }); // another picture or text is whole
      remember(question.id);
      say("status", "asked");
      showProblem(place, null);
      showProblem(byId("results-problem"), this.#modelProblem);
      this.#modelProblem = null;
      this.write(isStep);
    } catch (problem) {
      if (question !== this.question) return;
      if (problem.isOf?.("no-such-source") && (await question.input.sent())) {
        question.input.source = null; // it was deleted meanwhile; what was given is still here
        return void this.ask({ listed }, place);
      }
      this.#revert();
      this.report(problem, place);
    }
  }

  /**
   * Mark what is said as the answer to the question before, while the newest one waits for its own. Where that is about
   * an `other` input, the maps are marked too, and the classes, which the model named for the input before, cannot be
   * asked for.
   */
  #pend(isPending, isOther = false) {
    const marks = byId("main").classList;
    marks.toggle("pending", isPending);
    marks.toggle("renewing", isPending && isOther);
  }

  /** Nothing is given yet: only the model, its side or the methods are chosen. */
  async #turn(question) {
    await this.#opened;
    await this.page.load?.({ count: 0, side: question.side });
    const modelInfo = await this.#modelInfoOf(question.model, question.side);
    if (question !== this.question) return;
    this.#adopt(modelInfo);
    this.#expect(question.methods);
    this.plateSet.close();
  }

  /** The fields of the form that asks the question. */
  async #fields(question, listed) {
    await this.#opened;
    const { input, side, targets, methods } = question;
    await this.page.load?.({ count: (targets.target ?? targets.prompt ?? []).length, side });
    let modelInfo = await this.#modelInfoOf(question.model, side);
    const knows = (label) => modelInfo.detail.labels.includes(label);
    if (listed && listed !== question.model && !targets.target.every(knows))
      modelInfo = await this.#modelInfoOf(listed, side);
    Object.assign(question, { modelInfo, model: modelInfo.model.name });
    const inputFields = await input.fields();
    const fields = {
      model: question.model,
      ...inputFields,
      side: side === "text" ? "text" : null,
      ...targets,
      methods: methods.filter((spec) => modelInfo.registry.runs(spec)),
      order: modelInfo.registry.plates(methods.length ? methods : modelInfo.registry.usual).map(({ spec }) => spec),
    };
    await check(fields);
    return fields;
  }

  /** The newest question is not answered: what is on show is what is asked. */
  #revert() {
    this.#pend(false);
    this.#accepted = this.shown ?? this.#accepted;
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
    this.#expect(this.specs);
    before.leave();
    if (withMaps) for (const map of this.received) plateSet.receive(map, this.id);
  }

  /** Show plates for these methods, else for the usual ones, in the fixed order. */
  #expect(specs) {
    const known = this.registry.plates(specs);
    const shown = known.length ? known : this.registry.plates(this.registry.usual);
    this.specs = shown.map(({ spec }) => spec);
    this.chooser.setChosen(this.specs);
    this.plateSet.expect(shown, this.registry.isUsual(this.specs));
  }

  #suit(info) {
    const plateSet = this.page.plateSet?.(info) ?? this.plateSet;
    if (plateSet !== this.plateSet) this.moveTo(plateSet);
  }

  #started(info, question) {
    this.#pend(question !== this.question, question.input !== this.question.input);
    const before = this.shown;
    const isNew = !before || ["input", "model", "side"].some((part) => before[part] !== question[part]);
    this.shown = question;
    if (this.modelInfo !== question.modelInfo) this.#adopt(question.modelInfo);
    this.#suit(info); // what is there already stays on show, marked stale
    this.received = [];
    this.#expect(info.expected);
    question.methods = this.registry.isUsual(info.expected) ? [] : info.expected;
    // what was asked of an address alone is known only now
    if (question.isAgain) question.targets = questionOf({ ...info, id: question.id }, this.kind).targets;
    if (isNew) this.plateSet.clear();
    if (isNew && before) this.focus.set({ at: -1, locked: false });
    this.subject.set({ id: question.id, model: question.model, info, done: false });
    this.models.explain(Boolean(question.input.sample), this.modelInfo.detail.labels ?? []);
    if (this.kind !== "text") carry(question.id, info, question.input.isOwn);
    this.write();
    this.headline.show(info);
    this.#drawn = Promise.resolve(this.page.started(info, question, isNew)).catch((problem) =>
      this.report(problem, byId("results-problem")),
    );
    this.mapProgress.begin(question.id, this.plateSet.variants, info.costs);
    this.#progress();
    if (before || (question.input.isOwn && !this.#isLink)) scrollToAnswer(); // a link opens at the picture
  }

  #method(map, question) {
    this.received.push(map);
    this.page.method(map, question);
    this.#progress();
  }

  #progress() {
    this.mapProgress.arrive(this.plateSet.shown.map(({ spec }) => spec));
    const [done, all] = [this.plateSet.shown, this.plateSet.variants].map((variants) => variants.filter(isMethod));
    say("status", all.length ? `${done.length} of ${countMethods(all)}` : "random comes");
  }

  #failed(problem, question) {
    this.#pend(false);
    const isStored = question === this.#accepted && !this.shown; // the address goes on to name it
    if (question !== this.shown) {
      this.#revert();
      if (!isStored) this.write();
    }
    this.#stopped(problem, question);
  }

  /** It will not go on by itself; `question`, if it can be asked again as it was. */
  #stopped(problem, question = null) {
    this.mapProgress.end();
    this.plateSet.close();
    say("status", "stopped");
    const mayGoBetter = question && !(problem.status >= 400 && problem.status < 500);
    showProblem(byId("results-problem"), problem, ...(mayGoBetter ? [this.#againButton(question)] : []));
  }

  /** A button that asks exactly what was asked: the same input, targets, methods and options. */
  #againButton(question) {
    const again = async () => {
      button.disabled = true;
      try {
        this.question = question;
        say("status", "asked");
        if (await this.job.again(question)) this.#renewed(question);
      } catch (problem) {
        if (problem.name !== "AbortError") this.report(problem, byId("results-problem"));
      }
    };
    const button = el("button", { type: "button", class: "act plain again", on: { click: again } }, "Ask again");
    return button;
  }

  /** The server makes a question anew: it has another id. */
  #renewed(question) {
    this.#accepted = this.question = question;
    question.input.source = question.id;
    question.isAgain = true;
    remember(question.id);
    showProblem(byId("results-problem"), null);
    say("status", "asked");
    this.mapProgress.regain();
    this.write();
  }

  /**
   * Write the state into the address; as a new step of the browser's history where it `isStep`.
   * @param {boolean} [isStep]
   */
  write(isStep = false) {
    if (!this.#accepted?.id) return;
    const { at, locked } = this.focus.value;
    const ids = { id: this.#accepted.id, ...this.otherIds };
    const view = { ...this.view.value, ...this.removal.value };
    this.#addressBar.write(ids, view, locked ? at : -1, this.toolStates.entries, isStep);
    if (this.shown === this.#accepted && !this.#addressBar.isLeaving)
      leave(location.pathname, location.search, keyOf(this.subject.value.info.input, this.id));
  }
}
