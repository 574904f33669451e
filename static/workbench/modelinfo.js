// What the server tells of a model: its methods with every rule, and its card with its classes.

import { getJSON, methodsPath, modelPath } from "../core/api.js";
import { most } from "../core/limits.js";
import { learnSpecs, Registry } from "../core/registry.js";

/** @import { Methods, ModelDetail } from "../core/schemas.js" */

/**
 * Fetch the server's information on a model, and the parts of `specs` that it does not list.
 * @param {string} name
 * @param {string} [side] whose tokens get the scores, "image" or "text"
 * @param {string[]} [specs]
 * @returns {Promise<{registry: Registry, detail: ModelDetail}>}
 */
export async function fetchModelInfo(name, side, specs = []) {
  /** @type {[Methods, ModelDetail]} */
  const [listed, detail] = await Promise.all([getJSON(methodsPath(name, side)), getJSON(modelPath(name))]);
  const registry = new Registry(listed);
  const unknown = specs
    .filter((spec) => !registry.pairOf(spec) && spec.length <= most("name"))
    .slice(0, most("methods"));
  if (unknown.length) {
    const query = new URLSearchParams(unknown.map((spec) => ["spec", spec]));
    learnSpecs((await getJSON(`/api/methods?${query}`)).specs);
  }
  return { registry, detail };
}
