// The methods of a model: each with every rule, what each pair is called, how far it can be trusted, and why one
// cannot run.

import { count } from "./dom.js";
import { learnRules } from "./rules.js";

/**
 * An option of a method.
 * @typedef {object} MethodOption
 * @property {string} name
 * @property {"int" | "float" | "bool" | "str"} kind
 * @property {number | boolean | string | null} default
 * @property {string} help
 * @property {number | null} minimum
 * @property {number | null} maximum
 * @property {string[]} choices
 * @property {string} allowed in words
 */

/**
 * A method with one rule, as the method lists it.
 * @typedef {object} MethodPair
 * @property {string} spec
 * @property {string | null} rule
 * @property {string} title
 * @property {string} by
 * @property {number | null} year
 * @property {string} paper
 * @property {string | null} adds_up_to
 * @property {string | null} reason why the pair cannot run; null where it can
 * @property {string[]} remedies the options with which it can all the same
 * @property {string} line what it shows, in plain words
 */

/**
 * A method, with all its rules.
 * @typedef {object} Method
 * @property {string} name
 * @property {string} title
 * @property {string} family
 * @property {boolean} classic
 * @property {string | null} rule the usual one
 * @property {string[]} rules those that make sense
 * @property {boolean} signed
 * @property {boolean} class_specific
 * @property {boolean} slow
 * @property {boolean} summed whether it is a sum over blocks
 * @property {string} description
 * @property {string} passes
 * @property {MethodOption[]} options
 * @property {MethodPair[]} pairs
 */

/**
 * The place of a method in a run that ships.
 * @typedef {object} Standing
 * @property {number} rank
 * @property {number} of how many methods
 * @property {number} value by the metric
 * @property {number} low end of the interval
 * @property {number} high end of the interval
 * @property {boolean} tied with the best: cannot be told from it
 * @property {number} ties how many methods cannot be told from the best, which is one of them
 * @property {boolean} here whether it was measured on this very model
 * @property {string} run that ships, its id on the leaderboard
 * @property {string} model on which it was measured
 * @property {string} measured on what
 * @property {string} inputs on how many, such as "60 pictures"
 * @property {{name: string, title: string, unit: string, direction: string, asks: string}} metric
 * @property {number} random what the random baseline has
 * @property {{title: string, unit: string} | null} second the metric that decides among those tied with the best
 * @property {number | null} second_value by it
 * @property {number | null} random_second what the random baseline has by it
 */

/**
 * What a plate says of its method: a method with a rule, and with options where the spec has any.
 * @typedef {object} Variant
 * @property {string} spec
 * @property {string} readout
 * @property {string | null} rule
 * @property {string} title
 * @property {boolean} signed
 * @property {boolean} [class_specific]
 * @property {string} [by]
 * @property {number | null} [year]
 * @property {string} [paper]
 * @property {string} [family]
 * @property {boolean} [classic]
 * @property {boolean} [slow]
 * @property {boolean} [summed]
 * @property {string} [line] what it shows, in plain words
 * @property {string} [description]
 * @property {string} [passes]
 * @property {string[]} [rules]
 * @property {MethodOption[]} [options]
 * @property {string | null} [adds_up_to]
 * @property {string | null} [reason] why it cannot run
 * @property {string[]} [remedies]
 * @property {Standing | null} [standing]
 * @property {number} [place] in the order of the page
 */

/**
 * A backward rule.
 * @typedef {object} Rule
 * @property {string} name
 * @property {string} label
 * @property {string} short
 * @property {string} group of rules, or ""
 */

/**
 * What can be asked of a model, as GET /api/methods gives it.
 * @typedef {object} MethodList
 * @property {Method[]} [methods]
 * @property {{spec: string, default: boolean, reason: string | null}[]} [variants]
 * @property {{name: string, title: string, line: string}[]} [families]
 * @property {{name: string, title: string, says: string, specs: string[]}[]} [presets] sets to begin with
 * @property {(Standing & {ranks: {[spec: string]: object}}) | null} [standing] of all methods
 * @property {Rule[]} [rules]
 */

/** What is shown where there is room for one map. */
export const FEATURED_METHOD = "fullgrad_plus:libra";

/**
 * Whether it explains anything: the control is drawn at random, to be compared with.
 * @param {{family?: string}} variant
 * @returns {boolean}
 */
export const isMethod = ({ family }) => family !== "control";

/**
 * How many methods these are; the control is none: "11 methods + random", "7 more methods + random".
 * @param {{family?: string}[]} variants
 * @param {string} [more]
 * @returns {string}
 */
export function countMethods(variants, more = "") {
  const methods = variants.filter(isMethod).length;
  return sayMethods(methods, variants.length - methods, more);
}

