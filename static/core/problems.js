// Problems as people see them: what was wrong and what to do, where they are looking.

import { Problem } from "./api.js";
import { el } from "./dom.js";
import { inPageWords } from "./pagewords.js";

/** @import { ProblemFields } from "./types.js" */

/**
 * Show a problem inside `place`, with what can be done about it, until it is dismissed or cleared; null clears it.
 * @param {Element} place
 * @param {Partial<ProblemFields> | null} problem
 * @param {...Node} actions
 */
export function showProblem(place, problem, ...actions) {
  place.replaceChildren();
  if (!problem) return;
  const close = el(
    "button",
    { type: "button", "aria-label": "Dismiss", on: { click: () => place.replaceChildren() } },
    "×",
  );
  const title = problem.title || "Something went wrong";
  const parts = inPageWords([problem.detail, problem.send && sentence(problem.send)].filter(Boolean).join(" "));
  const todo = actions.length ? el("span", { class: "todo" }, actions) : null;
  place.append(el("div", { class: "problem", role: "alert" }, el("strong", {}, title), parts, todo, close));
}

/** @param {string} text */
function sentence(text) {
  const start = text[0].toUpperCase() + text.slice(1);
  return /[.!?]$/.test(start) ? start : `${start}.`;
}

/**
 * Show what went wrong inside `place`: what is no Problem of the API is a fault of the page.
 * @param {unknown} problem
 * @param {Element} place
 */
export function reportProblem(problem, place) {
  if (problem instanceof DOMException && problem.name === "AbortError") return; // nobody waits for it
  if (!(problem instanceof Problem)) console.error(problem);
  showProblem(
    place,
    problem instanceof Problem ? problem : { title: "This page failed", detail: String(problem), send: "Reload it" },
  );
}
