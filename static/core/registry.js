// The methods of a model: each with every rule, what each pair is called, how far it can be trusted, and why one
// cannot run.

import { count } from "./dom.js";
import { learnRules, ruleName } from "./rules.js";

/**
 * @import { Methods, SpecParts } from "./schemas.js"
 * @import { Listed, Standing, Variant } from "./types.js"
 */

/**
 * Return whether a method compares patches with prompts: forward passes give its maps of all prompts at once, before
 * any other's.
 * @param {{family?: string}} variant
 * @returns {boolean}
 */
export const isForwardOnly = ({ family }) => family === "similarity";

/**
 * Return whether a variant explains anything: the control is drawn at random, to be compared with.
 * @param {{family?: string}} variant
 * @returns {boolean}
 */
export const isMethod = ({ family }) => family !== "control";

/**
 * Count methods in words, with the control apart: "11 methods + random", "7 more methods + random".
 * @param {{family?: string}[]} variants
 * @param {string} [more]
 * @returns {string}
 */
export function countMethods(variants, more = "") {
  const methods = variants.filter(isMethod).length;
  return sayMethods(methods, variants.length - methods, more);
}

/**
 * Say a number of methods, and whether the control is among them, in words.
 * @param {number} methods
 * @param {number} controls
 * @param {string} [more]
 * @returns {string}
 */
export const sayMethods = (methods, controls, more = "") =>
  [methods && count(methods, `${more}method`), controls && "random"].filter(Boolean).join(" + ");

/**
 * The name of a plate, by which a screen reader distinguishes maps.
 * @param {{title: string, rule: string | null, names_rule?: boolean}} options
 * @returns {string}
 */
export const plateName = ({ title, rule, names_rule: isRuleNamed }) =>
  rule && !isRuleNamed ? `${title}, rule ${ruleName(rule)}` : title;

/**
 * The names of methods where they stand next to each other: as on their plates, with the rule only where two would be
 * called the same.
 * @param {{spec: string, title: string, rule: string | null, names_rule?: boolean}[]} variants
 * @returns {Map<string, string>}
 */
export function methodNames(variants) {
  const specs = new Map(variants.map((variant) => [variant.spec, variant]));
  /** @param {string} title */
  const isShared = (title) => [...specs.values()].filter((variant) => variant.title === title).length > 1;
  return new Map(
    [...specs].map(([spec, variant]) => [spec, isShared(variant.title) ? plateName(variant) : variant.title]),
  );
}

/** @type {Map<string, Pick<SpecParts, "pair" | "options">>} the server takes specs apart, and options spell them */
const parts = new Map();

/**
 * Store the parts of specs that no method lists.
 * @param {(Pick<SpecParts, "spec" | "pair" | "options">)[]} specs
 */
export function learnSpecs(specs) {
  for (const { spec, ...rest } of specs) parts.set(spec, rest);
}

/**
 * The options of a spec, [name, value] each.
 * @param {string} spec
 * @returns {string[][]}
 */
export const optionsOf = (spec) =>
  Object.entries(parts.get(spec)?.options ?? {}).map(([name, value]) => [name, String(value)]);

/**
 * Return whether the maps of a spec depend on the other prompts: what they have in common is taken away.
 * @param {string} spec
 * @returns {boolean}
 */
export const isRelative = (spec) => optionsOf(spec).some(([name, value]) => name === "less" && value === "prompts");

/**
 * The options of a spec, "steps=8" each.
 * @param {string} spec
 * @returns {string[]}
 */
export const optionTexts = (spec) => optionsOf(spec).map((option) => option.join("="));

/**
 * Return whether a pair that cannot run for the model can with an option: what is missing is the model's lack, and the
 * pair makes sense.
 * @param {{reason?: string | null, remedies?: string[]}} pair
 * @returns {boolean}
 */
export const canBeRemedied = (pair) => Boolean(pair.reason && pair.remedies?.length);

/**
 * The line of a method that holds for the question: of one answer rather than another, maps are about the difference of
 * the two; of an output with places, attention is the same for every answer at the place that is asked about alone.
 * @param {string | undefined} line
 * @param {boolean} rather
 * @param {boolean} hasPlaces
 */
export function lineFor(line, rather, hasPlaces) {
  const ofPlace = hasPlaces ? line?.replace("for every answer", "for every answer at this place") : line;
  return rather ? ofPlace?.replace("the answer", "the difference") : ofPlace;
}

const LEADERS = 4;
/** @param {Variant} variant */
const rankOrLast = ({ standing }) => standing?.rank ?? Infinity;
/** @param {Variant} variant */
const placeOf = ({ place }) => place ?? Infinity;

/**
 * Keep the first method of each family.
 * @param {Variant[]} ranked
 * @returns {Variant[]}
 */
function firstOfFamilies(ranked) {
  const seen = new Set();
  return ranked.filter(({ family }) => !seen.has(family) && seen.add(family));
}

/**
 * Put plates in the order of the page: of each family the method that was measured best, the best of all in front; then
 * the others as they were. The first four of them lead; where there are fewer families, the next best lead too, and
 * the control never does. Where it is asked why one answer `rather` than another, methods that show what speaks against
 * come first.
 * @param {Variant[]} variants in the fixed order
 * @param {boolean} [rather]
 * @returns {Variant[]}
 */
