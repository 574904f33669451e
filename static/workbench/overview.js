// One sentence over the plates: what the model says and how sure it is.

import { number, percent } from "../core/dom.js";
import { SAME_FROM } from "../core/stats.js";
import { amongPrompts, headingTargets, isDoubt, targetInWords, VERDICTS } from "../core/targets.js";

/**
 * @import { Abstention, Target } from "../core/schemas.js"
 * @import { Known } from "./types.js"
 */

const SURE = 0.9;
const LIKELY = 0.6;
const QUOTED = 3; // words that are named
const MOST_DIGITS = 6; // of a score next to its threshold
const MOST_NAMED = 5; // prompts that are not found for sure; of more, their numbers
const FIRST_SENTENCE = /^.*?\.(?= [A-Z]|$)/; // the figures after it are shown at the prompt

/** @param {Target} target */
const likelihood = ({ probability }) => probability ?? 0; // of softmax and sigmoid each target has one

/** @param {string} text */
const quoted = (text) => `“${text}”`;

/**
 * @param {string[]} names
 * @param {number} most
 */
function list(names, most) {
  const shown = names.slice(0, most);
  const rest = names.length - shown.length;
  if (rest) return `${shown.join(", ")} and ${rest} more`;
  return shown.length > 1 ? `${shown.slice(0, -1).join(", ")} and ${shown.at(-1)}` : shown.join("");
}

/**
 * Names of which none, or none for sure, is meant: with "or"; of more than `most` their number.
 * @param {string[]} names
 * @param {number} most
 */
const alternatives = (names, most) =>
  names.length > most
    ? `${names.length} of these`
    : names.length > 1
      ? `${names.slice(0, -1).join(", ")} or ${names.at(-1)}`
      : names.join("");

/**
 * Return whether the model gives no answer to an input: its classes are then guesses.
 * @param {Abstention | undefined} abstention
 * @returns {boolean}
 */
export const isWithheld = (abstention) => (abstention ? !isDoubt(abstention) : false);

/**
 * Make an answer with its doubt; what comes next stands in the list of answers.
 * @param {Abstention} doubt
 * @param {Target} target
 */
const doubtLine = (doubt, { label, probability }) =>
  `${quoted(label)}, ${percent(probability ?? 0)}? ${inWords(doubt)}`;

/**
 * A text without the numbers in brackets at the ends of its sentences, which a page shows on hover.
 * @param {string} text
 * @returns {string}
 */
export const withoutNumbers = (text) => text.replace(/ \([^()]*\)(?=\.( |$))/g, "");

/**
 * The sentence of an abstention, its percentages as the page writes them.
 * @param {Abstention} abstention
 */
const inWords = ({ detail }) => withoutNumbers(detail).replace(/(\d)%/g, "$1\u2009%");

/**
 * Say what the model answers, how sure it is, and what it says of the class that it is set against. The first argument
 * is {top, targets, abstention?, output} as the API
 * gives it, as `details` of the model are.
 * @param {{top?: Target[], targets: Target[], abstention?: Abstention, output?: string}} answer
 * @param {Known} [details]
 * @returns {string}
 */
export function answerLine(answer, details = {}) {
  return [ownLine(answer, details), againstLine(answer)].filter(Boolean).join(" ");
}

/**
 * Say how likely the class is that the explained one is set against; of one that is not among the first, that it is
 * less likely than the last of them. Empty where there is none, or it stands in the sentence before.
 * @param {{top?: Target[], targets: Target[], output?: string}} answer
 */
function againstLine({ top = [], targets: [target], output }) {
  const { against, prompt } = target ?? {};
  if (!against || prompt || output !== "softmax" || against.startsWith("any:")) return "";
  const at = top.findIndex(({ label }) => label === against);
  const last = top.at(-1);
  if (at < 0) return last ? `${quoted(against)} has less than ${percent(likelihood(last)).replace("<", "")}.` : ""; // <0.1 % is less already
  return at > 1 ? `${quoted(against)} has ${percent(likelihood(top[at]))}.` : "";
}

/**
 * @param {{top?: Target[], targets: Target[], abstention?: Abstention, output?: string}} options
 * @param {Known} details
 */
