// What Image, Prompt and Text have in common: the newest question, the running explanation, the address, the status.
//
// A question is {input, model, side, targets, methods}. A new one is the newest one with a part changed, whether that
// one is answered or not. An answer is heard only while no newer question was taken by the server (see Job), and all
// that is on show is of the question whose answer began last: `shown`.

import { Chooser } from "../choice/chooser.js";
import { ModelChoice } from "../choice/modelchoice.js";
import { explanationPath, getJSON, methodsPath, modelPath, Problem } from "../core/api.js";
import { byId, el, say, seconds, showProblem } from "../core/dom.js";
import { check, loadLimits } from "../core/limits.js";
import { countMethods, isMethod, Registry } from "../core/registry.js";
import { remember } from "../core/remember.js";
import { NOTHING, readAddress, Store, writeAddress } from "../core/state.js";
import { classOf } from "../core/targets.js";
import { Dock } from "../dock/dock.js";
import { figureMenu } from "../export/export.js";
import { Input } from "../inputs/input.js";
import { addDrawers } from "../tools/drawers.js";
import { Headline } from "./headline.js";
import { hold } from "./hold.js";
import { Job } from "./job.js";
import { bringAnswer } from "./narrow.js";
import { carry, isExample, leave } from "./places.js";
import { Tools } from "./tools.js";

/**
 * @import { Wish } from "../core/types.js"
 * @import { Wall } from "../plates/plate.js"
 */

const PROMPTS = 3; // with which a picture goes to the Prompt page

const promptFor = ({ label, prompt }) => prompt ?? `a photo of ${/^[aeiou]/i.test(label) ? "an" : "a"} ${label}`;

/** What tells one picture from another, in whatever explanation. */
const keyOf = (input, id) => input?.sha256 ?? id;

const link = (href, text) => el("a", { href }, text);

/** The frame of a page: its question, its answer and its wall. */
export class Bench {
  #drawn = Promise.resolve(); // once the input of the explanation is on show
  #taken = null; // the newest question that the server took: the address names it
  #written = location.search; // the address as this page knows it
  #isOpen;
  #opened = new Promise((resolve) => (this.#isOpen = resolve)); // once it is known which model answers
  #isLeaving = false; // for another step of the browser's history
  shown = null; // the question whose answer is on show

