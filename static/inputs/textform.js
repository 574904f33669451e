// What the form of the Text page says of the text that the chosen model reads.

import { byId } from "../core/dom.js";

/** @import { Model } from "../core/schemas.js" */

/** @typedef {{label: string, placeholder: string, submit: string, rows?: number}} Wording */

/** The wording for texts that may be called a review: the embedded model knows nothing else. */
const REVIEW = { label: "The review to explain", placeholder: "Paste a movie review", submit: "Explain this review" };
const TEXT = { label: "The text to explain", placeholder: "Paste a text", submit: "Explain this text" };

/**
 * @param {Pick<Model, "details" | "embedded">} model
 * @returns {Wording}
 */
function wordingOf({ details, embedded }) {
  if (details?.picture_grid)
    return { ...TEXT, placeholder: "What is in this picture?", submit: "Ask about this picture" };
  if (!details?.texts) return embedded ? REVIEW : TEXT;
  const [first] = details.texts;
  return { label: `The ${first}`, placeholder: `Write a ${first}`, submit: "Explain the answer", rows: 2 };
}

/**
 * Return whether a model may read two texts together: one whose task has two, or a classifier that somebody brought, of
 * which nobody says whether it was trained on pairs.
 * @param {Pick<Model, "details" | "embedded">} model
 */
export const mayReadTwo = ({ details, embedded }) => Boolean(details?.texts) || (!embedded && !details?.task);

/**
 * Name the field of the text as the model calls it.
 * @param {Pick<Model, "details" | "embedded">} model
 */
export function nameText(model) {
  const { label, placeholder, submit, rows = 9 } = wordingOf(model);
  const named = byId("writing").querySelector("label[for=text]");
  named.textContent = label;
  named.classList.toggle("hidden", !model.details?.texts);
  Object.assign(byId("text"), { rows, placeholder });
  byId("writing").querySelector("[type=submit]").textContent = submit;
}
