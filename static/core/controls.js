// The controls over the plates: real radio buttons and a slider in one menu, so that the keyboard works as everywhere.

import { SEQUENCES } from "./colour.js";
import { byId, el } from "./dom.js";
import { sheet } from "./menu.js";

/**
 * @import { Store } from "./state.js"
 * @import { View } from "./types.js"
 */

/**
 * A select with its label before it.
 * @param {string} text
 * @param {HTMLSelectElement} select
 * @returns {HTMLDivElement}
 */
export const labelled = (text, select) => el("div", { class: "asked" }, el("label", { for: select.id }, text), select);

/**
 * A row of choices bound to one key of the view. `choices` maps values to their names.
 * @param {Store<any>} view
 * @param {string} key
 * @param {string} legend
 * @param {{[value: string]: string}} choices
 * @param {string} [className]
 * @returns {HTMLFieldSetElement}
 */
export function segment(view, key, legend, choices, className = "seg") {
  const name = `view-${key}`;
  const inputs = Object.entries(choices).map(([value, text]) => {
    const input = el("input", {
      type: "radio",
      name,
      value,
      checked: view.value[key] === value,
      on: { change: () => view.set({ [key]: value }) },
    });
    return el("label", {}, input, text);
  });
  return el("fieldset", { class: className }, el("legend", {}, legend), el("span", {}, inputs));
}

/**
 * A slider, in percent, bound to one key of the view.
 * @param {Store<any>} view
 * @param {string} key
 * @param {string} text
 * @param {{max?: number, step?: number}} [options]
 * @returns {HTMLLabelElement}
 */
export function slider(view, key, text, { max = 100, step = 5 } = {}) {
  const output = el("output", {});
  const move = (/** @type {any} */ event) => view.set({ [key]: Number(event.target.value) });
  const input = el("input", { type: "range", min: 0, max, step, "aria-label": text, on: { input: move } });
  const show = () => {
    input.value = view.value[key];
    output.textContent = `${view.value[key]}\u2009%`;
  };
  show();
  view.follow((now, before) => now[key] !== before[key] && show());
  return el("label", { class: "slide" }, text, input, output);
}

/**
 * Make the control that shows each map in words, too.
 * @param {Store<View>} view
 */
const inWords = (view) => segment(view, "words", "In words", { hidden: "no", shown: "yes" });

/**
 * A list of choices bound to one key of the view, for what needs less room.
 * @param {Store<any>} view
 * @param {string} key
 * @param {string} text
 * @param {{[value: string]: string}} choices
 * @returns {HTMLLabelElement}
 */
export function choice(view, key, text, choices) {
  const options = Object.entries(choices).map(([value, name]) =>
    el("option", { value, selected: view.value[key] === value }, name),
  );
  return el(
    "label",
    { class: "choice" },
    text,
    el("select", { name: `view-${key}`, on: { change: (event) => view.set({ [key]: event.target.value }) } }, options),
  );
}

/**
 * A box for a key of the view that is "on" or "off".
 * @param {Store<any>} view
 * @param {string} key
 * @param {string} text
 * @returns {HTMLLabelElement}
 */
export function tick(view, key, text) {
  const input = el("input", {
    type: "checkbox",
    name: `view-${key}`,
    checked: view.value[key] === "on",
    on: { change: (event) => view.set({ [key]: event.target.checked ? "on" : "off" }) },
  });
  return el("label", { class: "choice" }, input, text);
}

/**
 * Controls that wait behind a button where the window is narrow: [button, box]. `name` is what a screen reader calls
 * the button.
 * @param {string} id
 * @param {string} text
 * @param {string} name
 * @param {...(Node | string)} controls
 * @returns {HTMLElement[]}
 */
export function more(id, text, name, ...controls) {
  const box = el("div", { class: "more", id }, controls);
  const button = el(
    "button",
    { type: "button", class: "act plain", "aria-expanded": "false", "aria-controls": id, "aria-label": name },
    text,
  );
  button.addEventListener("click", () => button.setAttribute("aria-expanded", String(box.classList.toggle("open"))));
  return [button, box];
}

/** @type {{[value: string]: string}} */
const EVIDENCE = { both: "both", for: "for", against: "against" };
const SMOOTHING = { patches: "none", smooth: "bilinear", bicubic: "bicubic" };
const SIGNED = { "red-blue": "red, blue", "orange-purple": "orange, purple" };

/**
 * Keep the colours of words, which are set in CSS, in step with the view.
 * @param {Store<View>} view
 */
function followColours(view) {
  /** @param {View} view */
  const show = ({ diverging }) => (document.documentElement.dataset.diverging = diverging);
  view.follow(show);
  show(view.value);
}

/**
 * Make a button that shows the numbers of all plates at once, and hides them.
 * @param {Store<View>} view
 */
function numbersButton(view) {
  const button = el(
    "button",
    {
      type: "button",
      class: "act plain",
      id: "numbers",
      on: { click: () => view.set({ numbers: view.value.numbers === "shown" ? "hidden" : "shown" }) },
    },
    "Numbers",
  );
  /** @param {View} view */
  const show = ({ numbers }) => {
    button.setAttribute("aria-pressed", String(numbers === "shown"));
    byId("plates").classList.toggle("numbers", numbers === "shown");
  };
  view.follow(show);
  show(view.value);
  return button;
}

/**
 * Make the controls above the plates of pages that draw maps over a picture.
 * @param {Store<View>} view
 * @returns {HTMLElement[]}
 */
export function mapControls(view) {
  const sequences = Object.fromEntries(Object.keys(SEQUENCES).map((name) => [name, name]));
  return [
    numbersButton(view),
    sheet(
      "View",
      "How maps are drawn",
      segment(view, "evidence", "Evidence", EVIDENCE),
      segment(view, "scale", "Scale", { own: "own", shared: "shared" }),
      choice(view, "grid", "Smoothing", SMOOTHING),
      choice(view, "diverging", "For, against", SIGNED),
      choice(view, "sequence", "Strength", sequences),
      slider(view, "opacity", "Opacity"),
      tick(view, "lens", "Lens on your picture"),
      inWords(view),
    ),
  ];
}

/**
 * Make the controls above the plates of the page that colours words.
 * @param {Store<View>} view
 * @returns {HTMLElement[]}
 */
export function wordControls(view, isCut = true) {
  followColours(view);
  return [
    numbersButton(view),
    sheet(
      "View",
      "How texts are coloured",
      segment(view, "evidence", "Evidence", EVIDENCE),
      isCut ? segment(view, "grain", "Grain", { pieces: "pieces", words: "words", sentences: "sentences" }) : "",
      segment(view, "scale", "Scale", { own: "own", shared: "shared" }),
      isCut ? tick(view, "sink", "Scale without a first word that dwarfs all others") : "",
      choice(view, "diverging", "For, against", SIGNED),
      inWords(view),
    ),
  ];
}