function ownLine({ top = [], targets, abstention, output }, details) {
  if (targets[0]?.prompt !== undefined && targets[0]?.prompt !== null) return promptLine(targets, details);
  const [first, second] = top;
  if (!first) return "";
  if (output === "regression")
    return `The model's value for ${list(
      targets.map((target) => `${quoted(targetInWords(target))} is ${number(target.logit)}`),
      QUOTED,
    )}.`;
  const guess = `${quoted(first.label)}, ${percent(likelihood(first))}`;
  const isEven = second && percent(likelihood(first)) === percent(likelihood(second));
  const next = isEven
    ? `; ${quoted(second.label)} is as likely`
    : second
      ? `; next comes ${quoted(second.label)} with ${percent(likelihood(second))}`
      : "";
  if (abstention && isDoubt(abstention)) return doubtLine(abstention, first);
  if (abstention)
    return `The model says ${quoted(abstention.says)}. ${inWords(abstention)} Its nearest guess is ${guess}.`;
  if (output === "sigmoid") {
    const present = top
      .filter((target) => likelihood(target) >= 0.5)
      .map((target) => `${quoted(target.label)} (${percent(likelihood(target))})`);
    return present.length
      ? `The model says yes to ${list(present, QUOTED)}.`
      : `The model says yes to none of its labels; nearest comes ${guess}.`;
  }
  if (likelihood(first) >= SURE)
    return `The model says ${quoted(first.label)} and is sure of it: ${percent(likelihood(first))}.`;
  if (likelihood(first) >= LIKELY) return `The model says ${guess}${next}.`;
  return `The model is not sure: it says ${guess}${next}.`;
}

/**
 * The cosine of picture and prompt: as the server gives it, else the logit over the scale of the model; null where that
 * is not known.
 * @param {Target} target
 * @param {{logit_scale?: number, logit_bias?: number}} [options]
 * @returns {number | null}
 */
export const cosineOf = (target, { logit_scale: scale, logit_bias: bias } = {}) =>
  scale ? (target.logit - (bias ?? 0)) / scale : null;

/**
 * Return whether the model distinguishes prompts that it found from those that it did not.
 * @param {Known} details
 * @returns {boolean}
 */
export const findsPrompts = ({ calibration }) =>
  Boolean(calibration?.lines.some(({ kind }) => kind === "not_in_picture"));

/**
 * Say how like the picture a single prompt is, for a model that cannot say whether it found it.
 * @param {Target} target
 * @param {Known} details
 */
function aloneLine(target, details) {
  const cosine = cosineOf(target, details);
  const likeness = cosine === null ? `a logit of ${number(target.logit)}` : `a cosine of ${number(cosine)}`;
  return `${quoted(targetInWords(target))} and the picture have ${likeness}. Add a second prompt to see whether that is much.`;
}

/**
 * Say which prompts were found, which of these fits best, with its share, and what the others are.
 * @param {Target[]} targets
 * @param {Known} details
 */
function promptLine(targets, details) {
  const isFinding = findsPrompts(details);
  if (targets.length === 1 && !targets[0].abstention && !isFinding) return aloneLine(targets[0], details);
  const found = targets.filter(({ abstention }) => !abstention);
  /** @param {(kind: string) => boolean} holds */
  const judged = (holds) => targets.filter(({ abstention }) => abstention && holds(abstention.kind));
  /** @param {Target[]} some */
  const named = (some) =>
    alternatives(
      some.map((target) => quoted(targetInWords(target))),
      perhaps.length + unfound.length + others.length > MOST_NAMED ? 1 : QUOTED,
    );
  const [unfound, perhaps] = ["not_in_picture", "perhaps_in_picture"].map((kind) => judged((other) => other === kind));
  const others = judged((kind) => !["not_in_picture", "perhaps_in_picture"].includes(kind));
  const [best] = [...found].sort((a, b) => likelihood(b) - likelihood(a));
  const names = found.map((target) => quoted(targetInWords(target)));
  const doubts = [
    perhaps.length && `It is not sure of ${named(perhaps)}.`,
    unfound.length && `It did not find ${named(unfound)}.`,
    others.length > 1 && `It cannot judge ${named(others)}.`,
    others.length === 1 && others[0].abstention && inWords(others[0].abstention).match(FIRST_SENTENCE)?.[0],
  ].filter(Boolean);
  return [
    found.length &&
      isFinding &&
      `It found ${found.length > QUOTED ? `${found.length} of these` : list(names, QUOTED)}.`,
    found.length > (isFinding ? 1 : 0) &&
      doubts.length < 2 && // else it is too much to read; the shares stand at the prompts
      `${quoted(targetInWords(best))} fits the whole picture best: ${amongPrompts(likelihood(best))}.`,
    ...doubts,
  ]
    .filter(Boolean)
    .join(" ");
}

