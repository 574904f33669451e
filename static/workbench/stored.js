// The stored explanation that an address names: found, or what to do in its place.

import { explanationPath, getJSON } from "../core/api.js";
import { byId, el } from "../core/dom.js";
import { showProblem } from "../core/problems.js";

/**
 * @import { Explanation } from "../core/types.js"
 * @import { PageModels } from "../plates/types.js"
 */

/**
 * @param {string} href
 * @param {string} text
 */
const link = (href, text) => el("a", { href }, text);

/**
 * The explanation of this id; null, with what to do said on the page, where it is gone or belongs on the page of
 * another `kind`. Rejects with the Problem where the server cannot tell.
 * @param {string} id
 * @param {string} kind "image", "clip" or "text"
 * @param {PageModels} models
 * @returns {Promise<Explanation | null>}
 */
export async function findStored(id, kind, models) {
  const fresh = link(location.pathname, "Start again on this page");
  try {
    const stored = await getJSON(explanationPath(id));
    const page = models.pageOf(stored);
    if (page.kind === kind) return stored;
    const detail = `Its model is ${stored.model}, so it opens on the ${page.name} page.`;
    showProblem(
      byId("results-problem"),
      { title: "This explanation belongs to another page", detail },
      link(`${page.path}?id=${encodeURIComponent(stored.id)}`, `Open it on the ${page.name} page`),
      fresh,
    );
  } catch (problem) {
    if (problem.status !== 404) throw problem;
    const detail = "It was deleted, the server removed it to make room, or the link is incomplete.";
    showProblem(
      byId("results-problem"),
      { title: "This explanation does not exist here", detail },
      fresh,
      link("/history", "See which ones are here"),
    );
  }
  return null;
}