  /**
   * kind      "image", "clip" or "text"
   * page      {started(info, job, isNew), method(map, job), changed(model, detail)}: what the page does at each step;
   *           ready(): the samples are known; reopen(stored), example(), carry(input): how it begins, one of the three;
   *           prepare(stored): what the page needs before a stored explanation is shown;
   *           giving(input, model): another input is asked about, by the model of that title;
   *           refused(): what was asked for last is not explained, all stays as it was;
   *           wall(info): the wall on which an explanation of these {targets} hangs, where the page has several
   * @param {string} kind
   * @param {{[step: string]: (...args: any[]) => any}} page
   */
  constructor(kind, page) {
    const asked = readAddress();
    this.kind = kind;
    this.page = page;
    this.asked = asked;
    this.wall = null;
    this.registry = new Registry();
    this.samples = [];
    this.hung = []; // specs on the wall
    this.side = asked.side;
    this.also = {}; // other ids in the address
    this.received = []; // maps
    this.question = {
      input: null,
      model: asked.model,
      side: asked.side,
      targets: {},
      methods: asked.methods /* none: the usual ones */,
    };
    this.view = new Store(asked.view);
    this.focus = new Store({ at: asked.focus, locked: asked.focus >= 0 });
    this.subject = new Store(NOTHING); // the explanation on show; `info` is what the model said
    this.rival = new Store(NOTHING); // that of another model beside it, see Compare
    this.cut = new Store({ first: asked.view.first, gone: asked.view.gone }); // what the dock takes away
    this.tools = new Tools(() => this.write()); // what is open, and how it stands
    this.models = new ModelChoice(kind, (name) =>
      this.ask({ model: name, ...(kind === "clip" ? {} : { targets: { target: null } }) }),
    );
    this.chooser = new Chooser(
      byId("chooser"),
      (methods) => this.ask({ methods }),
      (problem) => this.report(problem, byId("case-problem")),
    );
    byId("controls").prepend(this.chooser.button);
    this.headline = new Headline(this);
    byId("export").append(...figureMenu(this), ...this.headline.naming);
    for (const node of [byId("classes"), byId("why")]) {
      if (node)
        hold(
          node,
          () => byId("main").classList.contains("renewing"),
          () => say("status", "these classes are of the input before"),
        );
    }
    byId("plates").addEventListener("options", (event) => this.chooser.configure(event.detail));
    this.job = new Job({
      queued: ({ position }) => say("status", position > 0 ? `waiting, ${position} before you` : "waiting"),
      started: (info, question) => this.#started(info, question),
      method: (map, question) => this.#method(map, question),
      done: ({ seconds: took }, question) => {
        this.wall.close();
        this.headline.sumUp(true);
        this.#drawn.then(() => question === this.shown && this.subject.set({ done: true }));
        say("status", `${countMethods(this.wall.shown)}${took === undefined ? "" : ` in ${seconds(took)}`}`);
      },
      failed: (problem, question) => this.#failed(problem, question),
      lost: (problem) => this.#stopped(problem),
    });
    addDrawers(byId("drawers"), this);
    this.dock = new Dock(this);
    const write = () => this.write();
    this.view.follow(write);
    let soon = 0;
    this.cut.follow(() => {
      clearTimeout(soon);
      soon = setTimeout(write, 200); // a browser bears only so many changes of the address
    });
    this.focus.follow((now, before) => (now.locked || before.locked) && write());
    addEventListener("popstate", () => this.#go());
  }

  /**
   * The id of the explanation on show.
   * @returns {string | null}
   */
  get id() {
    return this.shown?.id ?? null;
  }

  /**
   * Fetch what the page needs, then reopen the explanation of the address, or let the page begin with an example.
   * @returns {Promise<void>}
   */
  async open() {
    const place = byId("case-problem");
    try {
      const [, { samples }] = await Promise.all([this.models.load(), getJSON("/api/samples"), loadLimits()]);
      this.samples = samples.filter((sample) => sample.kind === this.kind);
      this.page.ready();
      const stored = this.asked.id && (await this.#stored());
      this.models.chosen = Boolean(this.asked.model);
      if (stored) await this.page.prepare?.(stored);
      const first = this.samples.find(({ id, model }) =>
        this.asked.sample ? id === this.asked.sample : model === this.models.forPhotos,
      );
      await this.#use(
        stored?.model ?? this.asked.model ?? this.models.atHand(first?.model) ?? this.models.preferred,
        stored,
      );
      if (this.question.input) return; // the person was faster
      if (stored) {
        this.#reopen(stored);
        this.page.reopen?.(stored);
      } else if (this.asked.source) this.page.carry?.(new Input({ source: this.asked.source }));
      else if (!this.asked.id) this.page.example();
      else {
        this.wall.close();
        this.page.refused?.();
        say("status", "nothing to show");
      }
    } catch (problem) {
      this.report(problem, place);
    } finally {
      if (!this.question.input) this.headline.clear();
      this.#isOpen();
    }
  }

  /**
   * The explanation that the address names; null, with what to do said, where it is gone or belongs on another page.
   */
  async #stored() {
    const fresh = link(location.pathname, "Start anew on this page");
    try {
      const stored = await getJSON(explanationPath(this.asked.id));
      const { kind, path, name } = this.models.pageOf(stored);
      if (kind === this.kind) return stored;
      const detail = `The explanation ${stored.id} belongs on the ${name} page: its model is ${stored.model}.`;
      showProblem(
        byId("case-problem"),
        { title: "Not an explanation for this page", detail },
        link(`${path}?id=${encodeURIComponent(stored.id)}`, `Open it on the ${name} page`),
        fresh,
      );
    } catch (problem) {
      if (problem.status !== 404) throw problem;
      const detail = "It was deleted, or it was among the oldest when the server made room, or the link is not whole.";
      showProblem(
        byId("case-problem"),
        { title: "This explanation is not here", detail },
        fresh,
        link("/history", "See which ones are here"),
      );
    }
    return null;
  }

