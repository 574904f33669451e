// A row opens the workbench: its input is explained by the same model and methods, as if it had been dropped there.

import { createExplanation, getBlob } from "../core/api.js";
import { remember } from "../core/historylist.js";

/** @import { CollectionAbout, CollectionRow } from "../core/schemas.js" */

const MOST_PROMPTS = 4;

/**
 * Ask for the explanation of a row; resolves to the address of the workbench that shows it. Rejects with the Problem.
 * @param {CollectionAbout} about
 * @param {CollectionRow} row
 * @returns {Promise<string>}
 */
export async function openRow({ entry, model, methods, page }, row) {
  const prompts = [...new Set([row.answer, row.runner_up, ...row.labels])].filter((prompt) => prompt !== null);
  const input =
    entry.kind === "image"
      ? { image: await getBlob(`/api/collections/${encodeURIComponent(entry.id)}/inputs/${row.index}`) }
      : { text: row.text, text_pair: row.text_pair };
  const asked = page === "/prompt" ? { prompt: prompts.slice(0, MOST_PROMPTS) } : {};
  const { id } = await createExplanation({ model, ...input, ...asked, methods });
  remember(id);
  return `${page}?id=${encodeURIComponent(id)}`;
}
