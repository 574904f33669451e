// The frame of a page as plates, the deletion bar and the tools see it. Types alone: no page loads this.

/**
 * @import { Registry } from "../core/registry.js"
 * @import { Model, MoleculePart, TextWindow } from "../core/schemas.js"
 * @import { Store } from "../core/state.js"
 * @import { Explanation, Focus, ScoreMap, Started, Subject, Unit, Variant, View, Wish } from "../core/types.js"
 * @import { Input } from "../inputs/input.js"
 * @import { MapPlate } from "../maps/types.js"
 * @import { Waiting } from "../progress/waiting.js"
 */

/**
 * The base of maps: the grey picture, a text or a molecule.
 * @typedef {{width?: number, height?: number, text?: string, units?: Unit[], windows?: TextWindow[],
 *   molecule?: MoleculePart}} Base
 */

/**
 * The plates of a page.
 * @typedef {object} MapPlateSet
 * @property {HTMLElement} root
 * @property {any} base what maps lie on
 * @property {MapPlate[]} all the plates of maps
 * @property {MapPlate[]} tested those that lose tokens in the deletion test
 * @property {MapPlate[]} everyPlate all, those that are computed from several maps too
 * @property {Variant[]} variants the methods that it shows
 * @property {{judge: (verdict: string, rule: string) => void, recommended: Variant | undefined,
 *   doubtful: Set<string>}} groups their headings
 * @property {(target: string) => any} [baseOf] what the maps of a column lie on
 */

/**
 * The models of a page.
 * @typedef {object} PageModels
 * @property {Model[]} models
 * @property {Model | null} current the one that answers
 * @property {(name: string) => string} shownName
 * @property {(stored: Explanation) => {kind: string, path: string, name: string}} pageOf
 */

/**
 * The part of Image, Prompt, Text and Molecule that plates, the deletion bar and the tools use.
 * @typedef {object} WorkbenchView
 * @property {string} kind "image", "clip", "text" or "molecule"
 * @property {string | null} id of the explanation on show
 * @property {{id: string | null}} address what the address of the page asked for as it opened
 * @property {string} side whose tokens get the scores, "image" or "text"
 * @property {string[]} specs the methods on the page
 * @property {ScoreMap[]} received
 * @property {MapPlateSet} plateSet
 * @property {Registry} registry
 * @property {{input: Input | null}} question the newest one
 * @property {Store<View>} view
 * @property {Store<Focus>} focus
 * @property {Store<Subject>} subject the explanation on show
 * @property {Store<Subject>} compared that of another model, shown with it
 * @property {Store<{order: string, removed: number}>} removal what the deletion bar removes
 * @property {{of: (tool: string) => Store<{[name: string]: any}>}} toolStates
 * @property {PageModels} models
 * @property {(change: {input?: Input, model?: string, targets?: Wish, methods?: string[], at?: string}) =>
 *   Promise<void>} ask
 * @property {(problem: unknown, place: Element) => void} report
 */

/**
 * The stores that plates share, a callback for what the keyboard reached, and the note on methods whose map does not
 * depend on what is explained.
 * @typedef {{focus: Store<Focus>, view: Store<View>, onRead?: (text: string) => void, width?: number,
 *   same?: string}} PlateStores
 */

/**
 * A function that makes a plate; with `target` it is one of a row of maps of the same method.
 * @typedef {(variant: Variant, stores: PlateStores, target?: string) => any} PlateMaker
 */

/**
 * The options of a set of plates.
 * @typedef {PlateStores & {makePlate?: PlateMaker}} PlateSetOptions
 */

/**
 * A finished explanation.
 * @typedef {{id: string, model: string, info: Started}} Finished
 */

/**
 * A tool that is open: `show` is called for every finished explanation.
 * @typedef {{show: (subject: Finished) => void | Promise<void>}} Tool
 */

/**
 * A function that shows the problem of a tool; null clears it.
 * @typedef {(problem: unknown) => void} Report
 */

/**
 * A drawer; one with `kinds` is for those pages alone, one with `tasks` for models of those; one that `isPlain` has no
 * style sheet of its own. Its module's `open` resolves to a tool, and asks the server with `asking`.
 * @typedef {(root: HTMLElement, workbench: WorkbenchView, report: Report, asking: Waiting) =>
 *   Tool | Promise<Tool>} Open
 * @typedef {{id: string, kinds?: string[], tasks?: string[], title: string, says: string, isPlain?: boolean,
 *   load: () => Promise<{open: Open}>}} DrawerEntry
 */

export {};
