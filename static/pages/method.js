// The page of one method: the method on a sample, with any of its rules, made when the page is opened; a slow one when
// asked for.

import "./frame.js";
import {
  createExplanation,
  explanationPath,
  follow,
  getBlob,
  getJSON,
  loadImage,
  methodsPath,
  Problem,
} from "../core/api.js";
import { byId, el, say, seconds, staticPath } from "../core/dom.js";
import { reportProblem, showProblem } from "../core/problems.js";
import { Registry } from "../core/registry.js";
import { ruleName } from "../core/rules.js";
import { readAddress, Store } from "../core/state.js";
import { greyBase } from "../maps/heatmap.js";
import { colourAll, Plate } from "../plates/plate.js";
import { unitsOf, WordPlate } from "../plates/words.js";
import { wayPicture } from "./gallery/wayback.js";

/**
 * @import { Model, Models, Rules, Sample, Samples } from "../core/schemas.js"
 * @import { Explanation, Listed, Variant } from "../core/types.js"
 * @import { GalleryFile } from "./gallery/gallery.js"
 */

/** @type {{[kind: string]: string}} */
const PAGES = { image: "/image", clip: "/prompt", text: "/text", molecule: "/molecule" };
/** @type {{[kind: string]: string}} */
const NAMES = { image: "a picture", clip: "a picture and a prompt", text: "a review", molecule: "a molecule" };
const SHARES = "answers"; // a rule of relevance starts with 1, the whole answer, and not with its logit
const SIDE = 448; // pixels of the grey base
const readout = byId("main").dataset.readout;
const stores = {
  view: new Store(readAddress("").view),
  focus: new Store({ at: -1, locked: false }),
  onRead: (/** @type {string} */ text) => say("status", text),
};
const usualRule = byId("main").dataset.usual || null; // as on the Methods page
/** @type {{[spec: string]: string}} */
const verdicts = JSON.parse(byId("verdict").dataset.verdicts ?? "{}"); // how each variant ranks on photos
let lastTicket = 0;
/** @type {string | null | undefined} */
let chosenRule;
/** @type {(rule: string | null | undefined) => void} */
let drawWay = () => {}; // of a rule by its name, once the numbers are there

/**
 * Resolves to one entry for each kind of input: {kind, model, registry, sample, pairs} where the method works, else
 * {kind, reasons}, the reasons why the loaded models do not run it. The model of photos is asked first, then the usual
 * one, then every other one that is loaded.
 * @typedef {{kind: string, model: Model, registry: Registry, sample: Sample, pairs: Listed[]}} Place
 * @typedef {{kind: string, reasons: string[]}} NoPlace
 */

async function places() {
  /** @type {[Models, Samples]} */
  const [{ models }, { samples }] = await Promise.all([getJSON("/api/models"), getJSON("/api/samples")]);
  return Promise.all(
    Object.keys(PAGES).map((kind) =>
      placeOf(
        kind,
        models.filter((model) => model.kind === kind),
        samples.filter((sample) => sample.kind === kind),
      ),
    ),
  );
}

/**
 * @param {string} kind
 * @param {Model[]} models
 * @param {Sample[]} samples
 * @returns {Promise<Place | NoPlace>}
 */
async function placeOf(kind, models, samples) {
  const loaded = models
    .filter((model) => model.state === "loaded")
    .sort((a, b) => Number(b.photos) - Number(a.photos) || Number(b.default) - Number(a.default));
  const reasons = new Set();
  for (const model of loaded) {
    const registry = new Registry(await getJSON(methodsPath(model.name)));
    const ofReadout = [...registry.pairs.values()].filter((pair) => pair.readout === readout);
    const pairs = ofReadout.filter((pair) => !pair.reason);
    const sample = samples.find((candidate) => candidate.model === model.name) ?? samples[0];
    if (pairs.length && sample) return { kind, model, registry, sample, pairs };
    const usual = ofReadout.find((pair) => pair.rule === null || pair.rules.includes(pair.rule));
    if (usual?.reason) reasons.add(usual.reason);
  }
  return { kind, reasons: loaded.length ? [...reasons] : ["No model for this kind of input is loaded."] };
}

