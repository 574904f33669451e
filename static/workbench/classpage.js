// What Image, Text and Molecule have in common: the classes of one input, explained by one plate a method, a row a
// method for several, or by two models.

import { Classes } from "../choice/classes.js";
import { AnswerChange } from "./answerchange.js";
import { byId, number, percent, say, addStyleSheet } from "../core/dom.js";
import { showProblem } from "../core/problems.js";
import { named } from "../core/search.js";
import { WRITING_TASKS } from "../core/targets.js";
import { Samples } from "../inputs/samples.js";
import { PlateSet } from "../plates/plate.js";
import { Workbench } from "./workbench.js";
import { Compare } from "./compare.js";
import { isWithheld } from "./overview.js";

/**
 * @import { PlaceChoice } from "./placechoice.js"
 * @import { Sample, Target } from "../core/schemas.js"
 * @import { ProblemFields, Started, Wish } from "../core/types.js"
 * @import { Input } from "../inputs/input.js"
 * @import { PlateMaker } from "../plates/types.js"
 * @import { Versus } from "../plates/versus.js"
 * @import { ClassSteps } from "./types.js"
 */

/**
 * The model's answer for a class, under its name.
 * @param {Target} target
 */
const targetLine = ({ logit, probability, against }) =>
  against
    ? `logit ${number(logit)} above “${named(against)}”`
    : probability === undefined
      ? `value ${number(logit)}`
      : `logit ${number(logit)} · ${percent(probability)}`;

/** The page of one input and its classes. */
export class ClassPage {
  /** @type {(sample: Sample) => boolean} */
  #suits; // whether the model on show can read a sample
  /** @type {Input | null} that the model of the page does not read: the next model that does is asked about it */
  #left = null;
  /** @type {Versus | undefined} once several classes are explained */
  versus;
  /** @type {PlaceChoice | undefined} once a model with a task is asked */
  places;

  /**
   * kind   "image", "text" or "molecule"
   * page   {lacks(detail, input), partOf(detail, input): whether a model cannot read an input as it is, and the part
   *        that it reads, if any; reopen(stored), example(), carry(input), giving(input, model), stored(id), refused(),
   *        started(info, question, isNew), receive(map),
   *        openSample(sample), suits(sample)}: what the page does at each step
   * more   baseOf(id, info): what the maps of an explanation are drawn on; `makePlate`: see PlateSet; `many`: whether there
   *        may be many classes
   * @param {"image" | "text" | "molecule"} kind
   * @param {ClassSteps} page
   * @param {{baseOf: (id: string, info: Started) => any, makePlate?: PlateMaker, many?: boolean}} more
   */
  constructor(kind, page, { baseOf, makePlate, many = true }) {
    this.#suits = page.suits ?? (() => true);
    this.workbench = new Workbench(kind, {
      changed: (model, detail) => {
        const labels = detail.labels ?? [];
        this.classes.setLabels(labels, detail.classes, Boolean(detail.details?.task) && !labels.length);
        this.answerChange.setClasses(detail.classes ?? labels.map((label) => ({ label })));
        this.compare.offer();
        page.changed?.(detail);
        const input = this.#left;
        if (!input || workbench.question.input || page.lacks?.(detail, input)) return;
        this.#left = null;
        queueMicrotask(() => {
          if (!workbench.question.input) void workbench.ask({ input });
        });
      },
      examine: async ({ model, detail }, input) => {
        if (!page.lacks?.(detail, input)) return;
        const part = page.partOf?.(detail, input);
        if (part) {
          void this.#askPart(part, model.name);
          throw new DOMException("", "AbortError");
        }
        this.#left = input;
        void workbench.ask({ input: /** @type {any} */ (null), model: model.name }); // nothing, until more is given
        throw new DOMException("", "AbortError");
      },
      giving: (input, model) => page.giving?.(input, model),
      stored: (id) => page.stored?.(id),
      refused: () => {
        this.classes.restore();
        page.refused?.();
      },
      plateSet: (info) => this.#plateSetFor(info),
      load: ({ count }) => count > 1 && this.#loadVersus(),
      prepare: (stored) => this.compare.prepare(this.workbench.address.compare, stored.model),
      ready: () => this.offerSamples(),
      reopen: (stored) => page.reopen?.(stored),
      example: () => page.example(),
      carry: (input) => page.carry?.(input),
      started: (info, question, isNew) => {
        const isWritten = WRITING_TASKS.includes(info.task ?? "");
        this.classes.show(info.top, info.targets, info.output, isWithheld(info.abstention), isWritten);
        this.answerChange.show(info.top, info.output, question.input, question.modelInfo, info.targets);
        this.compare.follow(info);
        this.samples.mark(question.input.sample);
        void this.#showPlaces(info);
        return page.started(info, question, isNew);
      },
      method: (map, job) => {
        page.receive?.(map);
        this.workbench.plateSet.receive(map, job.id);
      },
    });
    const { workbench } = this;
    const options = (this.options = {
      focus: workbench.focus,
      view: workbench.view,
      onRead: (/** @type {string} */ text) => say("reading", text),
      ...(makePlate ? { makePlate } : {}),
    });
    this.single = new PlateSet(byId("plates"), options);
    workbench.plateSet = this.single;
    /**
     * @param {string[]} labels
     * @param {Wish} choice
     */
    const ask = (labels, choice) =>
      workbench.ask({ targets: { target: labels, ...choice }, listed: workbench.models.current?.name });
    this.classes = new Classes(byId("classes"), ask, many);
    this.answerChange = new AnswerChange(workbench, byId("why"));
    this.compare = new Compare(this.classes.box, workbench, { single: this.single, options, baseOf });
    this.samples = new Samples(byId("samples"), page.openSample);
  }

