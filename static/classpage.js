// What Image and Text have in common: the classes of one input, explained by one plate a method, a row a method for several, or by two models.

import { Bench } from "./bench.js";
import { Classes, classOf, likewise } from "./classes.js";
import { Compare } from "./compare.js";
import { byId, number, percent, say } from "./dom.js";
import { Wall } from "./plate.js";
import { Samples } from "./samples.js";
import { Versus } from "./versus.js";

/** What the model says of a class, under its name. */
const told = ({ logit, probability, against }) =>
  against ? `logit ${number(logit)} above “${against}”` : `logit ${number(logit)}${probability === undefined ? "" : ` · ${percent(probability)}`}`;

export class ClassPage {
  #targets = [];

  /**
   * kind   "image" or "text"
   * page   {ready(stored), started(info, job, isNew), receive(map), openSample(sample)}: what the page itself does at each step
   * more   baseOf(id, info): what the maps of an explanation are drawn on; `makePlate`: see Wall; `many`: whether there may be many classes
   */
  constructor(kind, page, { baseOf, makePlate, many = true }) {
    this.bench = new Bench(kind, {
      changed: (model, detail) => {
        this.classes.setLabels(detail.labels ?? []);
        this.compare.offer();
      },
      refused: () => this.classes.restore(),
      wall: (info) => this.#wallFor(info),
      prepare: (stored) => this.compare.prepare(this.bench.asked.compare, stored.model),
      ready: (stored) => {
        this.samples.show(this.bench.samples);
        page.ready(stored);
      },
      started: (info, job, isNew) => {
        this.#targets = info.targets;
        this.classes.show(info.top, info.targets);
        this.compare.follow(info);
        this.samples.mark(this.bench.given?.sample ?? null);
        return page.started(info, job, isNew);
      },
      method: (map, job) => {
        page.receive?.(map);
        this.bench.wall.receive(map, job.id);
      },
      again: (change = {}) => {
        if (change.model) this.#targets = [];
        this.#ask(this.#targets.map(classOf), likewise(this.#targets[0]), Boolean(change.model));
      },
    });
    const { bench } = this;
    const options = { focus: bench.focus, view: bench.view, onRead: (text) => say("reading", text), ...(makePlate ? { makePlate } : {}) };
    const root = byId("plates");
    this.single = new Wall(root, options);
    this.versus = new Versus(root, { ...options, same: "The same map for every class." });
    bench.wall = this.single;
    this.classes = new Classes(byId("classes"), (labels, asked) => this.#ask(labels, asked), many);
    this.compare = new Compare(this.classes.box, bench, { single: this.single, options, baseOf });
    this.samples = new Samples(byId("samples"), page.openSample);
  }

  /** The sample that a page begins with. */
  get example() {
    const { samples, models } = this.bench;
    return samples.find((sample) => sample.model === models.current.name) ?? samples[0];
  }

  /** Explain another input for these classes; null: for the model's own top class. */
  explain(given, labels) {
    return this.bench.explain(given, { target: labels }, byId("specimen-problem"));
  }

  /** Ask something else of the same input. */
  #ask(labels, asked, isNew = false) {
    return this.bench.explain(this.bench.given, { target: labels, ...asked }, byId("case-problem"), isNew);
  }

  /** The wall for an explanation of these {targets, input}. */
  #wallFor({ targets = [], input }) {
    if (targets.length < 2) return this.compare.isOn ? this.compare.wall : this.single;
    this.versus.content = input?.tokens ? input.tokens.map((token) => !token.special) : null;
    this.versus.read = targets[0].read ?? "logit";
    this.versus.setTargets(targets, targets.map(told));
    return this.versus;
  }
}