/**
 * The finished explanation of a sample by one method. Only the model that a sample was made for knows its class.
 * @param {Place} place
 * @param {string} spec
 * @returns {Promise<Explanation>}
 */
async function explained({ model, sample }, spec) {
  const image = sample.image && (await getBlob(sample.image));
  const target = sample.model === model.name ? sample.target : null;
  const { id } = await createExplanation({
    model: model.name,
    image,
    text: sample.text,
    target,
    prompt: sample.prompts?.slice(0, 1),
    methods: spec,
  });
  const last = ["done", "failed", "cancelled"];
  await new Promise((resolve, reject) =>
    follow(`${explanationPath(id)}/events`, Object.fromEntries(last.map((name) => [name, resolve])), last, reject),
  );
  const explanation = await getJSON(explanationPath(id));
  if (explanation.state !== "done")
    throw new Problem(explanation.problem ?? { title: "The example could not be finished", detail: "It was stopped." });
  return explanation;
}

/**
 * A plate of the explanation, with its picture or its text.
 * @param {Place} place
 * @param {string} spec
 * @param {Explanation} explanation
 */
async function plateOf(place, spec, explanation) {
  const map = explanation.maps[0];
  const variant = /** @type {Variant} */ (place.registry.plate(spec));
  const { input } = explanation;
  const plate = input.kind === "text" ? new WordPlate(variant, stores) : new Plate(variant, stores);
  if (plate instanceof WordPlate) {
    if (input.kind === "text") plate.setBase({ text: input.text ?? "", units: unitsOf(input, "words") });
  } else plate.setBase(greyBase(await loadImage(`${explanationPath(explanation.id)}/input.png`), SIDE, SIDE));
  plate.show(map, explanation.id);
  colourAll([plate], "own");
  return plate;
}

/**
 * @param {Place} place
 * @param {string} spec
 */
async function show(place, spec) {
  const ticket = ++lastTicket;
  const late = () => ticket !== lastTicket;
  showProblem(byId("problem"), null);
  byId("main").dataset.kind = place.kind;
  say("status", `explaining ${NAMES[place.kind]}`);
  try {
    const explanation = await explained(place, spec);
    if (late()) return;
    const plate = await plateOf(place, spec, explanation);
    if (late()) return;
    stores.focus.follow((value) => plate.mark(value));
    byId("example").replaceChildren(plate.node);
    const { label } = explanation.targets[0];
    say("status", `${explanation.model}, what made it say ${label}, in ${seconds(explanation.maps[0].seconds)}`);
    byId("try").replaceChildren(
      el("a", { href: `${PAGES[place.kind]}?id=${explanation.id}` }, "Open this on the workbench"),
    );
  } catch (problem) {
    if (late()) return;
    say("status", "no example");
    reportProblem(problem, byId("problem"));
  }
}

/** The way back of the rules that the method is read with, in a picture: first that of the example. */
async function showWay() {
  const place = document.getElementById("way");
  if (!place) return;
  /** @type {[GalleryFile, Rules]} */
  const [{ way }, { rules, kinds }] = await Promise.all([
    getJSON(staticPath("pages/gallery/gallery.json")),
    getJSON("/api/rules"),
  ]);
  const own = (place.dataset.rules ?? "").split(" ").filter((name) => way.rules[name]);
  const names = [...new Set([...own, "gradient"])];
  drawWay = (name) => {
    /** @type {any} */
    const rule = rules.find((candidate) => candidate.name === name);
    if (!name || !rule || !names.includes(name)) return;
    /** @param {string} kind */
    const choiceOf = (kind) => {
      const column = kinds.find((candidate) => candidate.name === kind || candidate.name.startsWith(kind));
      return column?.choices.find(({ value }) => value === rule[column.name])?.title ?? "";
    };
    byId("way-picture").replaceChildren(
      wayPicture(way, name, choiceOf, rule.attention === "relevance" ? SHARES : "logits"),
    );
    for (const button of byId("way-rules").querySelectorAll("button"))
      button.setAttribute("aria-pressed", String(button.dataset.rule === name));
  };
  byId("way-where").textContent = `Block ${way.block} of ${way.of} of ${way.model}, on the photo of the Methods page. `;
  byId("way-rules").replaceChildren(
    ...names.map((name) =>
      el("button", { type: "button", data: { rule: name }, on: { click: () => drawWay(name) } }, ruleName(name)),
    ),
  );
  drawWay(usualRule !== null && names.includes(usualRule) ? usualRule : names[0]);
  drawWay(chosenRule);
}

