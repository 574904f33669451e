// Which plate to look at first, why, and what its map cannot say: in words, from what was measured.

import { count, number } from "../core/dom.js";
import { isMethod } from "../core/registry.js";

/**
 * @import { RankingMetric } from "../core/schemas.js"
 * @import { Standing, Variant } from "../core/types.js"
 */

/**
 * @param {RankingMetric} item
 * @param {number | null} value
 */
const figure = ({ unit }, value) =>
  value === null ? "–" : unit === "share" ? `${number(100 * value)}\u2009%` : number(value, 2);

/**
 * Return whether scores add up to the whole of a number: they do not where the biases' part is left out, or that of an
 * empty input.
 * @param {string | null} [total] what they add up to, in words
 */
const isWhole = (total) => Boolean(total && !/ but for | less /.test(total));

/**
 * The limits of a method's map, as the end of "its map cannot say …".
 * @param {Variant} variant
 * @returns {string}
 */
function cannotSay({ class_specific: isOfClass, signed, adds_up_to: total }) {
  const open = [
    isOfClass ? null : "why this answer and not another",
    signed ? null : "what speaks against the answer",
    isWhole(total) ? null : "how much of the answer each part makes up: trust the order, not the sizes",
  ].filter(Boolean);
  return open.length
    ? open.join(", nor ")
    : "what the model would say without a part: the test at the foot of the page shows that";
}

/**
 * Return whether the method may be the one to look at first, as the server says and the leaderboard shows: on this very
 * model nothing was measured to be better.
 * @param {Variant | undefined} variant
 * @returns {boolean}
 */
export const isRecommended = (variant) => Boolean(variant?.standing?.here && variant.standing.recommended);

/**
 * The recommended method: the first of those that nothing was measured to be better than, but none of which the map of
 * this input is in doubt.
 * @param {Variant[]} first the plates that come first, in their order
 * @param {Set<string>} doubtful the specs of the maps that cannot be trusted for this input
 * @returns {Variant | undefined}
 */
export const recommendedOf = (first, doubtful) =>
  isRecommended(first.find(isMethod))
    ? first.find((variant) => isMethod(variant) && isRecommended(variant) && !doubtful.has(variant.spec))
    : undefined;

/**
 * Say which maps among the methods that are best on many inputs cannot be trusted for this one; "" where all can.
 * @param {Variant[]} methods
 */
const distrust = (methods) =>
  methods.length
    ? `Do not trust ${methods
        .map(({ title }) => title)
        .join(", ")
        .replace(/, ([^,]*)$/, " and $1")} here: “!” says why.`
    : "";

/**
 * The measured quality of the method, in a sentence; empty where it was not measured.
 * @param {Variant} variant
 * @returns {string}
 */
export function measuredLine({ standing }) {
  if (!standing) return "";
  const { metric, value, random, here, model, measured } = standing;
  const where = `${here ? "" : `With ${model}, not this model, `}on ${measured}: `;
  return `${where[0].toUpperCase()}${where.slice(1)}“${metric.title}” ${figure(metric, value)}, ${figure(metric, random)} for a random map.`;
}

/**
 * The details of the measurement, for readers who know the metrics.
 * @param {Standing} standing
 */
function reason(standing) {
  const { metric, second, ties, of, rank } = standing;
  /**
   * @param {RankingMetric} by
   * @param {number | null} value
   * @param {number | null} random
   */
  const measured = (by, value, random) => `“${by.title}” ${figure(by, value)} (${figure(by, random)} for a random map)`;
  const figures = [
    measured(metric, standing.value, standing.random),
    second && measured(second, standing.second_value, standing.random_second),
  ];
  const place =
    ties === 1
      ? `It is the best of ${of} methods.`
      : `${ties} of ${of} methods tie for first; this one ${rank === 1 ? `has the highest “${metric.title}”` : "is among them"}.`;
  return `${place} Measured with this model on ${standing.measured}: ${figures.filter(Boolean).join(", ")}.`;
}

/**
 * A sentence of the server about a metric, with the numbers in it.
 * @param {string} says
 * @param {number} value
 * @param {number | null} random
 */
const filled = (says, value, random) =>
  says.replace("{value}", number(100 * value)).replace("{random}", random === null ? "–" : number(100 * random));

/**
 * The reason for the order of the first plates, in a sentence; empty where they are of one family.
 * @param {Variant[]} methods the methods that come first, in their order
 * @param {boolean} rather whether it is asked why one answer rather than another
 * @returns {string}
 */
export function orderLine(methods, rather) {
  if (rather && methods[0].signed) return "Maps that show for and against come first.";
  return new Set(methods.map(({ family }) => family)).size > 1
    ? "Of each family of methods, the best comes first."
    : "";
}

/**
 * The heading above the first plates: {title, says} with the recommended method, on how much what was measured of it,
 * and the reason for the order; of a model that was not measured, with whose order it has. Null where there is neither.
 * Where a map of this input is in doubt, it says so at once.
 * @param {Variant[]} first the plates that come first, in their order
 * @param {boolean} [rather] whether it is asked why one answer rather than another
 * @param {Set<string>} [doubtful] the specs of the maps that cannot be trusted for this input
 * @returns {{title: string, says: string} | null}
 */
export function lead(first, rather = false, doubtful = new Set()) {
  const methods = first.filter(isMethod);
  const [best] = methods;
  if (!best?.standing) return null;
  const order = orderLine(methods, rather);
  const { inputs, here, model } = best.standing;
  if (!here) return { title: "Not measured with this model.", says: `The order is that of ${model}, on ${inputs}.` };
  if (!isRecommended(best)) return rather && order ? { title: order, says: "" } : null;
  const unsure = methods.filter((variant) => isRecommended(variant) && doubtful.has(variant.spec));
  const chosen = recommendedOf(methods, doubtful);
  if (!chosen?.standing) return { title: "No map is recommended here.", says: distrust(unsure) };
  const { metric, ties, of, value, random } = chosen.standing;
  const others = ties > 1 ? `${count(ties - 1, "other method")} may be as good.` : `It is the best of ${of} methods.`;
  const measured = `On ${inputs}, ${filled(metric.says, value, random)}.`;
  return {
    title: `Look at ${chosen.title} first.`,
    says: [measured, distrust(unsure) || others, order].filter(Boolean).join(" "),
  };
}

/**
 * The note under the first plates: {title, says} with why the first one comes first, or why none is recommended; null
 * where nothing was measured at all.
 * @param {Variant[]} first the plates that come first, in their order
 * @param {Set<string>} [doubtful] the specs of the maps that cannot be trusted for this input
 * @returns {{title: string, says: string} | null}
 */
export function recommendation(first, doubtful = new Set()) {
  const [best] = first.filter(isMethod);
  const standing = best?.standing ?? first.map((variant) => variant.standing).find(Boolean);
  if (!standing) return null;
  if (!standing.here)
    return {
      title: "Not measured with this model.",
      says: `The methods are in the order measured with ${standing.model} on ${standing.measured}.`,
    };
  const chosen = recommendedOf(first, doubtful);
  if (!chosen?.standing) return null;
  return {
    title: chosen === best ? `Why ${best.title} comes first.` : `Why ${chosen.title} is recommended.`,
    says: `${reason(chosen.standing)} ${chosen.title}'s map cannot say ${cannotSay(chosen)}.`,
  };
}