/**
 * The target whose maps the sentence is about: of prompts the one that fits best, of those found where there are any;
 * else the first.
 * @param {Target[]} targets
 * @returns {Target}
 */
export const mainTarget = (targets) =>
  targets[0]?.prompt ? [...headingTargets(targets)].sort((a, b) => likelihood(b) - likelihood(a))[0] : targets[0];

/**
 * The target that the sentence on the maps is about, for before it; "" where there is one target.
 * @param {Target[]} targets
 * @returns {string}
 */
export const aboutWhich = (targets) =>
  targets[0]?.prompt && targets.length > 1 ? `For ${quoted(targetInWords(mainTarget(targets)))}: ` : "";

const MOST_TITLES = 2; // methods that are named; of more, their number

/**
 * Say which methods show the same map for both of two classes, which then shows nothing of what sets them apart.
 * @param {{title: string, r: number | null}[]} pairs each method with the correlation of its two maps
 * @returns {string}
 */
export function sameMapLine(pairs) {
  const known = pairs.filter(({ r }) => r !== null);
  const same = known.filter(({ r }) => Number(r) > SAME_FROM);
  const other = known.filter((pair) => !same.includes(pair));
  if (!known.length) return "";
  /** @param {{title: string}[]} some */
  const named = (some) =>
    some.length > MOST_TITLES
      ? `${some.length} of ${known.length} methods`
      : list(
          some.map(({ title }) => title),
          MOST_TITLES,
        );
  const rest =
    other.length > MOST_TITLES
      ? "the others do not"
      : other.length
        ? `${named(other)} ${other.length > 1 ? "do" : "does"} not`
        : "";
  if (same.length)
    return `${named(same)} ${same.length > 1 ? "show" : "shows"} the same map for both${rest && `; ${rest}`}.`;
  return known.length > 1 ? "No method shows the same map for both." : `${known[0].title} shows another map for each.`;
}

const CAPTION = /\b(photo|photograph|picture|image|drawing)\b/i; // in prompts of the form that the thresholds are for
/** @type {{[score: string]: string}} */
const JUDGED_BY = { patch_cosine: "best patches", cosine: "cosine" };

/**
 * The line of the calibration by which a prompt was judged; undefined where that was by no score of the picture.
 * @param {Abstention} judgement
 * @param {Known} known
 */
const lineOf = ({ kind, line }, { calibration }) =>
  calibration?.lines.find((each) => each.kind in VERDICTS && each.kind === kind && each.line === line);

/**
 * Count the significant digits, three or more, at which a score differs from every threshold of its kind: rounded to
 * three a prompt might seem to reach the threshold that it misses.
 * @param {Abstention} judgement
 * @param {Known} known
 * @returns {number}
 */
function digitsOf(judgement, known) {
  const line = lineOf(judgement, known);
  const limits = (known.calibration?.lines ?? []).filter(
    (each) => each.kind in VERDICTS && each.score === line?.score && (each.prompts ?? "") === (line?.prompts ?? ""),
  );
  const { score } = judgement;
  /** @param {number} digits */
  const areTold = (digits) =>
    limits.every((limit) => limit.line === score || number(limit.line, digits) !== number(score, digits));
  return [3, 4, 5].find(areTold) ?? MOST_DIGITS;
}

/**
 * Say whether the model found a prompt: "found", "perhaps", "not found" or why it cannot judge it. Of a model that does
 * not tell, how like the picture the prompt is; of one that is set against another, by how much it is likelier.
 * @param {Target} target
 * @param {Known} known
 * @returns {string}
 */
export function findingLine(target, known) {
  if (target.against) return `logit ${number(target.logit)} above “${target.against}”`;
  const { abstention } = target;
  if (abstention) return VERDICTS[abstention.kind] ?? `${abstention.says} · ${likenessOf(target, known)}`;
  return findsPrompts(known) ? "found" : likenessOf(target, known);
}

