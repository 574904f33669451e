// What the server tells of a model: its methods with every rule, and its card with its classes.

import { getJSON, methodsPath, modelPath } from "../core/api.js";
import { Registry } from "../core/registry.js";

/** @import { ModelDetail } from "../core/schemas.js" */

/**
 * Fetch what the server tells of a model.
 * @param {string} name
 * @param {string} [side] whose tokens get the scores, "image" or "text"
 * @returns {Promise<{registry: Registry, detail: ModelDetail}>}
 */
export async function fetchModelInfo(name, side) {
  const [listed, detail] = await Promise.all([getJSON(methodsPath(name, side)), getJSON(modelPath(name))]);
  return { registry: new Registry(listed), detail };
}
