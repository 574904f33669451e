// What a figure and its file are called.

import { explanationPath, getJSON } from "../core/api.js";
import { count } from "../core/dom.js";
import { askingLine, ownName, spokenAll, targetInWords } from "../core/targets.js";

/** @import { Explanation } from "../core/types.js" */

const LONGEST_PART = 60; // characters
const MOST_NAMED = 3; // methods in the name of a file

/**
 * The title of a figure: which model, what was asked, and about what. Of explanations by several models that do not
 * answer alike, that their maps are evidence for the same class.
 * @param {Pick<Explanation, "model" | "targets" | "top" | "abstention" | "output" | "place" | "prompts">[]} explanations
 * @returns {string}
 */
export function titleOf(explanations) {
  const models = [...new Set(explanations.map(({ model }) => ownName(model)))];
  const names = [...new Set(explanations.flatMap(({ targets }) => targets.map(targetInWords)))];
  const asked = new Set(
    explanations.map((explanation) =>
      askingLine(
        explanation,
        explanation.targets[0].prompt !== undefined,
        models.length > 1 ? "them" : "it",
        // else a model that tells nothing may have answered
        explanation.targets.some(({ abstention }) => Boolean(abstention)),
      ),
    ),
  );
  const question = asked.size > 1 ? "What speaks for" : [...asked][0];
  const [{ place, output }] = explanations;
  const where = place && output !== "regression" ? ` of “${place.label}”` : "";
  return `${models.join(" and ")}: ${question[0].toLowerCase()}${question.slice(1)} “${names.join("”, “")}”${where}`;
}

/**
 * The name of a file, without its ending: "vitrine-…", of these parts. Letters, digits and the signs "=.!+" stay, so
 * that "a cat!" and "FullGrad+" are not taken for others; vitrine_server/export/file_names.py does the same.
 * @param {...string} parts
 * @returns {string}
 */
export const stem = (...parts) =>
  ["vitrine", ...parts]
    .map((part) => {
      const plain = part
        .toLowerCase()
        .replace(/[^\p{L}\p{N}=.!+]+/gu, "-")
        .replace(/^-|-$/g, "");
      return [...plain].slice(0, LONGEST_PART).join("").replace(/-$/, "");
    })
    .filter(Boolean)
    .join("-");

/**
 * The name of a file about explanations of one question, without its ending: the models, what is explained, and these
 * parts.
 * @param {Pick<Explanation, "model" | "targets">[]} explanations
 * @param {...string} parts
 * @returns {string}
 */
export const nameOf = (explanations, ...parts) =>
  stem(...new Set(explanations.map(({ model }) => ownName(model))), spokenAll(explanations[0].targets), ...parts);

/**
 * Resolves to the name of a file about the explanation `id`, without its ending.
 * @param {string} id
 * @param {...string} parts
 * @returns {Promise<string>}
 */
export const nameFor = async (id, ...parts) => nameOf([await getJSON(explanationPath(id))], ...parts);

/**
 * The methods of a figure as part of the name of its file; of many, how many they are.
 * @param {string[]} titles
 * @returns {string}
 */
export function methodsInName(titles) {
  const all = [...new Set(titles)];
  return all.length > MOST_NAMED ? count(all.length, "method") : all.join(" ");
}
