// What Image, Prompt and Text have in common: the model, the chosen methods, the running explanation, the address, the status.

import { explanationPath, getJSON, methodsPath, modelPath, Problem } from "./api.js";
import { Chooser } from "./chooser.js";
import { spoken, spokenAll } from "./classes.js";
import { Dock } from "./dock.js";
import { byId, count, el, say, seconds, showProblem } from "./dom.js";
import { addDrawers } from "./drawers.js";
import { figureMenu } from "./export.js";
import { Job } from "./job.js";
import { ModelChoice } from "./modelchoice.js";
import { Registry } from "./registry.js";
import { remember } from "./remember.js";
import { NOTHING, readAddress, Store, writeAddress } from "./state.js";
import { Tools } from "./tools.js";

export class Bench {
  #asked = 0;
  #name = document.title; // of the page
  #drawn = Promise.resolve(); // once the input of the explanation is on show

  /**
   * kind      "image", "clip" or "text"
   * page      {started(info, job, isNew), method(map, job), changed(model, detail), ready(state), again()}: what the page does at each step;
   *           prepare(stored): what the page needs before a stored explanation is shown;
   *           refused(): what was asked for last is not explained, all stays as it was;
   *           wall(info): the wall on which an explanation of these {targets} hangs, where the page has several
   */
  constructor(kind, page) {
    const asked = readAddress();
    Object.assign(this, { kind, page, asked, id: null, wall: null, registry: new Registry(), samples: [], methods: asked.methods /* chosen; none: the usual ones */, given: null, hung: [] /* specs on the wall */, side: asked.side, also: {} /* other ids in the address */, received: [] /* maps */ });
    this.view = new Store(asked.view);
    this.focus = new Store({ at: asked.focus, locked: asked.focus >= 0 });
    this.subject = new Store(NOTHING); // the explanation on show; `info` is what the model said
    this.rival = new Store(NOTHING); // that of another model beside it, see Compare
    this.cut = new Store({ first: asked.view.first, gone: asked.view.gone }); // what the dock takes away
    this.tools = new Tools(() => this.write()); // what is open, and how it stands
    this.models = new ModelChoice(kind, (name) => this.change(name));
    this.chooser = new Chooser(byId("chooser"), (specs) => {
      this.methods = specs;
      page.again();
    });
    byId("export").append(...figureMenu(this));
    byId("plates").addEventListener("options", (event) => this.chooser.configure(event.detail));
    this.job = new Job({
      queued: ({ position }) => say("status", position > 0 ? `waiting, ${position} before you` : "waiting"),
      started: (info, job) => this.#started(info, job),
      method: (map, job) => this.#method(map, job),
      done: ({ seconds: took }, job) => {
        this.wall.close();
        this.#drawn.then(() => job.id === this.subject.value.id && this.subject.set({ done: true }));
        say("status", `${count(this.wall.done, "map")}${took === undefined ? "" : ` in ${seconds(took)}`}`);
      },
      failed: (problem) => this.#failed(problem),
      lost: (problem) => this.#failed(problem),
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
  }

  /** Fetch what the page needs, then reopen the explanation of the address, or let the page begin with an example. */
  async open() {
    const place = byId("case-problem");
    try {
      const [, { samples }] = await Promise.all([this.models.load(), getJSON("/api/samples")]);
      this.samples = samples.filter((sample) => sample.kind === this.kind);
      const stored = this.asked.id && (await getJSON(explanationPath(this.asked.id)).catch((problem) => void showProblem(place, problem)));
      this.models.chosen = Boolean(this.asked.model);
      if (stored) await this.page.prepare?.(stored);
      await this.use(stored?.model ?? this.asked.model ?? this.models.preferred, stored);
      if (stored) {
        this.id = stored.id;
        this.page.ready(stored);
        this.job.follow(stored);
      } else this.page.ready(null);
    } catch (problem) {
      this.report(problem, place);
    }
  }

  /** Take `name` as the model of the page. A stored explanation is shown even where its model is not at hand any more. */
  async use(name, stored = null) {
    if (stored) this.side = stored.prompts ? "text" : "image";
    const model = await this.models.use(name).catch((problem) => {
      if (!stored) throw problem;
      showProblem(byId("case-problem"), problem);
      return this.models.use(this.models.preferred);
    });
    this.#take(model, await this.#told(model.name), stored);
  }

  /** What the server tells of a model: its methods, and the rest. */
  #told(name) {
    return Promise.all([getJSON(methodsPath(name, this.side)), getJSON(modelPath(name))]);
  }

  #take(model, [listed, detail], stored = null) {
    this.registry = new Registry(listed);
    this.methods = this.methods.filter((spec) => this.registry.runs(spec));
    this.chooser.setRegistry(this.registry);
    this.page.changed(model, detail);
    if (stored) this.#suit(stored);
    this.#hang(stored?.methods ?? []);
  }

