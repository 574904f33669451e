// The stored explanation that an address names: found, or what to do in its place; and the question that it answered.

import { explanationPath, getJSON } from "../core/api.js";
import { byId, el } from "../core/dom.js";
import { showProblem } from "../core/problems.js";
import { classOf } from "../core/targets.js";
import { Input } from "../inputs/input.js";
import { isExample, keyOf } from "./tabmemory.js";

/**
 * @import { Explanation, Wish } from "../core/types.js"
 * @import { Models } from "../plates/types.js"
 */

const link = (href, text) => el("a", { href }, text);

/**
 * The explanation of this id; null, with what to do said on the page, where it is gone or belongs on the page of
 * another `kind`. Rejects with the Problem where the server cannot tell.
 * @param {string} id
 * @param {string} kind "image", "clip" or "text"
 * @param {Models} models
 * @returns {Promise<Explanation | null>}
 */
export async function findStored(id, kind, models) {
  const fresh = link(location.pathname, "Start anew on this page");
  try {
    const stored = await getJSON(explanationPath(id));
    const page = models.pageOf(stored);
    if (page.kind === kind) return stored;
    const detail = `The explanation ${stored.id} belongs on the ${page.name} page: its model is ${stored.model}.`;
    showProblem(
      byId("results-problem"),
      { title: "Not an explanation for this page", detail },
      link(`${page.path}?id=${encodeURIComponent(stored.id)}`, `Open it on the ${page.name} page`),
      fresh,
    );
  } catch (problem) {
    if (problem.status !== 404) throw problem;
    const detail = "It was deleted, or it was among the oldest when the server made room, or the link is not whole.";
    showProblem(
      byId("results-problem"),
      { title: "This explanation is not here", detail },
      fresh,
      link("/history", "See which ones are here"),
    );
  }
  return null;
}

/**
 * The parts of the question that a stored explanation answered, but for the model and whose tokens get the scores: a
 * picture that was only ever the example of a page is not the person's own.
 * @param {Explanation} stored
 * @param {string} kind
 * @returns {{input: Input, targets: Wish, methods: string[]}}
 */
export function questionOf(stored, kind) {
  const [first] = stored.targets ?? [];
  const field = kind === "clip" ? "prompt" : "target";
  return {
    input: new Input({ source: stored.id, isOwn: !isExample(keyOf(stored.input, stored.id)) }),
    targets: { [field]: stored.targets?.map(classOf) ?? null, against: first?.against, read: first?.read },
    methods: stored.methods ?? [],
  };
}
