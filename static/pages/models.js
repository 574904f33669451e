// The Models page: what is there, what can be had, and how loading goes.

import "./frame.js";
import { follow, getBlob, getJSON, loadModel } from "../core/api.js";
import { byId, el, say } from "../core/dom.js";
import { reportProblem, showProblem } from "../core/problems.js";
import { depthFold } from "../tools/depth.js";

/**
 * @import { Problem } from "../core/api.js"
 * @import { Calibration, LoadProgress, Model, Models } from "../core/schemas.js"
 * @import { Grid } from "../core/types.js"
 */

/** @type {{[name: string]: string}} */
const PAGES = { image: "/image", clip: "/prompt", text: "/text", molecule: "/molecule" };
/** @type {{[name: string]: string}} */
const KINDS = {
  image: "image classifier",
  clip: "image and prompt",
  text: "text classifier",
  molecule: "molecule classifier",
};
/** @type {{[name: string]: string}} */
const STATES = {
  loaded: "loaded",
  loading: "loading",
  available: "not loaded",
  failed: "could not be loaded",
  "not-installed": "not installed",
};
/** The type of the problem of a model that needs an optional package. */
const NOT_INSTALLED = "urn:vitrine:problem:not-installed";
const following = new Set();
let mayLoad = true; // whether models of the hub can be had

/**
 * The facts about a model, as pairs of name and value.
 * @param {Model} model
 */
function facts({ details, device, weights_digest: digest, embedded, name }) {
  /** @param {Grid | null | undefined | number[] | null | undefined} value */
  const size = (value) => (Array.isArray(value) ? value.join("×") : value);
  /** @param {number} n */
  const millions = (n) => `${(n / 1e6).toFixed(1)} M`;
  return [
    ["blocks", details.blocks],
    ["heads", details.heads],
    ["width", details.width],
    ["patches", size(details.grid)],
    ["input", size(details.input)],
    ["most tokens", details.max_tokens],
    ["classes", details.classes],
    ["parameters", details.parameters && millions(details.parameters)],
    ["device", device],
    ["folder", embedded && `explainers/embedded/models/${name}`],
    ["weights", digest?.slice(0, 12)],
  ].filter(([, value]) => value !== undefined && value !== null && value !== "" && value !== false);
}

/**
 * Make paragraphs on when a model says that it does not know, and how that threshold was measured.
 * @param {Calibration} calibration
 */
const lines = (calibration) =>
  calibration.lines.map(({ kind, says, score, line, below, measured, prompts, misses }) =>
    el(
      "p",
      { class: "quiet line" },
      `${kind === "something_else" ? "Doubts its answer" : `Says “${says}”`}${prompts ? ` of a ${prompts}` : ""} where ${score.replaceAll("_", " ")} is ${below ? "below" : "above"} ${line}. ${[measured, misses].filter(Boolean).join(" ")}`,
    ),
  );

/**
 * The quantities that abstention thresholds apply to, in plain words.
 * @type {{[name: string]: string}}
 */
const SCORES = {
  cosine: "the similarity of picture and prompt (cosine)",
  energy: "the response of all classes together (energy)",
  max_logit: "the response of the best class (logit)",
  max_probability: "the largest probability",
  neutral_probability: "the probability of no opinion",
  opinion_evidence: "the evidence for any opinion",
  patch_cosine: "the mean cosine of the prompt with the tenth of the patches most like it",
  pieces_per_word: "the number of pieces that a word is cut into",
  probability_gap: "the lead of the best class",
  prominence: "the prominence of the best class among the others",
  share_unknown: "the share of unknown words",
  strange_words: "the share of words of another language",
  word_familiarity: "the similarity of the strangest word to a known one",
};

/**
 * Replace the names of the scores in a calibration by words.
 * @param {Calibration} calibration
 */
const inWords = (calibration) => ({
  ...calibration,
  lines: calibration.lines.map((line) => ({ ...line, score: SCORES[line.score] ?? line.score })),
});

/**
 * The size of a model in words, as far as it is known.
 * @param {Model} model
 */
function sizeOf({ details, megabytes }) {
  if (details.parameters)
    return `${(details.parameters / 1e6).toFixed(1)} million parameters, ${details.blocks} blocks`;
  return megabytes ? `a download of ${megabytes}\u2009MB` : "size known after loading";
}

/**
 * Where the weights of a loaded model are, in words.
 * @param {Model} model
 */
function placeOf({ resident }) {
  if (!resident) return null;
  const size = `${(resident.bytes / 1e6).toFixed(resident.bytes < 1e7 ? 1 : 0)}\u2009MB`;
  return resident.place === "device"
    ? `loaded, ${size} on ${resident.device}`
    : `${size} in the memory of the machine; moves to ${resident.device} when asked`;
}