  /** Offer the samples that suit the model on show. */
  offerSamples() {
    const samples = this.workbench.samples.filter((sample) => this.#suits(sample));
    this.samples.show(samples);
    byId("samples").hidden = !samples.length && this.workbench.samples.length > 0; // where there are none, nothing moves
  }

  /**
   * Explain another input for these classes; null: for the model's own top class. `suits` is the name of the model that
   * it was made for, if there is one.
   * @param {Input} input
   * @param {string[] | null} labels
   * @param {string | null} [suits]
   * @returns {Promise<void>}
   */
  explain(input, labels, suits = null) {
    const { workbench } = this;
    return workbench.ask(
      {
        input,
        model: workbench.models.fitting(suits, workbench.question.model) ?? undefined,
        targets: { target: labels },
      },
      byId("input-problem"),
    );
  }

  /**
   * Ask a model about the part of an input that it reads, and say what was left out.
   * @param {{input: Input, says: Partial<ProblemFields>}} part
   * @param {string} model
   */
  async #askPart({ input, says }, model) {
    await this.workbench.ask({ input, model });
    if (this.workbench.taken?.input === input) showProblem(byId("results-problem"), says);
  }

  /**
   * Show the place of the output that is asked about, and the other places: of models with a task.
   * @param {Started} info
   */
  async #showPlaces(info) {
    if (info.place && !this.places) {
      const [{ PlaceChoice }] = await Promise.all([import("./placechoice.js"), addStyleSheet("workbench/places.css")]);
      this.places ??= new PlaceChoice(byId("classes"), this.workbench);
    }
    this.places?.show(info);
  }

  /** Load the plates of several classes, which a page of one class does without. */
  async #loadVersus() {
    const [{ Versus }] = await Promise.all([import("../plates/versus.js"), addStyleSheet("workbench/wordrows.css")]);
    this.versus ??= new Versus(byId("plates"), {
      ...this.options,
      same: "This method gives the same map for every class.",
    });
  }

  /**
   * Choose the plates for an explanation of these {targets, input}.
   * @param {Pick<Started, "targets" | "input">} info
   */
  #plateSetFor({ targets = [], input }) {
    const { versus } = this;
    if (targets.length < 2 || !versus) return this.compare.isOn ? this.compare.plateSet : this.single;
    versus.content = input?.kind === "text" ? input.tokens.map((token) => !token.special) : null;
    versus.read = targets[0].read ?? "logit";
    versus.setTargets(targets, targets.map(targetLine));
    return versus;
  }
}
