// The methods of a model: read-outs with every rule, what each pair is called, how far it can be trusted, and why one
// cannot run.

import { count } from "./dom.js";
import { learnRules } from "./rules.js";

/** @import { MethodList, Variant } from "./types.js" */

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
    const rankOf = (spec) => (standing?.ranks[spec] ? { ...standing, ranks: null, ...standing.ranks[spec] } : null);
    const pairs = methods.flatMap((method) =>
      method.pairs.map((pair) => ({ ...method, ...pair, readout: method.name, standing: rankOf(pair.spec) })),
    );
    // stable: else as declared
    pairs.sort((a, b) => a.classic - b.classic || (a.standing?.rank ?? Infinity) - (b.standing?.rank ?? Infinity) || 0);
    // spec -> what a plate says of it, in the order of the wall
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
   * These specs as plates, in the fixed order.
   * @param {string[]} specs
   * @returns {Variant[]}
   */
  plates(specs) {
    const known = specs.map((spec) => this.plate(spec)).filter(Boolean);
    return known.sort((a, b) => a.place - b.place || specs.indexOf(a.spec) - specs.indexOf(b.spec));
  }
}
