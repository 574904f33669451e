// The words that the answers to a collection of texts rest on: a sentence on the first one, and a table of them.

import { getJSON } from "../core/api.js";
import { byId, count, el, percent } from "../core/dom.js";

/** @import { CollectionAbout, ReliedWord, ReliedWords } from "../core/schemas.js" */

/**
 * Say what stands first, with what its removal did where that was tried.
 * @param {ReliedWord} first
 * @param {number} texts
 * @returns {string}
 */
export function firstInWords({ word, marked, texts: of, answer, answered, removed, changed }, texts) {
  const where = of === 1 ? "in the only one that contains it" : `in ${marked} of the ${of} that contain it`;
  const towards = `, ${of === 1 ? "" : answered === marked ? "each time " : "mostly "}for “${answer}”`;
  const without = removed
    ? ` Removed alone from ${count(removed, "text")}, it changed the answer ${changed ? `in ${changed}` : "in none"}.`
    : "";
  return `Over these ${count(texts, "text")} the model relies most on “${word}”: it is among the most marked words ${where}${towards}.${without}`;
}

/**
 * Show the words of a collection of texts; nothing of pictures and molecules.
 * @param {CollectionAbout} about
 * @param {string} path of the calls about the collection
 * @param {(word: string) => void} onPress
 * @returns {Promise<void>}
 */
export async function showReliedWords({ entry, method_titles: titles }, path, onPress) {
  byId("relied").hidden = true;
  if (entry.kind !== "text") return;
  /** @type {ReliedWords} */
  const { texts, words } = await getJSON(`${path}/words`);
  if (!words.length) return;
  const row = (/** @type {ReliedWord} */ each) =>
    el(
      "tr",
      {},
      el(
        "th",
        { scope: "row" },
        el(
          "button",
          { type: "button", class: "link", title: "Show the texts with it", on: { click: () => onPress(each.word) } },
          each.word,
        ),
      ),
      el("td", {}, each.answer),
      [
        `${each.marked} of ${each.texts}`,
        percent(each.share),
        percent(each.even),
        each.removed ? `${each.changed} of ${each.removed}` : "–",
      ].map((text) => el("td", { class: "num" }, text)),
    );
  const heads = [
    ["word", ""],
    ["answer", "The most frequent answer where it is marked"],
    ["marked", "In how many of the texts with it, it is among the tenth of the words that the map marks most"],
    ["evidence", "The mean share of the evidence that it holds in the texts with it"],
    ["if even", "The share that it would hold if all words held the same"],
    ["changes the answer", "Of the texts from which it alone was removed, in how many the answer changed"],
  ];
  byId("relied-says").textContent = firstInWords(words[0], texts);
  byId("relied-by").textContent =
    `By the maps of ${titles[0]}. Words come first that hold more of the evidence than an even share, summed over the texts. Press a word to see its texts.`;
  byId("relied-table").replaceChildren(
    el(
      "table",
      {},
      el(
        "thead",
        {},
        el(
          "tr",
          {},
          heads.map(([text, title]) => el("th", { scope: "col", title }, text)),
        ),
      ),
      el("tbody", {}, words.map(row)),
    ),
  );
  byId("relied").hidden = false;
}