/**
 * The share of a prompt, one of `count`, among the prompts, with what it is a share of; "" for a prompt alone, which
 * has none, and for one not found for sure.
 * @param {Target} target
 * @param {number} count
 * @param {string} [output]
 * @returns {string}
 */
export function shareLine({ abstention, against, probability }, count, output) {
  if (abstention || against || count < 2) return "";
  return output === "sigmoid" ? `probability ${percent(probability ?? 0)}` : amongPrompts(probability ?? 0);
}

/**
 * How far a prompt is found, as the length of its bar: 1 found, 0.5 perhaps, 0 not found or not judged. Of a model that
 * does not tell, its share.
 * @param {Target} target
 * @param {number} count
 * @param {Known} known
 * @returns {number}
 */
export function findingLevel({ abstention, probability, against }, count, known) {
  if (against) return 0;
  if (abstention) return abstention.kind === "perhaps_in_picture" ? 0.5 : 0;
  return findsPrompts(known) ? 1 : count > 1 ? (probability ?? 0) : 0;
}

/**
 * The number by which a prompt was judged, with the thresholds: "best patches 0.0600; found from 0.180". "" for one
 * that was found, of which the server does not say it.
 * @param {Target} target
 * @param {Known} known
 * @returns {string}
 */
export function judgedBy({ abstention }, known) {
  const line = abstention && lineOf(abstention, known);
  if (!line) return "";
  const digits = digitsOf(abstention, known);
  const limit = limitOf("perhaps_in_picture", line, known) ?? limitOf("not_in_picture", line, known) ?? line.line;
  return `${JUDGED_BY[line.score] ?? line.score} ${number(abstention.score, digits)}; found from ${number(limit, digits)}`;
}

/**
 * The threshold of this kind that belongs to the same score and the same kind of prompts as `line`.
 * @param {string} name
 * @param {{score: string, prompts?: string | null}} line
 * @param {Known} known
 */
const limitOf = (name, { score, prompts }, known) =>
  known.calibration?.lines.find(
    (line) => line.kind === name && line.score === score && (line.prompts ?? "") === (prompts ?? ""),
  )?.line;

/**
 * How like the whole picture a prompt is.
 * @param {Target} target
 * @param {Known} known
 * @returns {string}
 */
export function likenessOf(target, known) {
  const near = cosineOf(target, known);
  return near === null ? `logit ${number(target.logit)}` : `cosine ${number(near)}`;
}

/**
 * The rules by which prompts of these targets were judged, in sentences, with their thresholds; none where all were
 * found.
 * @param {Target[]} targets
 * @param {Known} known
 * @returns {string[]}
 */
export function judgingRules(targets, known) {
  const judged = targets.filter(({ abstention }) => abstention && lineOf(abstention, known));
  const judgements = judged.flatMap(({ abstention }) => abstention ?? []);
  const lines = judgements.flatMap((judgement) => lineOf(judgement, known) ?? []);
  const digits = Math.max(3, ...judgements.map((judgement) => digitsOf(judgement, known)));
  const kinds = new Map(lines.map((line) => [line.prompts ?? "", line]));
  const rules = [...kinds].map(([kind, line]) => {
    const [least, most] = ["not_in_picture", "perhaps_in_picture"].map((name) => limitOf(name, line, known));
    const what = JUDGED_BY[line.score] ?? line.score;
    const between = least !== undefined && most !== undefined ? `, perhaps from ${number(least, digits)}` : "";
    return `A prompt${kind && ` for a ${kind}`} is found from ${what} ${number(most ?? least ?? 0, digits)}${between}.`;
  });
  const scores = judged.map(({ label, abstention }) => `“${label}” has ${number(abstention?.score ?? 0, digits)}.`);
  const isByPatches = lines.some(({ score }) => score === "patch_cosine");
  if (!isByPatches) return [...rules, ...scores];
  const bare = judged.find(({ label }) => !CAPTION.test(label));
  const form =
    bare &&
    `The thresholds are of prompts such as “a photo of a dog”: written so, ${quoted(bare.label)} may be judged otherwise.`;
  return [...rules, ...scores, "The likeness to the whole picture does not decide that.", ...(form ? [form] : [])];
}
