// A map on a page: what is drawn of it, the text that it lies on, and its plate as every folder sees it. Types alone:
// no page loads this.

/**
 * @import { Ends } from "../core/colour.js"
 * @import { MoleculePart, TextWindow } from "../core/schemas.js"
 * @import { Focus, Grid, ScoreMap, Unit, Variant, View } from "../core/types.js"
 * @import { ContactSheet } from "./contactsheet.js"
 */

/**
 * A map over a picture, as it is drawn.
 * @typedef {object} Drawable
 * @property {number[]} scores in raster order
 * @property {Grid} grid
 * @property {boolean} signed
 * @property {boolean} [sided] drawn as for and against whatever the signs of its scores
 */

/**
 * The layout of patches: the number of rows and columns; the row and column of a patch, and the patch there, -1 for
 * none.
 * @typedef {{rows: number, columns: number, place: (i: number) => [number, number],
 *   at: (row: number, column: number) => number}} PatchLayout
 */

/**
 * The base of a picture's maps: the picture in grey, of a clip the sheet of its frames.
 * @typedef {OffscreenCanvas & {sheet?: ContactSheet | null}} GreyBase
 */

/**
 * A text and how it is cut; of a molecule, whose SMILES the text is, with its bonds and its drawing. A `picture` that
 * stands among the words is laid on a plate by `on`.
 * @typedef {{text: string, units: Unit[], windows?: TextWindow[], molecule?: MoleculePart,
 *   picture?: {on: (plate: any) => any}}} TextBase
 */

/**
 * The tokens that the deletion test removed from a plate, and the number of its tokens.
 * @typedef {{removed: Set<number>, of: number, parts: string, which: string, resultLine: string | null}} Removal
 */

/**
 * A plate of a picture or of words, as others see it.
 * @typedef {object} MapPlate
 * @property {HTMLElement} node
 * @property {string} name
 * @property {Variant} variant
 * @property {string | null} target the column, where there are several
 * @property {ScoreMap | null} map
 * @property {any} base
 * @property {Ends} ends
 * @property {number[]} values
 * @property {View} look
 * @property {any} [mapCanvas] of a picture
 * @property {any} [picture] that stands among the words
 * @property {(HTMLElement | SVGElement)[]} [spans] of words or atoms
 * @property {HTMLElement} [reading] the text
 * @property {number[]} [scaled] the values that the ends of the colours come from, where they are not all
 * @property {Removal | null} [removal]
 * @property {{id: string | null, node: HTMLElement}} actions
 * @property {any} [deletion] the lines of the deletion test, where their room is kept
 * @property {string} [state] "waiting", "stale", "done" or "missing"
 * @property {(map: ScoreMap | null, id?: string) => void} show
 * @property {(base: any) => void} setBase
 * @property {(ends: Ends) => void} colour
 * @property {(focus: Focus) => void} mark
 */

export {};
