// What can be claimed of what one map puts first: asked by a press on its plate, and shown under it.

import { explanationPath, getJSON } from "../core/api.js";
import { addStyleSheet, el, unbroken } from "../core/dom.js";
import { showProblem } from "../core/problems.js";
import { Waiting } from "../progress/waiting.js";
import { claimInWords } from "./claimsentence.js";
import { showWithout } from "./inputwithout.js";

/**
 * @import { Explanation, MapClaim } from "../core/schemas.js"
 * @import { ScoreMap } from "../core/types.js"
 */

/**
 * The names of one part of an input and of several.
 * @param {Explanation["input"]} input
 * @returns {string[]}
 */
function namesOfParts(input) {
  if (input?.kind === "image") return ["patch", "patches"];
  return input && "molecule" in input && input.molecule ? ["atom", "atoms"] : ["word", "words"];
}

/**
 * Ask for the claim of a map of explanation `id`, and show it in `place`, until `signal` says that another map is there.
 * @param {{place: HTMLElement, id: string, map: ScoreMap, signal: AbortSignal}} wanted
 */
export async function showClaim({ place, id, map, signal }) {
  const asking = new Waiting("at least");
  const problem = el("div");
  const sheet = addStyleSheet("tools/inputwithout.css");
  place.replaceChildren(asking.node, problem);
  try {
    /** @type {[MapClaim, Explanation, unknown]} */
    const [found, { input }] = await Promise.all([
      asking.ask(`${explanationPath(id)}/claim`, { method: map.method, target: map.target }, signal),
      getJSON(explanationPath(id)),
      sheet,
    ]);
    if (signal.aborted) return;
    const { says, more, whole } = claimInWords(found, namesOfParts(input));
    const shown = el("div", { class: "changed" });
    place.replaceChildren(
      el("p", { class: "says", role: "status" }, ...unbroken(says)),
      found.holds ? shown : "",
      el("p", {}, ...unbroken([more, ...found.notes].join(" "))),
      whole ? el("details", {}, el("summary", {}, "The whole claim"), el("p", {}, whole)) : "",
    );
    place.dataset.parts = String(found.hidden.length);
    const hidden = new Set(found.hidden.flat());
    if (input && found.holds) await showWithout(shown, { id, input, grid: map.grid ?? [1, 1], hidden });
  } catch (error) {
    if (error.name !== "AbortError") showProblem(problem, error);
  }
}
