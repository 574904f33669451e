// What a target is about, and what it is called.

import { named } from "./search.js";

/**
 * The class, group (`any:dog`) or prompt that a target is about, whatever is asked of it: what to send to ask for it
 * again.
 * @param {{label: string, of?: string}} target
 * @returns {string}
 */
export const classOf = (target) => target.of ?? target.label;

/**
 * A target in words.
 * @param {{label: string, of?: string, against?: string}} target
 * @returns {string}
 */
export const spoken = (target) =>
  target.against ? `${named(target.of)} rather than ${named(target.against)}` : named(classOf(target));

/**
 * Several targets in words, for between quotation marks; no longer than a heading may be.
 * @param {{label: string, of?: string, against?: string}[]} targets
 * @returns {string}
 */
export const spokenAll = (targets) =>
  targets.length > 2 ? `${spoken(targets[0])} … and ${targets.length - 1} more` : targets.map(spoken).join("”, “");
