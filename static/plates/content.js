// Which scores of a map stand for patches or words, and what a word has of them.

/**
 * @import { TextInput } from "../core/schemas.js"
 * @import { Answer } from "../core/types.js"
 */

/**
 * The text that the model read for `target`, with its {tokens, words}: the text, or the prompt; null for a picture.
 * @param {{info: Answer}} subject
 * @param {string} target
 * @returns {TextInput | null}
 */
export function readFor({ info }, target) {
  const read = info.prompts?.find((input) => input.prompt === target) ?? info.input;
  return read.kind === "text" ? read : null;
}

/** @param {Pick<TextInput, "tokens" | "words">} read */
const isCutInto = ({ tokens, words }) =>
  tokens.filter(({ special }) => !special).length === words.length ? "words" : "word pieces";

/**
 * The noun for the parts of an input that have scores and are removed; every count of them on a page has it. Of a text
 * these are words where the model cuts none.
 * @param {Pick<Answer, "input" | "prompts">} info
 * @returns {string}
 */
export function partsNoun({ input, prompts }) {
  if (prompts) return prompts.every((prompt) => isCutInto(prompt) === "words") ? "words" : "word pieces";
  if (input.kind !== "text") return "patches";
  return input.molecule ? "atoms" : isCutInto(input);
}

/**
 * The scores of patches, or of those pieces of a text that are words.
 * @param {number[]} scores
 * @param {TextInput | null} read
 * @returns {number[]}
 */
export const contentOf = (scores, read) => (read ? scores.filter((_, i) => !read.tokens[i].special) : scores);

/**
 * A unit's score: the sum of its pieces where scores are signed, else the largest of them.
 * @param {number[]} scores
 * @param {{tokens: number[]}} options
 * @param {boolean} signed
 * @returns {number}
 */
export const unitScore = (scores, { tokens }, signed) =>
  signed
    ? tokens.reduce((sum, i) => sum + scores[i], 0)
    : tokens.reduce((best, i) => Math.max(best, scores[i]), -Infinity);
