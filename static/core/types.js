// What several scripts share and HTTP does not say: what it says is in schemas.d.ts, which is made from the OpenAPI
// document. Types alone: no page loads this.

/**
 * @import * as schemas from "./schemas.js"
 * @import { ImageInput, Method, MethodPair, Place, ProblemDocument, TextInput } from "./schemas.js"
 */

/**
 * A problem that the server or a script says; scripts leave out what nothing reads.
 * @typedef {Pick<ProblemDocument, "title"> & Partial<ProblemDocument>} ProblemFields
 */

/**
 * The classes or prompts to ask for, as fields of the form.
 * @typedef {object} Wish
 * @property {string[] | null} [target]
 * @property {string[] | null} [prompt]
 * @property {string | null} [against] the class that they are set against
 * @property {string | null} [read] "logit" or "probability"
 */

/**
 * A part of a text that a plate colours as a whole: a piece, a word or a sentence.
 * @typedef {object} Unit
 * @property {number} start the first of its characters
 * @property {number} end index after the last
 * @property {number[]} tokens indices of its scores
 * @property {string} [text]
 * @property {number} [part] 1 in the second text of a pair
 */

/** @typedef {ImageInput | TextInput} ModelInput */

/**
 * Rows and columns of patches or of pixels.
 * @typedef {number[]} Grid
 */

/**
 * One map, of an explanation or made of maps by a page: then it has `unitScore`, the score of a unit, and fewer facts.
 * @typedef {Partial<schemas.Map> & Pick<schemas.Map, "method" | "readout" | "target" | "scores" | "signed" | "notes"> &
 *   {range: number[], unitScore?: (unit: Unit) => number}} ScoreMap
 */

/**
 * The model's answer about an input, once it is there.
 * @typedef {Omit<schemas.StartedData, "expected" | "costs" | "left"> &
 *   Required<Pick<schemas.StartedData, "output" | "input" | "targets" | "top" | "notes">>} Answer
 */

/**
 * The model has answered, and maps of `expected` will follow.
 * @typedef {Answer & Pick<schemas.StartedData, "expected" | "costs" | "left">} Started
 */

/**
 * An explanation once the model has answered.
 * @typedef {schemas.Explanation & Answer & Required<Pick<schemas.Explanation, "created" | "model" | "weights_digest" | "versions" | "methods">>} Explanation
 */

/**
 * The deletion test of the maps of a target; `isContrast` where that is set against another.
 * @typedef {schemas.DeletionCurves & {isContrast?: boolean}} DeletionAnswer
 */

/**
 * The place of a method in a run that ships; `ties` methods cannot be told from the best, which is one of them.
 * @typedef {Omit<schemas.Standing, "ranks"> & Place & {ties: number}} Standing
 */

/**
 * A method with a rule, as the choice of methods lists it; `place` is its place in the order of the page.
 * @typedef {Method & MethodPair &
 *   {readout: string, standing: Standing | null, place: number, ruleLine?: string}} Listed
 */

/**
 * The description of a method on a plate: a method with a rule, and with options where the spec has any. One that the
 * list does not have is known by its map alone. `meaning` names the two ends of a sign, where not against and for.
 * @typedef {Partial<Method & MethodPair> & Pick<MethodPair, "spec" | "title" | "rule"> & Pick<Method, "signed"> &
 *   {readout: string, standing?: Standing | null, place?: number, ruleLine?: string, leads?: boolean,
 *   meaning?: string[]}} Variant
 */

/**
 * The settings of how maps are shown; the address holds what differs from the default.
 * @typedef {object} View
 * @property {string} evidence "both", "for" or "against"
 * @property {string} grid "smooth", "bicubic" or "patches"
 * @property {string} level "patches" or "pixels"
 * @property {string} scale "own" or "shared"
 * @property {number} opacity in percent
 * @property {string} sequence colours of unsigned maps
 * @property {string} diverging colours of signed maps
 * @property {string} lens "on" or "off"
 * @property {string} sink "on": a first word that dwarfs all others has no say in the scale; "off"
 * @property {string} grain "pieces", "words" or "sentences"
 * @property {string} shown "seen" or "original"
 * @property {string} words "hidden" or "shown"
 * @property {string} numbers "hidden" or "shown"
 * @property {string} more "folded" or "shown"
 * @property {string} pair the columns whose difference is shown, "0-1"
 * @property {string} first the spec of the method whose maps come first, of a few; or ""
 * @property {string} regions the spec by whose maps the regions are drawn, or ""
 * @property {number} threshold percent below which a patch belongs to no prompt
 * @property {string} order which tokens the deletion test removes first, "most" or "least"
 * @property {number} removed percent of the tokens that are removed
 */

/**
 * The parsed address of a page.
 * @typedef {object} Address
 * @property {string | null} id of an explanation
 * @property {string | null} source the explanation whose input is asked about
 * @property {string | null} model
 * @property {string[]} targets
 * @property {string[]} prompts
 * @property {string | null} compare the explanation by another model that is shown with it
 * @property {string | null} sample
 * @property {string} side whose tokens get the scores, "image" or "text"
 * @property {string[]} methods specs
 * @property {View} view
 * @property {number} focus
 */

/**
 * The patch or unit that is pointed at, -1 for none, and whether it is held.
 * @typedef {{at: number, locked: boolean}} Focus
 */

/**
 * An explanation on show: its model, and what that said; `done` once all maps are there.
 * @typedef {{id: string | null, model: string | null, info: Started | null, done: boolean}} Subject
 */

export {};
