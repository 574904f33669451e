// One sentence over the plates: what the model says and how sure it is, where most methods point, and which of them say
// otherwise.

import { number, percent } from "../core/dom.js";
import { classOf, spoken } from "../core/targets.js";
import { NINTHS } from "../maps/summary.js";
import { unitScore } from "../plates/content.js";

/** @import { Abstention, Grid, ModelInput, PromptInput, ScoreMap, Target } from "../core/types.js" */

const SURE = 0.9;
const LIKELY = 0.6;
const TOP = 0.1; // the share of a picture's patches, and of a text's words, that a method points at
const FEW_WORDS = 3; // at least so many words, but of a short text no more than a third
const WIDE = 0.35; // a place that takes more of the picture than this is no place to name
const NAMED = 2; // methods and
const QUOTED = 3; // words that are named

const quoted = (text) => `“${text}”`;

function list(names, most) {
  const shown = names.slice(0, most);
  const rest = names.length - shown.length;
  if (rest) return `${shown.join(", ")} and ${rest} more`;
  return shown.length > 1 ? `${shown.slice(0, -1).join(", ")} and ${shown.at(-1)}` : shown.join("");
}

/**
 * What is asked, before the answer in quotation marks: only what the model says is called so. Of prompts that are not
 * in the picture nothing was found.
 * @param {{abstention?: Abstention, prompts?: PromptInput[], targets: Target[], top?: Target[]}} options
 * @param {boolean} isClip
 * @returns {string}
 */
export function askingLine({ abstention, prompts, targets, top = [] }, isClip) {
  if (!isClip) {
    const isFirst = targets.length === 1 && !targets[0].against && classOf(targets[0]) === top[0]?.label;
    if (!isFirst) return "What speaks for";
    return abstention ? "What speaks for its nearest guess," : "What made it say";
  }
  if (prompts) return "Which words counted in";
  return targets.some((target) => target.abstention) ? "Where it looked for" : "Where it found";
}

/**
 * What the model says and how sure it is. The first argument is {top, targets, abstention?, output} as the API gives
 * it, as `details` of the model are.
 * @param {{top?: Target[], targets: Target[], abstention?: Abstention, output?: string}} options
 * @param {{[name: string]: any}} [details]
 * @returns {string}
 */
export function answerLine({ top = [], targets, abstention, output }, details = {}) {
  if (targets[0]?.prompt !== undefined && targets[0]?.prompt !== null) return promptLine(targets, details);
  const [first, second] = top;
  if (!first) return "";
  if (output === "regression")
    return `The model's value for ${list(
      targets.map((target) => `${quoted(spoken(target))} is ${number(target.logit)}`),
      QUOTED,
    )}.`;
  const guess = `${quoted(first.label)}, ${percent(first.probability)}`;
  const explained = classOf(targets[0]);
  const other =
    targets[0].against || explained !== first.label ? ` Explained here: ${quoted(spoken(targets[0]))}.` : "";
  if (abstention)
    return `The model says ${quoted(abstention.says)}. ${abstention.detail.replace(/(\d)%/g, "$1\u2009%")} Its nearest guess is ${guess}.${other}`;
  if (output === "sigmoid") {
    const present = top
      .filter(({ probability }) => probability >= 0.5)
      .map(({ label, probability }) => `${quoted(label)} (${percent(probability)})`);
    return present.length
      ? `The model says yes to ${list(present, top.length)}.${other}`
      : `The model says yes to none of its labels; nearest comes ${guess}.${other}`;
  }
  if (first.probability >= SURE)
    return `The model says ${quoted(first.label)} and is sure of it: ${percent(first.probability)}.${other}`;
  const next = second ? `; next comes ${quoted(second.label)} with ${percent(second.probability)}` : "";
  if (first.probability >= LIKELY) return `The model says ${guess}${next}.${other}`;
  return `The model is not sure: it says ${guess}${next}.${other}`;
}

/**
 * The cosine of picture and prompt: as the server gives it, else the logit over the scale of the model; null where that
 * is not known.
 * @param {Target} target
 * @param {{logit_scale?: number, logit_bias?: number}} [options]
 * @returns {number | null}
 */
export const cosineOf = (target, { logit_scale: scale, logit_bias: bias } = {}) =>
  target.cosine ?? (scale ? (target.logit - (bias ?? 0)) / scale : null);

/** Of a single prompt: how like the picture it is, and what that says by the line of the model, if it has one. */
function aloneLine(target, details) {
  const cosine = cosineOf(target, details);
  const likeness =
    cosine === null
      ? `a logit of ${number(target.logit)}`
      : `a similarity of ${number(cosine)} (cosine; 1 is the most)`;
  const line = details.calibration?.lines.find(({ kind, score }) => kind === "not_in_picture" && score === "cosine");
  const says =
    line && cosine !== null
      ? `That is above ${number(line.line)}, the line under which this model says “${line.says}”.`
      : "Whether that is much, a second prompt shows: add one to compare.";
  return `${quoted(spoken(target))} and the picture have ${likeness}. ${says}`;
}

function promptLine(targets, details) {
  if (targets.length === 1 && !targets[0].abstention) return aloneLine(targets[0], details);
  const absent = targets.filter(({ abstention }) => abstention);
  const present = targets.filter(({ abstention }) => !abstention).sort((a, b) => b.probability - a.probability);
  const best =
    present[0] && targets.length > 1
      ? `Of these, ${quoted(spoken(present[0]))} fits the picture best: ${percent(present[0].probability)}.`
      : "";
  return [best, ...absent.map((target) => `${quoted(spoken(target))}: ${target.abstention.says}.`)]
    .filter(Boolean)
    .join(" ");
}

