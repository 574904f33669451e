// What the search for a class finds: classes by label, synonym and group, and groups, which are asked for as
// `any:<group>`.

/** @import { ClassEntry } from "./schemas.js" */

/**
 * One match of what was typed: what to send, and how it is shown.
 * @typedef {{name: string, shown: string, hint?: string}} Suggestion
 */

const MOST_MATCHES = 60; // matches that a list shows at once
const ANY = "any:";

/**
 * A class or a group in words: `any:dog` is "any dog".
 * @param {string} name
 * @returns {string}
 */
export const named = (name) => (name?.startsWith(ANY) ? `any ${name.slice(ANY.length)}` : name);

/**
 * The groups of classes that each hold several of them, with how many: a Map in the order in which they are first
 * named.
 * @param {ClassEntry[]} classes
 * @returns {Map<string, number>}
 */
export function groupsOf(classes) {
  const sizes = new Map();
  for (const { groups = [] } of classes) for (const group of groups) sizes.set(group, (sizes.get(group) ?? 0) + 1);
  return new Map([...sizes].filter(([, size]) => size > 1));
}

/**
 * The target that asks for any class of a group: "any:dog".
 * @param {string} group
 * @returns {string}
 */
export const anyOf = (group) => ANY + group;

/**
 * Rank a match of `word`: 0 where it begins with `text`, 1 where one of its words does, 2 where it contains it, else
 * -1.
 * @param {string} word
 * @param {string} text
 */
function rank(word, text) {
  const lower = word.toLowerCase();
  const at = lower.indexOf(text);
  if (at <= 0) return at;
  for (let next = at; next > 0; next = lower.indexOf(text, next + 1))
    if (/[^\p{L}\p{N}]/u.test(lower[next - 1])) return 1;
  return 2;
}

const EXACT = 0,
  LABEL = 1,
  SYNONYM = 4,
  MEMBER = 7; // where each kind of match begins in the order of the list

/**
 * The place of a class in the list, and what to say next to its label; undefined where it does not match.
 * @param {ClassEntry} entry
 * @param {string} text
 * @returns {[number, string | undefined] | undefined}
 */
function matchOf({ label, group, groups = [], synonyms = [] }, text) {
  const labelRank = rank(label, text);
  if (labelRank >= 0) return [LABEL + labelRank, group];
  const also = synonyms
    .map((word) => ({ word, at: rank(word, text) }))
    .filter(({ at }) => at >= 0)
    .sort((a, b) => a.at - b.at)[0];
  if (also) return [SYNONYM + also.at, `also ${also.word}`];
  const member = groups.find((name) => rank(name, text) === 0);
  return member === undefined ? member : [MEMBER, member];
}

/**
 * Find the classes and groups that match what was typed: {name: what to send, shown, hint}. First the group of that
 * very name, then what begins with it, has a word that does, or contains it, by label and group, then by synonym, then
 * the classes of a group whose name begins with it.
 * @param {ClassEntry[]} classes
 * @param {string} typed
 * @returns {Suggestion[]}
 */
export function suggestions(classes, typed) {
  const lower = typed.trim().toLowerCase();
  // a group may be written as it is shown, "any dog", or as it is sent, "any:dog"
  const text = lower.replace(/^any(:| |$)\s*/, "");
  const plain = (/** @type {ClassEntry} */ { label, group }) => ({ name: label, shown: label, hint: group ?? "" });
  if (!lower) return classes.slice(0, MOST_MATCHES).map(plain);
  /** @type {[number, Suggestion][]} */
  const matches = [];
  for (const [group, size] of groupsOf(classes)) {
    const at = rank(group, text);
    if (at >= 0)
      matches.push([
        group.toLowerCase() === text ? EXACT : LABEL + at,
        { name: anyOf(group), shown: named(anyOf(group)), hint: `${size} classes` },
      ]);
  }
  if (text !== lower) return matches.sort(([a], [b]) => a - b).map(([, item]) => item);
  for (const entry of classes) {
    const match = matchOf(entry, text);
    if (match) matches.push([match[0], { ...plain(entry), hint: match[1] ?? "" }]);
  }
  return matches
    .sort(([a], [b]) => a - b)
    .slice(0, MOST_MATCHES)
    .map(([, item]) => item);
}
