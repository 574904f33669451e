// A question of a page and what it takes to answer it, as the scripts of the frame share it. Types alone: no page loads
// this.

/**
 * @import { Registry } from "../core/registry.js"
 * @import { Calibration, Map, Model, ModelDetail, ModelDetails, Sample } from "../core/schemas.js"
 * @import { Explanation, ProblemFields, Started, Wish } from "../core/types.js"
 * @import { Input } from "../inputs/input.js"
 * @import { PlateSet } from "../plates/plate.js"
 */

/**
 * The server's information on a loaded model, and on its methods for one side.
 * @typedef {{model: Model, side: string, registry: Registry,
 *   detail: ModelDetail}} ModelInfo
 */

/**
 * The question of the person.
 * @typedef {object} Question
 * @property {Input | null} input
 * @property {string | null} model
 * @property {string} side whose tokens get the scores
 * @property {Wish} targets
 * @property {string | null} at the place of the output that is asked about, of a model with a task
 * @property {Blob | null} reference the picture that it is compared with
 * @property {string[]} methods specs; none: the usual ones
 * @property {ModelInfo | null} modelInfo
 * @property {string | null} id of the explanation that answers it, once the server took it
 * @property {string | null} [state]
 * @property {boolean} [isOver]
 * @property {boolean} [isAgain] whether the server makes it again, when only its address is known
 */

/**
 * A question that the server took.
 * @typedef {Question & {input: Input, model: string, modelInfo: ModelInfo, id: string, stored?: boolean}} TakenQuestion
 */

/**
 * The functions of a page that the frame calls at each step.
 * @typedef {object} PageSteps
 * @property {() => void} ready the samples are known
 * @property {(stored: Explanation) => unknown} [prepare] before a stored explanation is shown
 * @property {(stored: Explanation) => void} [reopen] how it begins with a stored explanation
 * @property {() => void} example how it begins by itself
 * @property {(input: Input) => void} [carry] how it begins with the picture of another page
 * @property {(wanted: {count: number, side: string}) => unknown} [load] the modules for so many targets of that side
 * @property {(model: Model, detail: ModelDetail) => void} changed
 * @property {(modelInfo: ModelInfo, input: Input) => Promise<void>} [examine] rejects with an AbortError where the
 *   model needs more than this input
 * @property {(input: Input, title: string) => void} [giving] another input is asked about, by the model of that title
 * @property {(id: string) => void} [stored] the server has the answer, of this explanation, from before
 * @property {() => {text: string, href: string, download: string}[]} [exports] files of this page alone
 * @property {() => void} [refused] what was asked for last is not explained, all stays as it was
 * @property {(info: Pick<Started, "targets" | "input" | "prompts">) => PlateSet} [plateSet] for an explanation, where the page has several
 * @property {(info: Started, question: TakenQuestion, isNew: boolean) => unknown} started
 * @property {(map: Map, question: TakenQuestion) => void} method
 */

/**
 * The functions of a page of classes that the frame calls at each step.
 * @typedef {Pick<PageSteps, "reopen" | "example" | "carry" | "giving" | "stored" | "refused" | "started"> &
 *   {lacks?: (detail: ModelDetail, input: Input) => boolean,
 *   partOf?: (detail: ModelDetail, input: Input) => {input: Input, says: Partial<ProblemFields>} | null,
 *   receive?: (map: Map) => void,
 *   changed?: (detail: ModelDetail) => void, openSample: (sample: Sample) => void,
 *   suits?: (sample: Sample) => boolean}} ClassSteps
 */

/**
 * The details of a model that a line about prompts needs.
 * @typedef {ModelDetails & {calibration?: Calibration}} Known
 */

/**
 * The memory of a tab: where each page was left, with the key that identifies its picture; the picture that goes along;
 * and the keys of pictures that were only ever the example of a page.
 * @typedef {{places: {[path: string]: {search: string, picture: string}},
 *   picture: {key: string, id: string, prompts: string[]} | null, examples: string[]}} Memory
 */

export {};