/** @param {Model} model */
function card(model) {
  const doubts = model.calibration && lines(inWords(model.calibration));
  const rows = facts(model).map(([name, value]) =>
    el(
      "div",
      { class: name === "folder" ? "wide" : "" },
      el("dt", {}, name),
      el("dd", { title: name === "weights" ? `SHA-256 of the weights: ${model.weights_digest}` : "" }, String(value)),
    ),
  );
  const open =
    model.state === "loaded" &&
    el("a", { class: "act", href: `${PAGES[String(model.kind)]}?model=${encodeURIComponent(model.name)}` }, "Open");
  const retry = model.state === "available" ? "Load" : "Try again";
  const load =
    mayLoad &&
    ["available", "failed", "not-installed"].includes(model.state) &&
    el("button", { type: "button", class: "act plain", on: { click: () => load_(model.name, place) } }, retry);
  const place = el("div", { class: "loading" });
  const about =
    model.state === "loaded" &&
    el(
      "details",
      { class: "about", on: { toggle: (event) => event.target.open && fill(event.target, model.name) } },
      el("summary", {}, "Model card"),
    );
  const node = el(
    "article",
    { class: "card", data: { name: model.name, state: model.state } },
    el("h2", {}, model.title || model.name),
    el("p", { class: "name num" }, model.name),
    el(
      "p",
      { class: "kind" },
      [KINDS[String(model.kind)], model.embedded && "embedded", placeOf(model) ?? STATES[model.state]]
        .filter(Boolean)
        .join(" · "),
    ),
    el("p", { class: "size num" }, sizeOf(model)),
    el("p", {}, model.description),
    model.good_for ? el("p", { class: "good-for" }, el("strong", {}, "Good for "), `${model.good_for}.`) : null,
    place,
    el("div", { class: "give" }, open, load),
    rows.length
      ? el("details", { class: "about" }, el("summary", {}, "In numbers"), el("dl", { class: "facts" }, rows))
      : null,
    doubts?.length
      ? el("details", { class: "about" }, el("summary", {}, "When it says that it does not know"), doubts)
      : null,
    about,
    model.state === "loaded" && depthFold(model),
  );
  if (model.state === "not-installed") place.append(el("p", { class: "quiet" }, String(model.problem?.detail)));
  else if (model.problem) showProblem(place, model.problem);
  if (model.state === "loading") watch(model.name, place);
  return node;
}

/**
 * @param {HTMLElement} details
 * @param {string} name
 */
async function fill(details, name) {
  if (details.children.length > 1) return;
  const body = el("div", { class: "prose" }, "…");
  details.append(body);
  try {
    const card = await getBlob(`/models/${name}/card`);
    body.innerHTML = await card.text(); // the server shows all markup of the card's author as text
  } catch (problem) {
    showProblem(body, problem);
  }
}

/** Follow the loading of a model until it ends, then show the list again. */
/**
 * @param {string} name
 * @param {HTMLElement} place
 */
function watch(name, place) {
  if (following.has(name)) return;
  following.add(name);
  const bar = el("progress", { "aria-label": `Loading ${name}` });
  const text = el("span", { class: "quiet" }, "waiting for its turn");
  place.replaceChildren(bar, text);
  const progress = (/** @type {LoadProgress} */ data) => {
    text.textContent = data.text;
    if (data.fraction === undefined || data.fraction === null) bar.removeAttribute("value");
    else bar.value = data.fraction;
  };
  /**
   * @param {string} message
   * @param {Problem} [problem]
   */
  const end = (message, problem) => () => {
    following.delete(name);
    say("status", message);
    place.replaceChildren();
    refresh().then(() => problem && showProblem(byId("loading"), problem));
  };
  follow(
    `/api/models/events?name=${encodeURIComponent(name)}`,
    {
      progress,
      loaded: end(`${name} is loaded`),
      failed: (data) =>
        data.problem?.type === NOT_INSTALLED
          ? end(`${name} is not installed`)()
          : end(`${name} could not be loaded`, data.problem ?? data)(),
    },
    ["loaded", "failed"],
    (problem) => end("the connection was lost", problem)(),
  );
}

/**
 * @param {string} name
 * @param {HTMLElement} place
 */
async function load_(name, place) {
  showProblem(place, null);
  showProblem(byId("loading"), null);
  say("status", `loading ${name}`);
  try {
    const { name: taken } = await loadModel(name);
    await refresh();
    const shown = [...document.querySelectorAll(".card")].find((node) => node.getAttribute("data-name") === taken);
    shown?.scrollIntoView({ block: "nearest" });
  } catch (problem) {
    say("status", "");
    reportProblem(problem, place);
  }
}

async function refresh() {
  /** @type {Models} */
  const { models, may_load } = await getJSON("/api/models");
  mayLoad = may_load;
  byId("load").hidden = !mayLoad;
  const kept = new Map([...byId("cards").children].map((node) => [node.dataset.name, node]));
  // a card whose loading is being followed stays, so that its progress goes on
  byId("cards").replaceChildren(
    ...models.map((model) => (following.has(model.name) && kept.get(model.name)) || card(model)),
  );
  byId("known").replaceChildren(
    ...models.filter((model) => !model.embedded).map((model) => el("option", { value: model.name })),
  );
}

byId("load").addEventListener("submit", (/** @type {Event} */ event) => {
  event.preventDefault();
  const name = byId("name").value.trim();
  if (name) load_(name, byId("loading"));
  else
    showProblem(byId("loading"), {
      title: "No name",
      detail: "The field is empty.",
      send: "Type the name of a model, such as timm/vit_tiny_patch16_224",
    });
});
refresh().catch((problem) => showProblem(byId("loading"), problem));
