// The guided visit: five steps on the Image page itself. A card at the edge says what the outlined part is.

import { el } from "./dom.js";

/** What each step shows: a title, and the parts that it may point at with what is said of each; the first that is there is shown. */
const STEPS = [
  ["The specimen", [
    [".specimen .display", "This is the picture as the model saw it. Beside it stands what the model says, and how sure it is. Give another picture, or choose another class: all maps are made anew."],
  ]],
  ["A plate", [
    [".plate", "A plate is the answer of one method to one question: which parts of the picture made the model say this? Red speaks for the class, blue against it; where a method only knows strength, brighter is more. The label says whose method it is, and its name leads to its page."],
  ]],
  ["Point and hold", [
    [".plate .face", "Point at a patch, and every plate outlines the same patch and shows its score. A click holds it, so that you can compare. With the keyboard: the arrow keys walk, Home goes to the strongest patch, Escape lets go."],
  ]],
  ["Methods and rules", [
    ["#chooser", "Here you choose which methods are shown. A row is a method, a column is a rule: how the signal travels back through the model. The same method with another rule can say something quite different."],
  ]],
  ["Is it true?", [
    ["#truth", "Methods disagree, so put them to the test. Drag the slider, and every plate loses what its own map calls most relevant: the better the map, the sooner the model changes its mind. A map that does no better than chance is not to be believed."],
    ['.plate[data-spec="random"]', "Methods disagree, so do not believe a map because it looks good. This plate knows nothing: it is drawn at random. A map that you cannot tell from it says nothing."],
    ["#plates", "Methods disagree, so do not believe a map because it looks good. Choose the method Random too: a map that you cannot tell from it says nothing."],
  ]],
];

const dock = document.getElementById("truth"); // it lies at the foot of the window: the card stands over it, however high it is
if (dock) new ResizeObserver(() => card && (card.style.bottom = `${dock.offsetHeight + 16}px`)).observe(dock);
let card = null;
let shown = null; // the part that is outlined

function leave() {
  shown?.classList.remove("visited");
  shown = null;
  card?.remove();
  card = null;
}

const button = (text, run, plain = true) => el("button", { type: "button", class: plain ? "act plain" : "act", on: { click: run } }, text);

/** Put a card up. It is the first thing that Tab reaches; it takes the focus only where the person asked for it. */
function put(title, parts, buttons, takesFocus) {
  card?.remove();
  card = el("section", { class: "visit", tabIndex: -1, "aria-labelledby": "visit-title" }, el("h2", { id: "visit-title" }, title), parts, el("div", { class: "finish" }, buttons));
  card.addEventListener("keydown", (event) => event.key === "Escape" && leave());
  document.querySelector(".skip").after(card);
  if (dock) card.style.bottom = `${dock.offsetHeight + 16}px`;
  if (takesFocus) card.focus();
}

function step(i) {
  const [title, places] = STEPS[i];
  shown?.classList.remove("visited");
  const [selector, text] = places.find(([where]) => document.querySelector(where)?.checkVisibility()) ?? places.at(-1);
  shown = document.querySelector(selector);
  shown.classList.add("visited");
  shown.scrollIntoView({ block: innerWidth > 760 ? "center" : "start", behavior: matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth" });
  const last = i === STEPS.length - 1;
  put(title, [el("p", {}, text), el("p", { class: "quiet" }, `Step ${i + 1} of ${STEPS.length}`)], [last ? button("Done", leave, false) : button("Next", () => step(i + 1), false), i > 0 && button("Back", () => step(i - 1)), !last && button("Leave", leave)], true);
}

/** Begin with the first step. */
export function start() {
  step(0);
}

/** Ask whether the visit is wanted. */
export function offer() {
  put("Is this your first visit?", el("p", {}, "Five steps show what is on this page. You find them again under ? at the top."), [button("Show me", start, false), button("No, thanks", leave)], false);
}
