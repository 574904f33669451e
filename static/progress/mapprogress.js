// The progress of an explanation: how many are there, how long the others take, and what is looked at first.

import { isLost, putFirst, stopExplanation } from "../core/api.js";
import { count } from "../core/dom.js";
import { isMethod } from "../core/registry.js";
import { about, LOST, now, SOON, WaitingLine } from "./waitingline.js";

/** @import { Variant } from "../core/types.js" */

const PAUSE = 150; // milliseconds of a page that stands still until it is asked for what is in view

/** The status of an explanation while it is made. */
export class MapProgress {
  /** @type {string | null} */
  #id = null;
  /** @type {string[]} */
  #specs = []; // that are made
  #arrived = new Set();
  /** @type {{[spec: string]: number}} */
  #costs = {};
  #began = 0; // with the map that is made now
  #since = 0; // with the first of all
  #inView = new Set(); // specs
  /** @type {string[]} */
  #order = []; // that the server knows
  /** @type {Variant[]} */
  variants = []; // the methods
  isStopping = false;
  #timer = 0;

  /**
   * `report(problem)` is called where stopping fails; `onAgain` where somebody wants the rest of what was stopped.
   * @param {(problem: unknown) => void} report
   * @param {() => void} onAgain
   */
  constructor(report, onAgain) {
    this.report = report;
    this.onAgain = onAgain;
    this.line = new WaitingLine();
    this.node = this.line.node;
    this.seen = new IntersectionObserver((entries) => this.#moved(entries));
  }

  /**
   * Start to show that the maps of explanation `id` come: those of `variants`, which take `costs` seconds, spec by
   * spec.
   * @param {string} id
   * @param {Variant[]} variants
   * @param {{[spec: string]: number}} [costs]
   */
  begin(id, variants, costs = {}) {
    this.#id = id;
    this.variants = variants;
    this.#specs = variants.map(({ spec }) => spec);
    this.#arrived = new Set();
    this.#costs = costs;
    this.#began = this.#since = now();
    this.#order = this.#specs;
    this.#wait();
    this.watch();
  }

  /** Watch which plates are in view, once they are there. */
  watch() {
    this.seen.disconnect();
    this.#inView.clear();
    for (const plate of document.querySelectorAll("#plates [data-spec]")) this.seen.observe(plate);
  }

  /**
   * Mark the maps of these methods as complete.
   * @param {string[]} specs
   */
  arrive(specs) {
    const fresh = specs.filter((spec) => !this.#arrived.has(spec));
    if (!fresh.length) return;
    for (const spec of fresh) this.#arrived.add(spec);
    this.#began = now();
    this.line.draw();
  }

  /** Show that the server is away. */
  lose() {
    this.line.begin(() => LOST);
  }

  /**
   * Show that an explanation waits: for its turn, as explanation `id`, or to be accepted, which `stop()` ends.
   * @param {string | null} id
   * @param {() => string} says
   * @param {() => void} [stop]
   */
  wait(id, says, stop) {
    if (id) this.#id = id;
    this.line.begin(says, "Stop", stop ?? (() => this.#stop()));
  }

  /** Show that the server is back. */
  regain() {
    if (this.#id) this.#wait();
    else this.line.end();
  }

  /** End the status: no more maps come; what is missing was stopped, or there is none. */
  end() {
    const wasStopped = this.isStopping && this.#arrived.size < this.#specs.length;
    const done = this.#done();
    this.#id = null;
    this.isStopping = false;
    this.seen.disconnect();
    if (!wasStopped) return this.line.end();
    this.#stopped(done.length, this.variants.filter(isMethod).length);
  }

  /**
   * Show that the explanation was stopped, and offer the methods that it lacks.
   * @param {number} left
   */
  offerRest(left) {
    const made = this.variants.filter(isMethod).length;
    this.#stopped(made, made + left);
  }

  /**
   * @param {number} made
   * @param {number} all
   */
  #stopped(made, all) {
    const text = `Stopped: ${made} of ${count(all, "method")}`;
    this.line.begin(
      () => text,
      "Go on",
      () => this.onAgain(),
    );
  }

  #wait() {
    this.line.begin(
      () => this.#says(),
      "Stop",
      () => this.#stop(),
    );
  }

  #done() {
    return this.variants.filter((variant) => isMethod(variant) && this.#arrived.has(variant.spec));
  }

  #says() {
    const left = this.#specs.filter((spec) => !this.#arrived.has(spec));
    if (!left.length) return "";
    const known = left.filter((spec) => spec in this.#costs);
    const elapsed = now() - this.#began;
    const expected = known.reduce((sum, spec) => sum + this.#costs[spec], 0);
    const seconds = expected - elapsed;
    const far = now() - this.#since;
    if (Math.max(far, far + seconds) < SOON) return "";
    const time = known.length && seconds > 0 ? `${about(seconds)} left` : `${Math.round(far)} s so far`;
    return `${this.#done().length} of ${count(this.variants.filter(isMethod).length, "method")} · ${time}`;
  }

  async #stop() {
    if (!this.#id) return;
    this.isStopping = true;
    this.line.begin(() => "Stopping after this step of the model");
    try {
      await stopExplanation(this.#id);
    } catch (problem) {
      this.isStopping = false;
      this.#wait();
      if (!isLost(problem)) this.report(problem);
    }
  }

  /** @param {IntersectionObserverEntry[]} entries */
  #moved(entries) {
    for (const { target, isIntersecting } of entries) {
      const spec = target.getAttribute("data-spec");
      if (isIntersecting) this.#inView.add(spec);
      else this.#inView.delete(spec);
    }
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#ask(), PAUSE);
  }

  /**
   * Ask the server to make what is in view and missing next, in the order of the page, and then the rest in that order.
   */
  async #ask() {
    const id = this.#id;
    const waiting = this.#specs.filter((spec) => !this.#arrived.has(spec));
    const order = [
      ...waiting.filter((spec) => this.#inView.has(spec)),
      ...waiting.filter((spec) => !this.#inView.has(spec)),
    ];
    const known = this.#order.filter((spec) => waiting.includes(spec));
    if (!id || order.every((spec, i) => spec === known[i])) return;
    this.#order = order;
    await putFirst(id, order).catch(() => {}); // it comes all the same, later
  }
}
