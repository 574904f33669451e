// A finished explanation, to be looked at inside another page: nothing is asked of the model, and nothing can be
// changed.

import { explanationPath, getJSON, methodsPath, Problem } from "../core/api.js";
import { addressOf, byId, say, addStyleSheet } from "../core/dom.js";
import { reportProblem } from "../core/problems.js";
import { Registry } from "../core/registry.js";
import { learnRules } from "../core/rules.js";
import { readAddress, Store } from "../core/state.js";
import { askingLine, targetInWords, spokenAll, sureness } from "../core/targets.js";
import { greyBase } from "../maps/heatmap.js";
import { seenPicture, sheetOf } from "../maps/patches.js";
import { colourAll, Plate } from "../plates/plate.js";
import { unitsOf, wholeText, WordPlate } from "../plates/words.js";

/**
 * @import { Models, Rules, TextInput } from "../core/schemas.js"
 * @import { Explanation, ScoreMap, Standing, Variant } from "../core/types.js"
 */

const SIDE = 448; // pixels of the grey base
const PAGES = { image: "/image", clip: "/prompt", text: "/text", molecule: "/molecule" };
const { id } = byId("main").dataset;
const address = readAddress();
const stores = {
  view: new Store(address.view),
  focus: new Store({ at: -1, locked: false }),
  onRead: (/** @type {string} */ text) => say("reading", text),
};

/**
 * Resolves to the base of the maps for each target: the grey picture, or a text with its words.
 * @param {Explanation} explanation
 * @returns {Promise<(target: string) => any>}
 */
async function basesOf({ input, prompts, windows }) {
  const picture = input.kind === "text" && input.picture ? await picturesIn(input) : undefined;
  /** @param {TextInput | undefined} read */
  const laid = (read) =>
    read && {
      text: wholeText(read),
      units: unitsOf(read, read.molecule ? "words" : address.view.grain),
      windows,
      molecule: read.molecule,
      picture,
    };
  if (prompts) return (target) => laid(prompts.find(({ prompt }) => prompt === target));
  if (input.kind === "text") return () => laid(input);
  const sheet = await sheetOf(input.frames);
  const seen = await seenPicture(id, sheet);
  const [x0, y0, x1, y1] = sheet ? [0, 0, seen.naturalWidth, seen.naturalHeight] : input.crop;
  const grey = greyBase(seen, SIDE, Math.round((SIDE * (y1 - y0)) / (x1 - x0)));
  return () => Object.assign(grey, { sheet });
}

/**
 * The pictures that stand in the text.
 * @param {TextInput} input
 */
async function picturesIn(input) {
  const [{ partsOf, picturesOf }] = await Promise.all([
    import("../plates/pictureintext.js"),
    addStyleSheet("workbench/pictureintext.css"),
  ]);
  return picturesOf(String(id), partsOf(input));
}

/**
 * Resolves to a function that gives a method's rank on this model, for its label. It is unknown for a model that is not
 * loaded.
 * @param {Explanation} explanation
 * @returns {Promise<(map: ScoreMap) => {standing?: Standing | null, family?: string}>}
 */
async function standingsOf({ model, prompts }) {
  /** @type {Models} */
  const { models } = await getJSON("/api/models");
  if (!models.some(({ name, state }) => name === model && state === "loaded")) return () => ({});
  const registry = new Registry(await getJSON(methodsPath(model, prompts ? "text" : "image")));
  return ({ readout, rule }) => {
    const known = [...registry.pairs.values()].find((pair) => pair.readout === readout && pair.rule === rule);
    return known ? { standing: known.standing, family: known.family } : {};
  };
}

/**
 * The maps that the address asks for; raises a Problem where there is none of them.
 * @param {Explanation} explanation
 */
function mapsOf({ maps }) {
  const known = new Set(maps.map(({ method }) => method));
  const missing = address.methods.filter((spec) => !known.has(spec));
  if (!missing.length) return maps.filter(({ method }) => !address.methods.length || address.methods.includes(method));
  const problem = new Problem({
    title: "No such map",
    detail: `This explanation has no map ${missing.join(", ")}.`,
    send: `It has: ${[...known].join(", ")}`,
  });
  if (missing.length === address.methods.length) throw problem;
  reportProblem(problem, byId("problem")); // the others are shown
  return maps.filter(({ method }) => address.methods.includes(method));
}

/**
 * @param {ScoreMap} map
 * @param {any} base
 * @param {boolean} several
 * @param {{standing?: Standing | null, family?: string}} standing
 */
function plateOf(map, base, several, standing) {
  /** @type {Variant} */
  const variant = {
    ...map,
    spec: map.method,
    title: map.title ?? map.method,
    rule: map.rule ?? null,
    adds_up_to: map.adds_up_to ?? null,
    line: "",
    description: "",
    options: [],
    ...standing,
  };
  const plate = base.units ? new WordPlate(variant, stores) : new Plate(variant, stores);
  plate.actions.node.remove();
  if (plate instanceof Plate) plate.level.node.remove();
  const by = plate.node.querySelector(".by");
  if (several && by) by.textContent = map.target;
  for (const link of plate.node.querySelectorAll("a")) Object.assign(link, { target: "_blank", rel: "noopener" });
  plate.setBase(base);
  plate.show(map, id);
  stores.focus.follow((value) => plate.mark(value));
  return plate;
}

async function begin() {
  try {
    /** @type {[Explanation, Rules]} */
    const [explanation, { rules }] = await Promise.all([getJSON(explanationPath(id)), getJSON("/api/rules")]);
    learnRules(rules);
    if (explanation.state !== "done")
      throw new Problem({
        title: "Not finished",
        detail: `This explanation is ${explanation.state}.`,
        send: "Embed it once it is done",
      });
    const baseOf = await basesOf(explanation);
    const standingOf = await standingsOf(explanation);
    const several = explanation.targets.length > 1;
    const plates = mapsOf(explanation).map((map) => plateOf(map, baseOf(map.target), several, standingOf(map)));
    byId("plates").replaceChildren(...plates.map(({ node }) => node));
    colourAll(plates, address.view.scale);
    const sure = explanation.targets.map((target) =>
      [targetInWords(target), sureness(target, explanation.abstention, explanation.targets.length)]
        .filter(Boolean)
        .join(" "),
    );
    byId("about").textContent = [explanation.model, ...sure].join(" · ");
    const kind =
      explanation.input.kind === "text"
        ? "text"
        : explanation.top.some(({ prompt }) => prompt !== undefined && prompt !== null)
          ? "clip"
          : "image";
    byId("answer").textContent =
      explanation.title ?? `${askingLine(explanation, kind === "clip")} “${spokenAll(explanation.targets)}”`;
    byId("open").href = addressOf(`${PAGES[kind]}?id=${encodeURIComponent(id)}`);
  } catch (problem) {
    reportProblem(problem, byId("problem"));
  }
}

void begin();