/**
 * The target whose maps the sentence is about: of prompts the one that fits best, else the first.
 * @param {Target[]} targets
 * @returns {Target}
 */
export const mainTarget = (targets) =>
  targets[0]?.prompt ? [...targets].sort((a, b) => b.probability - a.probability)[0] : targets[0];

/** The `count` places with the highest scores. */
function strongest(scores, count) {
  return [...scores.keys()].sort((a, b) => scores[b] - scores[a] || a - b).slice(0, count);
}

/** How many of a text's words a method points at. */
const pointedWords = (words) => Math.max(1, Math.min(FEW_WORDS, Math.floor(words / 3)), Math.round(TOP * words));

/** A set of patches with its neighbours. */
function widened(patches, [rows, columns]) {
  const wide = new Set();
  for (const patch of patches) {
    const [row, column] = [Math.floor(patch / columns), patch % columns];
    for (let y = Math.max(0, row - 1); y <= Math.min(rows - 1, row + 1); y++) {
      for (let x = Math.max(0, column - 1); x <= Math.min(columns - 1, column + 1); x++) wide.add(y * columns + x);
    }
  }
  return wide;
}

/**
 * What at least half of the methods point at, and who does and does not. `pointed` is [name, places] of each method,
 * `reach(places)` the places that are near enough. Gives {places, agreeing, others}; no places where they agree on
 * none.
 * @param {[string, number[]][]} pointed
 * @param {(places: number[]) => Set<number>} [reach]
 * @returns {{places: number[], agreeing: string[], others: string[]}}
 */
export function agreement(pointed, reach = (places) => new Set(places)) {
  const votes = new Map();
  for (const [, places] of pointed) for (const place of reach(places)) votes.set(place, (votes.get(place) ?? 0) + 1);
  const places = [...votes.keys()].filter((place) => 2 * votes.get(place) > pointed.length);
  const majority = new Set(places);
  const agrees = ([, pointedAt]) => 2 * pointedAt.filter((place) => majority.has(place)).length >= pointedAt.length;
  const names = (entries) => entries.map(([name]) => name);
  return {
    places: places.sort((a, b) => votes.get(b) - votes.get(a) || a - b),
    agreeing: names(pointed.filter(agrees)),
    others: names(pointed.filter((entry) => !agrees(entry))),
  };
}

/**
 * Where a set of patches lies, in words; null where it is all over the picture.
 * @param {number[]} patches
 * @param {Grid} grid
 * @returns {string | null}
 */
export function whereabouts(patches, [rows, columns]) {
  if (patches.length > WIDE * rows * columns) return null;
  const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;
  const third = (at, size) => Math.min(2, Math.floor((3 * (at + 0.5)) / size));
  const row = third(mean(patches.map((patch) => Math.floor(patch / columns))), rows);
  return NINTHS[3 * row + third(mean(patches.map((patch) => patch % columns)), columns)];
}

const flat = ({ scores }) => scores.every((score) => score === scores[0]);

/**
 * Where most methods point. `maps` are of one target, [{title, map}] with the map as the API gives it; `input` what the
 * model read.
 * @param {{title: string, map: ScoreMap}[]} maps
 * @param {ModelInput} input
 * @returns {string}
 */
export function pointLine(maps, input) {
  const able = maps.filter(({ map }) => !flat(map));
  if (able.length < 2) return "";
  const { grid } = able[0].map;
  return grid ? patchLine(able, grid, maps) : wordLine(able, input, maps);
}

/** Where they point, of `all` maps: who says otherwise, and whose map tells nothing apart. */
function agreementLine({ agreeing, others }, where, all) {
  const silent = all.map(({ title }) => title).filter((title) => !agreeing.includes(title) && !others.includes(title));
  const most =
    agreeing.length < all.length
      ? `${agreeing.length} of ${all.length} methods point`
      : all.length === 2
        ? "Both methods point"
        : `All ${all.length} methods point`;
  const verb = (names, word) => `; ${list(names, NAMED)} ${word}${names.length > 1 ? "" : "s"}`;
  const rest = others.length ? `${verb(others, "say")} otherwise` : "";
  const none = silent.length ? `${verb(silent, "point")} nowhere` : "";
  return `${most} ${where}${rest}${none}.`;
}

function patchLine(maps, grid, all) {
  const size = grid[0] * grid[1];
  const pointed = maps.map(({ title, map }) => [title, strongest(map.scores, Math.max(1, Math.round(TOP * size)))]);
  const agreed = agreement(pointed, (patches) => widened(patches, grid));
  const where = agreed.places.length ? whereabouts(agreed.places, grid) : null;
  if (!agreed.places.length || !agreed.agreeing.length) return "The methods point at different places.";
  return agreementLine(
    agreed,
    where ? where.replace(/^(in|at) /, "to ") : "to the same places, spread over much of the picture",
    all,
  );
}

function wordLine(maps, { words }, all) {
  const pointed = maps
    .map(({ title, map }) => [title, words.map((word) => unitScore(map.scores, word, map.signed))])
    // what speaks for the answer
    .map(([title, scores]) => [title, strongest(scores, pointedWords(words.length)).filter((i) => scores[i] > 0)])
    .filter(([, places]) => places.length);
  if (pointed.length < 2) return "";
  const agreed = agreement(pointed);
  if (!agreed.places.length || !agreed.agreeing.length) return "The methods point at different words.";
  return agreementLine(
    agreed,
    `at ${list(
      agreed.places.slice(0, QUOTED).map((i) => quoted(words[i].text)),
      QUOTED,
    )}`,
    all,
  );
}