export function inOrder(variants, rather = false) {
  const isLate = (/** @type {Variant} */ { signed }) => Number(rather && !signed);
  const ranked = variants
    .filter(isMethod)
    .sort((a, b) => isLate(a) - isLate(b) || rankOrLast(a) - rankOrLast(b) || placeOf(a) - placeOf(b));
  const best = firstOfFamilies(ranked.filter((variant) => !isLate(variant)));
  const leading = best.slice(0, LEADERS);
  leading.push(...ranked.filter((variant) => !leading.includes(variant)).slice(0, LEADERS - leading.length));
  const rest = [...new Set([...best, ...variants.toSorted((a, b) => isLate(a) - isLate(b))])];
  return [
    ...leading.map((variant) => ({ ...variant, leads: true })),
    ...rest.filter((variant) => !leading.includes(variant)),
  ];
}

/** The methods of a model, by spec. */
export class Registry {
  /**
   * `listed` is the answer of GET /api/methods.
   * @param {Partial<Methods>} [options]
   */
  constructor({
    methods = [],
    variants = [],
    families = [],
    presets = [],
    standing = null,
    asides = {},
    rules = [],
  } = {}) {
    this.methods = methods;
    this.families = families;
    this.presets = presets;
    this.standing = standing;
    this.asides = asides;
    this.rules = rules;
    learnRules(rules);
    this.usual = variants.filter((variant) => variant.default && !variant.reason).map((variant) => variant.spec);
    const ties = Object.values(standing?.ranks ?? {}).filter(({ tied }) => tied).length;
    /**
     * The rank of a spec with what it was measured by; null for one that was not measured.
     * @type {(spec: string) => Standing | null}
     */
    this.rankOf = (spec) =>
      standing?.ranks[spec] ? { ...standing, ranks: null, ties, ...standing.ranks[spec] } : null;
    const pairs = methods.flatMap((method) => {
      const lines = method.pairs.map(({ line }) => line);
      const own = lines.reduce((a, b) => (b.length < a.length ? b : a), lines[0] ?? "");
      return method.pairs.map((pair) => ({
        ...method,
        ...pair,
        ...(pair.line.startsWith(own) ? { line: own, ruleLine: pair.line.slice(own.length).trim() } : {}),
        readout: method.name,
        standing: this.rankOf(pair.spec),
      }));
    });
    // stable: else as declared
    pairs.sort(
      (a, b) =>
        Number(a.classic) - Number(b.classic) || (a.standing?.rank ?? Infinity) - (b.standing?.rank ?? Infinity) || 0,
    );
    /** @type {Map<string, Listed>} what a plate says of each spec, in the order of the page */
    this.pairs = new Map(pairs.map((pair, place) => [pair.spec, { ...pair, place }]));
  }

  /**
   * The number of pairs that can run.
   * @returns {number}
   */
  get size() {
    return [...this.pairs.values()].filter((pair) => !pair.reason).length;
  }

  /**
   * Return whether these are the methods that are shown where nobody chose any.
   * @param {string[]} specs
   * @returns {boolean}
   */
  isUsual(specs) {
    return specs.length === this.usual.length && this.usual.every((spec) => specs.includes(spec));
  }

  /**
   * The method with its rule that a spec asks for; undefined where it is not known.
   * @param {string} spec
   * @returns {Listed | undefined}
   */
  pairOf(spec) {
    return this.pairs.get(parts.get(spec)?.pair ?? spec);
  }

  /**
   * Return whether a spec can be asked for: as it stands, or with an option that makes up for what the model lacks.
   * @param {string} spec
   * @returns {boolean}
   */
  runs(spec) {
    const pair = this.pairOf(spec);
    const specOptions = optionTexts(spec);
    return (
      pair?.reason === null ||
      Boolean(pair && canBeRemedied(pair) && pair.remedies.some((option) => specOptions.includes(option)))
    );
  }

  /**
   * The variant that a plate shows for a spec, with or without options; null for one that is not known. With options it
   * has the rank that was measured with these, if any; a relative map has none, as it depends on the other prompts.
   * @param {string} spec
   * @returns {Variant | null}
   */
  plate(spec) {
    const pair = this.pairOf(spec);
    const options = optionTexts(spec).join("&");
    if (!pair || !options) return pair ? { ...pair, spec } : null;
    const standing = isRelative(spec) ? null : this.rankOf(spec);
    return { ...pair, spec, standing, title: `${pair.title} (${options})` };
  }

  /**
   * The variants of these specs in the order of the page; see `inOrder`.
   * @param {string[]} specs
   * @param {boolean} [rather]
   * @returns {Variant[]}
   */
  plates(specs, rather = false) {
    const known = specs.map((spec) => this.plate(spec)).filter((variant) => variant !== null);
    known.sort((a, b) => placeOf(a) - placeOf(b) || specs.indexOf(a.spec) - specs.indexOf(b.spec));
    return inOrder(known, rather);
  }
}
