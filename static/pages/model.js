// The page of a model: its facts, when it says that it does not know, and what its parts are worth.

import "./frame.js";
import { getJSON, modelPath } from "../core/api.js";
import { byId, el } from "../core/dom.js";
import { reportProblem } from "../core/problems.js";
import { depthFold } from "../tools/depth.js";
import { openModel } from "./openmodel.js";

/**
 * @import { Calibration, Model } from "../core/schemas.js"
 * @import { Grid } from "../core/types.js"
 */

/**
 * The facts about a model, as pairs of name and value.
 * @param {Model} model
 */
function factsOf({ details, device, weights_digest: digest, embedded, name, revision }) {
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
    ["commit", revision],
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

/** @param {Model} model */
function show(model) {
  byId("description").textContent = model.description;
  const open = openModel(model);
  if (open) byId("give").append(open);
  const facts = factsOf(model).map(([name, value]) =>
    el(
      "div",
      { class: name === "folder" || name === "commit" ? "wide" : "" },
      el("dt", {}, name),
      el("dd", { title: name === "weights" ? `SHA-256 of the weights: ${model.weights_digest}` : "" }, String(value)),
    ),
  );
  byId("facts").replaceChildren(...facts);
  if (model.state !== "loaded") byId("facts").after(el("p", { class: "quiet" }, "More is known once it is loaded."));
  if (model.calibration)
    byId("doubts").append(el("h2", {}, "When it says that it does not know"), ...lines(inWords(model.calibration)));
  if (model.state === "loaded") byId("depth").append(depthFold(model));
}

const main = byId("main");
getJSON(modelPath(String(main.dataset.name))).then(show, (problem) => reportProblem(problem, byId("problem")));
