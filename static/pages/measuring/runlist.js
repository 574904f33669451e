// On the Leaderboard page: the runs that were begun here, each with how far it is and what can be done with it.

import { follow, send } from "../../core/api.js";
import { count, el } from "../../core/dom.js";
import { showProblem } from "../../core/problems.js";
import { ownName } from "../../core/targets.js";
import { duration } from "../figures/values.js";

/**
 * @import { CollectionRun, Run as MeasuredRun, SlicesRun } from "../../core/schemas.js"
 * @typedef {MeasuredRun | CollectionRun | SlicesRun} Run
 */

/** @param {number | null} seconds */
const left = (seconds) => (seconds === null ? "" : `, ${duration(seconds)} left`);

/**
 * A list's calls about runs (`path`), the button of one that is done ("": none), and in words what is counted, what was
 * done with it, and what is said where there was nothing to count.
 * @typedef {{path: string, look: string, did: string, unit: string, none?: string}} Ways
 */

/**
 * Say how far a run is.
 * @param {Pick<Run, "model" | "title" | "state" | "done" | "total" | "seconds_left">} run
 * @param {Pick<Ways, "did" | "unit" | "none">} ways
 * @returns {string}
 */
export function runInWords({ model, title, state, done, total, seconds_left: seconds }, { did, unit, none }) {
  const of = `${ownName(model)} on ${title}`;
  const far = total ? `${done} of ${count(total, unit)}` : "";
  if (state === "waiting") return `${of}: waiting for its turn${far && `, ${far}`}${left(seconds)}`;
  if (state === "running") return `${of}: ${far}${left(seconds)}`;
  if (state === "stopped") return `${of}: stopped${far && ` after ${far}`}`;
  if (state === "failed") return `${of}: failed${far && ` after ${far}`}`;
  return `${of}: ${total || !none ? `${count(total, unit)} ${did}` : none}`;
}

/** The list of runs. */
export class RunList {
  /**
   * `onDone(id)` is called once a run that was watched has ended whole or its figures are asked for, and with null where
   * one is gone.
   * @param {HTMLElement} place
   * @param {(id: string | null) => void} onDone
   * @param {Ways} [ways]
   */
  constructor(place, onDone, ways = { path: "/api/runs", look: "Show its figures", did: "measured", unit: "input" }) {
    this.place = place;
    this.ways = ways;
    this.onDone = onDone;
    /** @type {Map<string, HTMLElement>} */
    this.items = new Map();
  }

  /**
   * @param {Run[]} runs the last first
   */
  show(runs) {
    for (const run of [...runs].reverse()) this.add(run);
  }

  /**
   * Show a run at the top, and watch it while it goes on.
   * @param {Run} run
   */
  add(run) {
    const item = this.items.get(run.id) ?? el("li", { "data-run": run.id });
    this.items.set(run.id, item);
    this.place.prepend(item);
    this.#draw(run, item);
    if (run.state !== "waiting" && run.state !== "running") return;
    const ended = (/** @type {Run} */ last) => {
      this.#draw(last, item);
      if (last.state === "done" && item.isConnected) this.onDone(last.id);
    };
    const progress = (/** @type {Run} */ now) => this.#draw(now, item);
    follow(this.#path(run, "/events"), { progress, ended }, ["ended"], (problem) => showProblem(item, problem));
  }

  /**
   * @param {Run} run
   * @param {string} rest
   */
  #path(run, rest = "") {
    return `${this.ways.path}/${encodeURIComponent(run.id)}${rest}`;
  }

  /**
   * @param {Run} run
   * @param {HTMLElement} item
   */
  #draw(run, item) {
    const goesOn = run.state === "waiting" || run.state === "running";
    if (!(goesOn && item.dataset.goesOn)) this.#build(run, item, goesOn);
    const text = runInWords(run, this.ways);
    const line = /** @type {HTMLElement} */ (item.querySelector("p"));
    if (line.textContent !== text) line.textContent = text;
    const bar = item.querySelector("progress");
    if (!bar) return;
    if (run.total) Object.assign(bar, { max: run.total, value: run.done });
    else bar.removeAttribute("value");
  }

  /**
   * @param {Run} run
   * @param {HTMLElement} item
   * @param {boolean} goesOn
   */
  #build(run, item, goesOn) {
    if (goesOn) item.dataset.goesOn = "1";
    else delete item.dataset.goesOn;
    const wrong = el("div", { class: "wrong" });
    /**
     * @param {string} text
     * @param {() => Promise<void> | void} act
     */
    const button = (text, act) => {
      const click = async () => {
        made.disabled = true;
        try {
          await act();
        } catch (problem) {
          if (!problem.isOf?.("run-over")) showProblem(wrong, problem); // else it has ended meanwhile
        }
        made.disabled = false;
      };
      const made = el("button", { type: "button", class: "act plain", on: { click } }, text);
      return made;
    };
    const goOn = async () => this.add(await (await send(this.#path(run, "/again"), "POST")).json());
    const remove = async () => {
      await send(this.#path(run), "DELETE");
      this.items.delete(run.id);
      item.remove();
      if (run.state === "done") this.onDone(null);
    };
    const stop = async () => void (await send(this.#path(run, "/stop"), "POST"));
    const bar = goesOn ? [el("progress", { "aria-label": "Inputs measured" })] : [];
    const acts = goesOn
      ? [button("Stop", stop)]
      : [
          ...(run.state !== "done" ? [button("Go on", goOn)] : []),
          ...(run.state === "done" && this.ways.look ? [button(this.ways.look, () => this.onDone(run.id))] : []),
          button("Delete", remove),
        ];
    item.replaceChildren(el("p", { role: "status" }), ...bar, ...acts, wrong);
    if (run.problem) showProblem(wrong, run.problem);
  }
}
