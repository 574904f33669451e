// Words of the field in what pages say. Each is a button that explains it; the explanations are fetched when the first
// is pressed.

import { el } from "../core/dom.js";

const WORDS = [
  "found",
  "cosine",
  "best patches",
  "among the prompts",
  "share",
  "logit difference",
  "logit",
  "Libra",
  "AttnLRP",
  "random baseline",
  "rank correlation",
  "r(?=\u00a0=)",
];
const TERMS = new RegExp(`\\b(${WORDS.join("|")})\\b`);
const CLOSING = /^[.,:;)]/; // it stays on the line of the word before it
const OPENING = /\($/; // and this on that of the word after it
const MARGIN = 8; // pixels between a note and the edge of the window
/** @type {HTMLElement | undefined} */
let note;

/**
 * Show the note that explains a word, next to the button that asked for it. A press elsewhere and Escape close it.
 * @param {HTMLElement} button
 * @param {string} word
 */
async function explain(button, word) {
  const { GLOSSARY } = await import("./glossary.js");
  if (!note) {
    note = el("p", { class: "term-note", role: "status", popover: "auto" });
    document.body.append(note);
  }
  note.hidePopover();
  note.replaceChildren(el("b", {}, word), `: ${GLOSSARY[word]}`);
  note.showPopover();
  const { left, bottom, top } = button.getBoundingClientRect();
  const { width, height } = note.getBoundingClientRect();
  note.style.left = `${Math.max(MARGIN, Math.min(left, innerWidth - width - MARGIN))}px`;
  note.style.top = `${bottom + MARGIN + height > innerHeight ? top - MARGIN - height : bottom + MARGIN}px`;
}

/**
 * Make a button of a word of the glossary; `shown` is its text where it is named otherwise.
 * @param {string} word
 * @param {string} [shown]
 * @returns {HTMLButtonElement}
 */
export function term(word, shown = word) {
  const name = shown === word ? {} : { "aria-label": `What is meant by ${word}` };
  return el(
    "button",
    {
      type: "button",
      class: "term",
      title: "What is this?",
      ...name,
      on: { click: ({ currentTarget }) => explain(currentTarget, word) },
    },
    shown,
  );
}

/**
 * A text with its words of the glossary as buttons, as a list of nodes and strings.
 * @param {string} text
 * @returns {(string | Node)[]}
 */
export const withTerms = (text) => {
  const parts = text.split(TERMS);
  return parts
    .map((part, i) => {
      const isLast = i === parts.length - 1;
      if (i % 2 === 0) return (i ? part.replace(CLOSING, "") : part).replace(isLast ? "" : OPENING, "");
      const [opening = ""] = OPENING.exec(parts[i - 1]) ?? [];
      const [closing = ""] = CLOSING.exec(parts[i + 1]) ?? [];
      return opening || closing ? el("span", { class: "nb" }, opening, term(part), closing) : term(part);
    })
    .filter(Boolean);
};
