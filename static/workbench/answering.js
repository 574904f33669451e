// The answer to the newest question as it comes: what the model says, map by map, and asking again where it stops.

import { byId, el, say, seconds } from "../core/dom.js";
import { remember } from "../core/historylist.js";
import { showProblem } from "../core/problems.js";
import { countMethods, isMethod } from "../core/registry.js";
import { MapProgress } from "../progress/mapprogress.js";
import { LOST } from "../progress/waitingline.js";
import { Job } from "./job.js";
import { questionOf } from "./storedquestion.js";
import { carry } from "./tabmemory.js";

/**
 * @import { Map, ProblemDocument } from "../core/schemas.js"
 * @import { Started } from "../core/types.js"
 * @import { TakenQuestion } from "./types.js"
 * @import { Workbench } from "./workbench.js"
 */

const WIDEST = 760; // pixels of a window in which all lies in one column: see workbench.css
const SEEN = 120; // pixels of the first map that are enough to see that it is there

/**
 * Scroll down to the answer that the person asked for, unless its first map is in sight or the person has scrolled
 * there.
 */
function scrollToAnswer() {
  if (innerWidth > WIDEST || scrollY > byId("question").offsetTop) return;
  const first = byId("plates").querySelector(".map-canvas, .reading")?.getBoundingClientRect().top ?? 0;
  if (first + SEEN > innerHeight) byId("question").scrollIntoView();
}

/** Follows the explanation that answers the page's question. */
export class Answering {
  #drawn = Promise.resolve(); // once the input of the explanation is on show

  /** @param {Workbench} workbench */
  constructor(workbench) {
    this.workbench = workbench;
    this.job = new Job({
      queued: ({ position }, question) => this.#queued(position, question),
      busy: async (seconds) => (await import("./busy.js")).sayBusy(this, seconds),
      started: (info, question) => this.#started(info, question),
      method: (map, question) => this.#method(map, question),
      done: ({ seconds: took }, question) => this.#done(took, question),
      failed: (problem, question) => this.#failed(problem, question),
      lost: (problem) => this.#showStopped(problem),
      away: () => {
        say("status", LOST);
        this.mapProgress.lose();
      },
      back: () => {
        say("status", "connected again");
        this.mapProgress.regain();
      },
      renewed: (question) => this.#followRenewed(question),
    });
    this.mapProgress = new MapProgress(
      (problem) => workbench.report(problem, byId("results-problem")),
      () => workbench.ask({}),
    );
  }

  /**
   * @param {number} position
   * @param {TakenQuestion} question
   */
  #queued(position, question) {
    say("status", position > 0 ? `waiting, ${position} before you` : "waiting");
    if (position > 0) this.mapProgress.wait(question.id, () => `Waiting: ${position} before yours`);
    else this.mapProgress.regain();
  }

  /**
   * @param {Started} info
   * @param {TakenQuestion} question
   */
  #started(info, question) {
    const { workbench } = this;
    const before = workbench.shown;
    const isNew =
      !before || before.input !== question.input || before.model !== question.model || before.side !== question.side;
    workbench.show(info, question);
    // what was asked of an address alone is known only now
    if (question.isAgain) question.targets = questionOf({ ...info, id: question.id }, workbench.kind).targets;
    if (isNew) workbench.plateSet.clear();
    if (isNew && before) workbench.focus.set({ at: -1, locked: false });
    workbench.subject.set({ id: question.id, model: question.model, info, done: false });
    const { sample } = question.input;
    const isOfSample = workbench.samples.some(({ id, model }) => id === sample && model === question.model);
    workbench.models.explain(isOfSample, question.modelInfo.detail.labels ?? []);
    if (workbench.kind === "image" || workbench.kind === "clip") carry(question.id, info, question.input.isOwn);
    workbench.write();
    workbench.headline.show(info);
    this.#drawn = Promise.resolve(workbench.page.started(info, question, isNew)).then(
      () => {},
      (problem) => workbench.report(problem, byId("results-problem")),
    );
    this.mapProgress.begin(question.id, workbench.plateSet.variants, info.costs);
    this.#progress();
    if (before || (question.input.isOwn && !workbench.isLink)) scrollToAnswer(); // a link opens at the picture
  }

  /**
   * @param {Map} map
   * @param {TakenQuestion} question
   */
  #method(map, question) {
    this.workbench.received.push(map);
    this.workbench.page.method(map, question);
    this.#progress();
  }

  #progress() {
    const { plateSet } = this.workbench;
    this.mapProgress.arrive(plateSet.shown.map(({ spec }) => spec));
    const [done, all] = [plateSet.shown, plateSet.variants].map((variants) => variants.filter(isMethod));
    say("status", all.length ? `${done.length} of ${countMethods(all)}` : "waiting for the random map");
  }

  /**
   * @param {number | undefined} took seconds
   * @param {TakenQuestion} question
   */
  #done(took, question) {
    const { workbench } = this;
    this.mapProgress.end();
    const { left = [] } = workbench.subject.value.info ?? {};
    if (left.length) this.mapProgress.offerRest(left.length); // a link to what was stopped
    workbench.plateSet.close();
    workbench.headline.sumUp(true);
    this.#drawn.then(() => question === workbench.shown && workbench.subject.set({ done: true }));
    say("status", `${countMethods(workbench.plateSet.shown)}${took === undefined ? "" : ` in ${seconds(took)}`}`);
  }

  /**
   * @param {ProblemDocument} problem
   * @param {TakenQuestion} question
   */
  #failed(problem, question) {
    const { workbench } = this;
    workbench.pend(false);
    const isStored = question === workbench.taken && !workbench.shown; // the address goes on to name it
    if (question !== workbench.shown) {
      workbench.revert();
      if (!isStored) workbench.write();
    }
    this.#showStopped(problem, question);
  }

  /**
   * Show that the explanation will not go on by itself; `question`, if it can be asked again as it was.
   * @param {ProblemDocument} problem
   * @param {TakenQuestion | null} [question]
   */
  #showStopped(problem, question = null) {
    this.mapProgress.end();
    this.workbench.plateSet.close();
    say("status", "stopped");
    const again = question && !(problem.status >= 400 && problem.status < 500) ? [this.#againButton(question)] : [];
    showProblem(byId("results-problem"), problem, ...again);
  }

  /**
   * Make a button that asks exactly what was asked: the same input, targets, methods and options.
   * @param {TakenQuestion} question
   */
  #againButton(question) {
    const again = async () => {
      button.disabled = true;
      try {
        this.workbench.question = question;
        say("status", "asked");
        if (await this.job.again(question)) this.#followRenewed(question);
      } catch (problem) {
        if (problem.name !== "AbortError") this.workbench.report(problem, byId("results-problem"));
      }
    };
    const button = el("button", { type: "button", class: "act plain again", on: { click: again } }, "Ask again");
    return button;
  }

  /**
   * Follow a question that the server makes again: it has another id.
   * @param {TakenQuestion} question
   */
  #followRenewed(question) {
    this.workbench.question = this.workbench.taken = question;
    question.input.source = question.id;
    question.isAgain = true;
    remember(question.id);
    showProblem(byId("results-problem"), null);
    say("status", "asked");
    this.mapProgress.regain();
    this.workbench.write();
  }
}