/**
 * The pair of the method with its usual rule, else the first that the model runs.
 * @param {Listed[]} pairs
 */
const usualOf = (pairs) => pairs.find(({ rule }) => rule === usualRule) ?? pairs[0];

/**
 * The choices over the example: which input, which rule; both are in the address.
 * @param {Place[]} all
 */
function choices(all) {
  const address = new URLSearchParams(location.search);
  /**
   * @param {string} label
   * @param {string[][]} options values and texts
   * @param {() => void} run
   * @returns {[HTMLSelectElement, HTMLElement]}
   */
  const select = (label, options, run) => {
    const id = `choose-${label.toLowerCase()}`;
    const field = el(
      "select",
      { id, on: { change: run } },
      options.map(([value, text]) => el("option", { value }, text)),
    );
    return [field, el("div", {}, el("label", { for: id }, label), field)];
  };
  const place = () => all[inputs.selectedIndex];
  /** @param {Place} place */
  const rulesOf = ({ pairs }) => {
    const usual = usualOf(pairs);
    return pairs.map((pair) =>
      el(
        "option",
        { value: pair.spec, selected: pair === usual },
        pair.rule ? `${ruleName(pair.rule)}${pair.rule === usualRule ? ", usual" : ""}` : "none needed",
      ),
    );
  };
  const showChosen = () => show(place(), rules.value);
  const write = () =>
    history.replaceState(null, "", `?${new URLSearchParams({ input: place().kind, rule: rules.value })}`);
  const keepRule = () => {
    chosenRule = place().pairs.find(({ spec }) => spec === rules.value)?.rule;
    byId("verdict").textContent = verdicts[rules.value] ?? ""; // of what is shown below
  };
  const changed = () => {
    write();
    keepRule();
    drawWay(chosenRule);
    showChosen();
  };
  const [inputs, inputRow] = select(
    "Input",
    all.map(({ kind }) => [kind, NAMES[kind]]),
    () => {
      const before = rules.value;
      rules.replaceChildren(...rulesOf(place()));
      if (place().pairs.some((pair) => pair.spec === before)) rules.value = before;
      changed();
    },
  );
  const [rules, ruleRow] = select("Rule", [], changed);
  inputs.selectedIndex = Math.max(
    0,
    all.findIndex(({ kind }) => kind === address.get("input")),
  );
  rules.replaceChildren(...rulesOf(place()));
  if (place().pairs.some((pair) => pair.spec === address.get("rule"))) rules.value = address.get("rule") ?? "";
  keepRule();
  byId("choice").replaceChildren(inputRow, ruleRow);
  if (!usualOf(place().pairs).slow) return void showChosen();
  const start = el(
    "button",
    { type: "button", class: "act plain", on: { click: showChosen } },
    "Show it (takes a while)",
  );
  byId("example").replaceChildren(el("div", {}, start));
}

async function begin() {
  try {
    const all = await places();
    const able = all.flatMap((place) => ("pairs" in place ? place : []));
    const against = all.flatMap((place) =>
      "reasons" in place ? `Not on ${NAMES[place.kind]}: ${place.reasons.join(" ")}` : [],
    );
    if (able.length) choices(able);
    else
      showProblem(byId("problem"), {
        title: "No example",
        detail: "None of the loaded models can run this method.",
        send: "Load another one on the Models page",
      });
    byId("against").replaceChildren(...against.map((text) => el("li", {}, text)));
    await showWay();
  } catch (problem) {
    showProblem(byId("problem"), problem);
  }
}

void begin();