  /**
   * Take `name` as the model of the page. A stored explanation is shown even where its model is not at hand any more.
   */
  async #use(name, stored) {
    if (stored) this.question.side = stored.prompts ? "text" : "image";
    const model = await this.models.ready(name).catch((problem) => {
      if (!stored) throw problem;
      showProblem(byId("case-problem"), problem);
      return this.models.ready(this.models.preferred);
    });
    const told = await this.#tell(model.name, this.question.side);
    this.question.model = model.name;
    this.#take(told);
    if (stored) this.#suit(stored);
    this.#hang(stored?.methods ?? this.question.methods);
  }

  #reopen(stored) {
    const { model, side } = this.question;
    const [first] = stored.targets ?? [];
    const field = this.kind === "clip" ? "prompt" : "target";
    const targets = { [field]: stored.targets?.map(classOf) ?? null, against: first?.against, read: first?.read };
    const question = {
      input: new Input({ source: stored.id, isOwn: !isExample(keyOf(stored.input, stored.id)) }),
      model,
      side,
      targets,
      methods: stored.methods ?? [],
      told: this.told,
      id: stored.id,
      state: stored.state,
    };
    this.question = this.#taken = question;
    this.job.follow(question);
  }

  /** What the server tells of a model: its methods, and the rest. */
  async #tell(name, side) {
    if (this.told?.model.name === name && this.told.side === side) return this.told;
    const model = await this.models.ready(name);
    const [listed, detail] = await Promise.all([getJSON(methodsPath(name, side)), getJSON(modelPath(name))]);
    return { model, side, registry: new Registry(listed), detail };
  }

  /** Make a model, as `#tell` gives it, the model of the page. */
  #take(told) {
    this.told = told;
    this.side = told.side;
    this.registry = told.registry;
    this.models.show(told.model);
    this.chooser.setRegistry(told.registry);
    this.page.changed(told.model, told.detail);
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
  async ask({ listed = null, ...change }, place = byId("case-problem")) {
    const { input, model, side, targets, methods } = { ...this.question, ...change };
    const question = (this.question = { input, model, side, targets, methods, told: null, id: null });
    try {
      if (!input) return void (await this.#turn(question));
      const isOther = input !== this.shown?.input;
      this.#pend(Boolean(this.shown), isOther);
      if (isOther) this.page.giving?.(input, this.models.titleOf(model));
      if (!(await this.job.start(() => this.#fields(question, listed), question))) return;
      // who left a question unanswered need not go back to it
      const isStep = this.#taken?.isOver && this.#taken.id !== question.id;
      this.#taken = question;
      question.input.source = question.id;
      this.also = {};
      if (isOther && this.shown) this.cut.set({ gone: 0 }); // another picture or text is whole
      remember(question.id);
      say("status", "asked");
      showProblem(byId("case-problem"), null);
      showProblem(place, null);
      this.write(isStep);
    } catch (problem) {
      if (question !== this.question) return;
      if (problem.isOf?.("no-such-source") && (await question.input.sent())) {
        question.input.source = null; // it was deleted meanwhile; what was given is still here
        return void this.ask({ listed }, place);
      }
      this.#stay();
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
    const told = await this.#tell(question.model, question.side);
    if (question !== this.question) return;
    this.#take(told);
    this.#hang(question.methods);
    this.wall.close();
  }

  /** The fields of the form that asks the question. */
  async #fields(question, listed) {
    await this.#opened;
    const { input, side, targets, methods } = question;
    let told = await this.#tell(question.model, side);
    const knows = (label) => told.detail.labels.includes(label);
    if (listed && listed !== question.model && !targets.target.every(knows)) told = await this.#tell(listed, side);
    Object.assign(question, { told, model: told.model.name });
    const given = await input.fields();
    const fields = {
      model: question.model,
      ...given,
      side: side === "text" ? "text" : null,
      ...targets,
      methods: methods.filter((spec) => told.registry.runs(spec)),
    };
    await check(fields);
    return fields;
  }

  /** The newest question is not answered: what is on show is what is asked. */
  #stay() {
    this.#pend(false);
    this.#taken = this.shown ?? this.#taken;
    this.question = this.shown ?? this.question;
    this.models.show();
    this.page.refused?.();
    if (this.shown) return;
    this.headline.clear();
    this.wall.close();
  }

  /** Another step of the browser's history: the address is the state, and the page is opened at it. */
  #go() {
    if (location.search === this.#written) return; // a link within the page
    this.#isLeaving = true;
    location.reload();
  }

  /**
   * Hang on another wall what hangs on this one, the maps too where they are of the same kind.
   * @param {Wall} wall
   * @param {boolean} [withMaps]
   */
  hangOn(wall, withMaps = true) {
    const before = this.wall;
    if (wall === before) return;
    this.wall = wall;
    wall.setBase(before.base);
    this.#hang(this.hung);
    before.leave();
    if (withMaps) for (const map of this.received) wall.receive(map, this.id);
  }

  /**
   * Show a problem at `place`; what is no Problem of the API is a fault of the page.
   * @param {unknown} problem
   * @param {Element} place
   */
  report(problem, place) {
    if (!(problem instanceof Problem)) console.error(problem);
    showProblem(
      place,
      problem instanceof Problem ? problem : { title: "This page failed", detail: String(problem), send: "Reload it" },
    );
  }

  /** Hang plates for these methods, else for the usual ones, in the fixed order. */
  #hang(specs) {
    const known = this.registry.plates(specs);
    const hung = known.length ? known : this.registry.plates(this.registry.usual);
    this.hung = hung.map(({ spec }) => spec);
    this.chooser.setChosen(this.hung);
    this.wall.expect(hung, this.registry.isUsual(this.hung));
  }

  #suit(info) {
    const wall = this.page.wall?.(info) ?? this.wall;
    if (wall !== this.wall) this.hangOn(wall);
  }

  #started(info, question) {
    this.#pend(question !== this.question, question.input !== this.question.input);
    const before = this.shown;
    const isNew = !before || ["input", "model", "side"].some((part) => before[part] !== question[part]);
    this.shown = question;
    if (this.told !== question.told) this.#take(question.told);
    this.#suit(info); // what hangs already stays on show, marked stale
    this.received = [];
    this.#hang(info.expected);
    question.methods = this.registry.isUsual(info.expected) ? [] : info.expected;
    if (isNew) this.wall.clear();
    if (isNew && before) this.focus.set({ at: -1, locked: false });
    this.subject.set({ id: question.id, model: question.model, info, done: false });
    this.models.explain(this.#what(), this.told.detail.labels ?? []);
    if (this.kind !== "text")
      carry(
        { key: keyOf(info.input, question.id), id: question.id, prompts: info.top.slice(0, PROMPTS).map(promptFor) },
        question.input.isOwn,
      );
    this.write();
    this.headline.show(info);
    this.#drawn = Promise.resolve(this.page.started(info, question, isNew)).catch((problem) =>
      this.report(problem, byId("case-problem")),
    );
    this.#progress();
    if (question.input.isOwn || before) bringAnswer();
  }

  /** What the model was given, in words. */
  #what() {
    if (this.kind === "text") return "a text";
    if (this.kind === "clip") return "a picture and words";
    if (this.models.current.photos) return "a photo";
    return this.shown.input.sample ? "the model of this sample" : "a picture";
  }

  #method(map, question) {
    this.received.push(map);
    this.page.method(map, question);
    this.#progress();
  }

  #progress() {
    const [done, all] = [this.wall.shown, this.wall.variants].map((variants) => variants.filter(isMethod));
    say("status", all.length ? `${done.length} of ${countMethods(all)}` : "random comes");
  }

  #failed(problem, question) {
    this.#pend(false);
    if (question !== this.shown) {
      this.#stay();
      this.write();
    }
    this.#stopped(problem);
  }

  #stopped(problem) {
    this.wall.close();
    say("status", "stopped");
    showProblem(byId("case-problem"), problem);
  }

  /**
   * Write the state into the address; as a new step of the browser's history where it `isStep`.
   * @param {boolean} [isStep]
   */
  write(isStep = false) {
    if (!this.#taken?.id || this.#isLeaving) return;
    const { at, locked } = this.focus.value;
    this.#written = writeAddress(
      { id: this.#taken.id, ...this.also },
      { ...this.view.value, ...this.cut.value },
      locked ? at : -1,
      this.tools.entries,
      isStep,
    );
    if (this.shown === this.#taken)
      leave(location.pathname, this.#written, keyOf(this.subject.value.info.input, this.id));
  }
}
