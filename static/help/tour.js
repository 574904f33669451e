// The guided visit: five steps on the Image page itself. A card at the edge says what the outlined part is.

import { el } from "../core/dom.js";
import { loadWords } from "./language.js";

const { language, say } = await loadWords();

const HAS_FINGER = matchMedia("(pointer: coarse)").matches; // and seldom keys

/**
 * The steps of the visit: the key of its title, and the parts that it may point at, each with the key of its text; the
 * first that is there is shown.
 * @type {[string, string[][]][]}
 */
const STEPS = [
  ["input.title", [[".input-panel .display", "input.text"]]],
  [
    "plate.title",
    [
      [".plate:has(.ramp.signed)", "plate.signed"],
      [".plate", "plate.unsigned"],
    ],
  ],
  ["hold.title", [[".plate .map-canvas", HAS_FINGER ? "hold.finger" : "hold.text"]]],
  ["methods.title", [["#choose-methods", "methods.text"]]],
  ["test.title", [["#deletion-bar", "test.bar"]]],
];

/** @param {string} selector */
const textOf = (selector) => document.querySelector(selector)?.textContent?.trim() ?? "";

/**
 * What the sentences quote of the answer on the page: the class with its share, and the method that is spoken of.
 * @param {HTMLElement | null} plate that is spoken of
 */
function quoted(plate) {
  return {
    answer: textOf("#answer"),
    share: textOf("#classes [aria-pressed=true] .num"),
    method: plate?.querySelector("h2")?.textContent ?? "",
  };
}

/** @type {HTMLElement | null} */
let card = null;
/** @type {HTMLElement | null} */
let shown = null; // the part that is outlined

function leave() {
  shown?.classList.remove("visited");
  shown = null;
  card?.remove();
  card = null;
}

/**
 * @param {string} text
 * @param {() => void} run
 * @param {boolean} [plain]
 */
const button = (text, run, plain = true) =>
  el("button", { type: "button", class: plain ? "act plain" : "act", on: { click: run } }, text);

/**
 * Show a card, which takes the focus. It is the first thing that Tab reaches.
 * @param {string} title
 * @param {HTMLParagraphElement[]} parts
 * @param {(false | HTMLButtonElement)[]} buttons
 */
function put(title, parts, buttons) {
  card?.remove();
  card = el(
    "section",
    { class: "visit", lang: language, tabIndex: -1, "aria-labelledby": "visit-title visit-step" },
    el("h2", { id: "visit-title" }, title),
    parts,
    el("div", { class: "finish" }, buttons),
  );
  card.addEventListener("keydown", (event) => event.key === "Escape" && leave());
  document.querySelector(".skip")?.after(card);
  card.focus();
}

/** @param {number} i */
function step(i) {
  const [title, places] = STEPS[i];
  shown?.classList.remove("visited");
  const [selector, text] =
    places.find(([where]) => document.querySelector(where)?.checkVisibility()) ?? places[places.length - 1];
  shown = document.querySelector(selector);
  shown?.classList.add("visited");
  // to the top of the window: the card lies at its foot
  shown?.scrollIntoView({
    block: "start",
    behavior: matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth",
  });
  const last = i === STEPS.length - 1; // its task is done on the plates and the curves
  const quotes = quoted(shown);
  const key = text === "input.text" && !quotes.share.endsWith("%") ? "input.plain" : text; // a logit is no share
  const parts = [
    el("p", {}, say(key, quotes)),
    el("p", { class: "quiet", id: "visit-step" }, say("step", { i: i + 1, n: STEPS.length })),
  ];
  const forth = last ? button(say("done"), leave, false) : button(say("next"), () => step(i + 1), false);
  put(say(title), parts, [
    forth,
    i > 0 && button(say("back"), () => step(i - 1)),
    !last && button(say("leave"), leave),
  ]);
  card?.classList.toggle("aside", last);
}

/** Begin with the first step. */
export function start() {
  step(0);
}

/** Offer the visit in the head of the page, where it covers nothing. */
export function offer() {
  /** @param {() => void} run */
  const answer = (run) => () => {
    asking.remove();
    run();
  };
  const close = el(
    "button",
    {
      type: "button",
      class: "no",
      "aria-label": say("offer.no"),
      title: say("offer.no"),
      on: { click: answer(() => document.getElementById("help")?.focus()) },
    },
    "×",
  );
  const asking = el(
    "div",
    { class: "offer", role: "region", lang: language, "aria-label": say("offer.title"), title: say("offer.text") },
    el("span", {}, say("offer.title")),
    el("button", { type: "button", on: { click: answer(start) } }, say("offer.yes")),
    close,
  );
  document.querySelector(".scheme")?.before(asking);
}
