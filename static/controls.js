// The controls over the plates: real radio buttons and a slider, so that the keyboard works as everywhere.

import { el } from "./dom.js";

/** A row of choices bound to one key of the view. `choices` maps values to their names. */
export function segment(view, key, legend, choices, className = "seg") {
  const name = `view-${key}`;
  const inputs = Object.entries(choices).map(([value, text]) => {
    const input = el("input", { type: "radio", name, value, checked: view.value[key] === value, on: { change: () => view.set({ [key]: value }) } });
    return el("label", {}, input, text);
  });
  return el("fieldset", { class: className }, el("legend", {}, legend), el("span", {}, inputs));
}

export function slider(view, key, text) {
  const output = el("output", {}, `${view.value[key]}\u2009%`);
  const move = (event) => {
    output.textContent = `${event.target.value}\u2009%`;
    view.set({ [key]: Number(event.target.value) });
  };
  const input = el("input", { type: "range", min: 0, max: 100, step: 5, "aria-label": text, on: { input: move } });
  input.value = view.value[key];
  return el("label", { class: "slide" }, text, input, output);
}

/** Whether each map is told in words too. */
export const inWords = (view) => segment(view, "words", "In words", { hidden: "no", shown: "yes" });

export const EVIDENCE = { both: "both", for: "for", against: "against" };

/** The controls of pages that draw maps over a picture. */
export const mapControls = (view) => [
  segment(view, "evidence", "Evidence", EVIDENCE),
  segment(view, "grid", "Grid", { smooth: "smooth", patches: "patches" }),
  segment(view, "scale", "Scale", { own: "own", shared: "shared" }),
  slider(view, "opacity", "Opacity"),
  inWords(view),
];