/**
 * So many methods, and whether the control is among them, in words.
 * @param {number} methods
 * @param {number} controls
 * @param {string} [more]
 * @returns {string}
 */
export const sayMethods = (methods, controls, more = "") =>
  [methods && count(methods, `${more}method`), controls && "random"].filter(Boolean).join(" + ");

/**
 * A spec without its options.
 * @param {string} spec
 * @returns {string}
 */
export const withoutOptions = (spec) => spec.split("?")[0];

/**
 * Whether a pair that cannot run for the model can with an option: what is missing is the model's lack, and the pair
 * makes sense.
 * @param {{reason?: string | null, remedies?: string[]}} pair
 * @returns {boolean}
 */
export const canBeRemedied = (pair) => Boolean(pair.reason && pair.remedies?.length);

const LEADERS = 4;
const rankOrLast = ({ standing }) => standing?.rank ?? Infinity;

/**
 * What comes first of these plates: of each family the method that was measured best, the best of all in front; where
 * there are fewer families than places, the next best. `variants` in the fixed order; the control leads nothing.
 * @param {Variant[]} variants
 * @returns {Variant[]}
 */
export function leaders(variants) {
  const ranked = variants.filter(isMethod).sort((a, b) => rankOrLast(a) - rankOrLast(b) || a.place - b.place);
  const seen = new Set();
  const first = ranked.filter(({ family }) => !seen.has(family) && seen.add(family)).slice(0, LEADERS);
  const next = ranked.filter((variant) => !first.includes(variant)).slice(0, LEADERS - first.length);
  return [...first, ...next];
}

/** The methods of a model, by spec. */
export class Registry {
  /**
   * As GET /api/methods gives it.
   * @param {MethodList} [options]
   */
  constructor({ methods = [], variants = [], families = [], presets = [], standing = null, rules = [] } = {}) {
    this.methods = methods;
    this.families = families;
    this.presets = presets;
    this.standing = standing;
    this.rules = rules;
    learnRules(rules);
    this.usual = variants.filter((variant) => variant.default && !variant.reason).map((variant) => variant.spec);
    const ties = Object.values(standing?.ranks ?? {}).filter(({ tied }) => tied).length;
    const rankOf = (spec) =>
      standing?.ranks[spec] ? { ...standing, ranks: null, ties, ...standing.ranks[spec] } : null;
    const pairs = methods.flatMap((method) =>
      method.pairs.map((pair) => ({ ...method, ...pair, readout: method.name, standing: rankOf(pair.spec) })),
    );
    // stable: else as declared
    pairs.sort(
      (a, b) =>
        Number(a.classic) - Number(b.classic) || (a.standing?.rank ?? Infinity) - (b.standing?.rank ?? Infinity) || 0,
    );
    // spec -> what a plate says of it, in the order of the page
    this.pairs = new Map(pairs.map((pair, place) => [pair.spec, { ...pair, place }]));
  }

  /**
   * How many pairs can run.
   * @returns {number}
   */
  get size() {
    return [...this.pairs.values()].filter((pair) => !pair.reason).length;
  }

  /**
   * Whether these are the methods that are shown where nobody chose any.
   * @param {string[]} specs
   * @returns {boolean}
   */
  isUsual(specs) {
    return specs.length === this.usual.length && this.usual.every((spec) => specs.includes(spec));
  }

  /**
   * Whether a spec can be asked for: as it stands, or with an option that makes up for what the model lacks.
   * @param {string} spec
   * @returns {boolean}
   */
  runs(spec) {
    const pair = this.pairs.get(withoutOptions(spec));
    const specOptions = spec.slice(withoutOptions(spec).length + 1).split("&");
    return (
      pair?.reason === null ||
      Boolean(pair && canBeRemedied(pair) && pair.remedies.some((option) => specOptions.includes(option)))
    );
  }

  /**
   * What a plate shows of a spec, with or without options; null for one that is not known.
   * @param {string} spec
   * @returns {Variant | null}
   */
  plate(spec) {
    const pair = this.pairs.get(withoutOptions(spec));
    return pair
      ? {
          ...pair,
          spec,
          title: spec === pair.spec ? pair.title : `${pair.title} (${spec.slice(pair.spec.length + 1)})`,
        }
      : null;
  }

  /**
   * These specs as plates, in the order of the page: the leaders, then the others in the fixed order.
   * @param {string[]} specs
   * @returns {Variant[]}
   */
  plates(specs) {
    const known = specs.map((spec) => this.plate(spec)).filter(Boolean);
    known.sort((a, b) => a.place - b.place || specs.indexOf(a.spec) - specs.indexOf(b.spec));
    const first = leaders(known);
    return [...first, ...known.filter((variant) => !first.includes(variant))];
  }
}
