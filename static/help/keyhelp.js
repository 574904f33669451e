// Help on every page: the keys, the pages of many inputs, and the way to the guided visit. `?` or the button in the head
// opens it.

import { byId, el, pathOf } from "../core/dom.js";

/**
 * Every key that a page listens to, by where it works.
 * @type {[string, [string[], string][]][]}
 */
export const KEYS = [
  [
    "Anywhere",
    [
      [["?"], "this help"],
      [["Tab"], "to the next control, Shift + Tab back"],
      [["Esc"], "close what is open"],
    ],
  ],
  [
    "On a map",
    [
      [["←", "→", "↑", "↓"], "walk from patch to patch; every plate shows the same one"],
      [["Home"], "to the strongest patch"],
      [["Enter"], "show the plate at full size"],
      [["Esc"], "let go"],
    ],
  ],
  [
    "On a plate at full size",
    [
      [["Page Up", "Page Down"], "to the plate before, to the next"],
      [["Esc"], "close it; what is held stays held"],
    ],
  ],
  ["Where two maps lie on each other", [[["Space"], "show the other map"]]],
  [
    "Where patches are hidden with a brush",
    [
      [["←", "→", "↑", "↓"], "walk from patch to patch"],
      [["Space"], "hide the patch, or bring it back"],
      [["Ctrl", "Z"], "undo"],
    ],
  ],
  [
    "On a coloured text",
    [
      [["←", "→"], "to the word before, to the next"],
      [["↑", "↓"], "to the next stronger, to the next weaker"],
      [["Home"], "to the strongest word"],
      [["Esc"], "let go"],
    ],
  ],
  [
    "On a slider",
    [
      [["←", "→"], "a little less, a little more"],
      [["Home", "End"], "to its two ends"],
    ],
  ],
  [
    "Where words are removed",
    [
      [["Enter"], "remove the word, or put it back"],
      [["←", "→"], "to the word before, to the next"],
    ],
  ],
  [
    "In a list of classes",
    [
      [["↑", "↓"], "to another match"],
      [["Enter"], "take it"],
      [["Esc"], "close the list"],
    ],
  ],
  ["While writing", [[["Ctrl", "Enter"], "explain this review"]]],
];

/**
 * The gestures of a finger, for those who have no keys.
 * @type {[string, string][]}
 */
const TOUCHES = [
  ["Tap a patch or a word", "every plate shows its value; tap it again to let go"],
  ["Tap the two arrows under a map", "show the plate at full size"],
  ["Tap a class", "explain it; tick the boxes next to classes to see several side by side"],
  ["Drag the slider above the maps", "remove what each map calls most relevant, and see the answer change"],
];

/**
 * Pages of many inputs: the name of each and what can be done there.
 * @type {[string, string][]}
 */
const TABLES = [
  [
    "On Collection",
    "many inputs in one table: press a row to open its input. In the table of answers by labels press a number, in the map of inputs draw a box, to see the rows behind it",
  ],
  [
    "On the slices of a collection",
    "what many wrong or doubtful rows have in common, each with its test; “What rows have in common” on Collection leads there",
  ],
];

/**
 * What each page is for, by the beginning of its path; the first page has the empty one.
 * @type {[string, string][]}
 */
export const PURPOSES = [
  ["/image", "See which parts of a picture made a model answer as it did, by several methods side by side."],
  ["/prompt", "See where a model finds what you write in a picture, and what it does not find."],
  ["/text", "See which words made a model answer as it did, and what it says without them."],
  ["/molecule", "See which atoms of a molecule made a model answer as it did."],
  ["/collection", "Ask about many pictures or texts at once. The rows most worth a look come first."],
  ["/history", "Find again what was explained in this browser, and compare two explanations."],
  ["/methods", "See what each method computes, and how it did in tests."],
  ["/models", "See which models answer here, what each can do, and load others."],
  ["/your-model", "Open a model that you trained. It is checked before it answers."],
  ["/leaderboard", "See which methods passed which tests, and how sure that is."],
  ["", "Give a picture, a prompt or a sentence. A model answers, and maps show what made it answer."],
];

const SEEN = "vitrine-visit"; // in localStorage once the guided visit was offered
const onWorkbench = pathOf(location) === "/image";
const VISIT = "Guided visit in five steps";
/** @type {HTMLDialogElement | undefined} */
let dialog;

/** @param {[string[], string]} item */
function row([keys, does]) {
  const shown = keys.flatMap((key, i) => [i ? " " : null, el("kbd", {}, key)]);
  return el("div", {}, el("dt", {}, shown), el("dd", {}, does));
}

function make() {
  const close = el("button", { type: "button", class: "act plain", on: { click: () => dialog?.close() } }, "Close");
  const visit = onWorkbench
    ? el(
        "button",
        {
          type: "button",
          class: "act",
          on: {
            click: () => {
              dialog?.close();
              tour();
            },
          },
        },
        VISIT,
      )
    : el("a", { class: "act", href: "/image#visit" }, "Guided visit of the page Image");
  const groups = KEYS.map(([where, rows]) =>
    el("section", { class: "keyboard" }, el("h3", {}, where), el("dl", {}, rows.map(row))),
  );
  const touches = TOUCHES.map(([what, does]) =>
    el("section", { class: "finger" }, el("h3", {}, what), el("p", {}, does)),
  );
  const tables = TABLES.map(([where, does]) => el("section", {}, el("h3", {}, where), el("p", {}, does)));
  return el(
    "dialog",
    { class: "help", "aria-labelledby": "help-title" },
    el(
      "h2",
      {
        id: "help-title",
        tabIndex: -1,
        autofocus: true /* else it would open at its first button, which is its end */,
      },
      "Help",
    ),
    el("p", { class: "purpose" }, PURPOSES.find(([path]) => pathOf(location).startsWith(path))?.[1]),
    el("div", { class: "finish" }, visit),
    el("div", { class: "groups" }, groups, touches, tables),
    el("div", { class: "finish" }, close, el("a", { href: "/methods" }, "What each method computes")),
  );
}

function open() {
  if (!dialog) {
    dialog = make();
    document.body.append(dialog);
  }
  if (!dialog.open) dialog.showModal();
}

async function tour() {
  const { start } = await import("./tour.js");
  start();
}

/** Return whether the visit was offered before; true where nothing can be stored, so that it never comes by itself. */
function offeredBefore() {
  try {
    const seen = localStorage.getItem(SEEN) !== null;
    localStorage.setItem(SEEN, "offered");
    return seen;
  } catch {
    return true;
  }
}

/** @param {EventTarget | null} node */
const writes = (node) =>
  node instanceof Element &&
  node.closest(
    "input:not([type=radio], [type=checkbox], [type=range], [type=file]), textarea, select, [contenteditable]",
  );

document.addEventListener("keydown", (event) => {
  if (event.key !== "?" || event.ctrlKey || event.metaKey || event.altKey || writes(event.target)) return;
  event.preventDefault();
  open();
});
byId("help").addEventListener("click", open);
if (onWorkbench) {
  if (location.hash === "#visit") tour();
  else if (!offeredBefore()) import("./tour.js").then(({ offer }) => offer());
}