  /** Explain the other side of a CLIP model: "image", or "text" for the words of the prompts. */
  turn(side) {
    return this.change(this.models.current.name, side);
  }

  /** The user chose another model, or another of its sides: explain the same input with it. */
  async change(name, side = "image") {
    const before = this.side;
    this.side = side;
    try {
      await this.use(name);
      this.received = [];
      this.wall.clear();
      this.page.again({ model: true });
    } catch (problem) {
      this.side = before;
      this.page.refused?.();
      this.models.show();
      this.report(problem, byId("case-problem"));
    }
  }

  /**
   * Explain what was given: {text} or {image}, or {fetch} that gets the image when it is needed, with `sample` for the page, `stored`, a note
   * on what is lost where it is explained anew, and `model`, the name of the one that it suits.
   * `targets` is {target} or {prompt}. Problems are shown at `place`, and then all stays as it was.
   */
  async explain(given, targets, place, isNew = true) {
    if (!given) return;
    const ticket = ++this.#asked;
    const before = this.models.current.name;
    try {
      const whole = given.fetch && !given.image ? { ...given, image: await given.fetch(), again: given.stored } : given;
      if (ticket !== this.#asked) return;
      const { image, text } = whole;
      const model = isNew ? this.models.fitting(whole.model) : before;
      const told = model === before ? null : await this.#told(model);
      const { registry } = told ? { registry: new Registry(told[0]) } : this;
      const methods = this.methods.filter((spec) => registry.runs(spec));
      const job = await this.job.start({ model, image, text, side: this.side === "text" ? "text" : null, ...targets, methods });
      if (!job) return;
      if (told) this.#take(await this.models.use(model), told); // not before the server has taken the picture: else nothing changes
      remember(job.id);
      Object.assign(this, { given: whole, id: job.id, isNew });
      say("status", "asked");
      showProblem(byId("case-problem"), null);
      showProblem(place, null);
      if (isNew) this.focus.set({ at: -1, locked: false });
      this.write();
    } catch (problem) {
      this.page.refused?.();
      this.report(problem, place);
    }
  }

  /** Hang on another wall what hangs on this one, the maps too where they are of the same kind. */
  hangOn(wall, withMaps = true) {
    const before = this.wall;
    if (wall === before) return;
    this.wall = wall;
    wall.setBase(before.base);
    this.#hang(this.hung);
    before.leave();
    if (withMaps) for (const map of this.received) wall.receive(map, this.id);
  }

  report(problem, place) {
    if (!(problem instanceof Problem)) console.error(problem);
    showProblem(place, problem instanceof Problem ? problem : { title: "This page failed", detail: String(problem), send: "Reload it" });
  }

  /** Hang plates for these methods, else for the chosen ones, else for the usual ones, in the fixed order. */
  #hang(specs) {
    const hung = this.registry.plates(specs.length ? specs : this.methods.length ? this.methods : this.registry.usual);
    this.hung = hung.map(({ spec }) => spec);
    this.chooser.setChosen(this.hung);
    this.wall.expect(hung);
  }

  #suit(info) {
    const wall = this.page.wall?.(info) ?? this.wall;
    if (wall !== this.wall) this.hangOn(wall);
  }

  #started(info, job) {
    this.#suit(info); // what hangs already stays on show, marked stale
    this.received = [];
    this.#hang(info.expected);
    const { usual } = this.registry;
    const isUsual = usual.length === info.expected.length && usual.every((spec) => info.expected.includes(spec));
    this.methods = isUsual ? [] : info.expected;
    const isNew = this.isNew ?? true;
    if (isNew) this.wall.clear();
    this.subject.set({ id: job.id, model: this.models.current.name, info, done: false });
    byId("answer").textContent = spokenAll(info.targets);
    document.title = `${spoken(info.targets[0])} · ${this.#name}`;
    byId("notes").replaceChildren(...[...(info.notes ?? []), this.given?.again].filter(Boolean).map((note) => el("li", {}, note)));
    this.#drawn = Promise.resolve(this.page.started(info, job, isNew)).catch((problem) => this.report(problem, byId("case-problem")));
    say("status", `0 of ${this.wall.all.length} maps`);
  }

  #method(map, job) {
    this.received.push(map);
    this.page.method(map, job);
    say("status", `${this.wall.done} of ${this.wall.all.length} maps`);
  }

  #failed(problem) {
    this.wall.close();
    say("status", "stopped");
    showProblem(byId("case-problem"), problem);
  }

  /** Write the state into the address. */
  write() {
    const { at, locked } = this.focus.value;
    if (this.id) writeAddress({ id: this.id, ...this.also }, { ...this.view.value, ...this.cut.value }, locked ? at : -1, this.tools.entries);
  }
}
