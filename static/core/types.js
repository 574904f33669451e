// The shapes that several scripts share: what the API answers, and what a page keeps. Types alone: no page loads this.

/**
 * A problem as the API says it.
 * @typedef {object} ProblemBody
 * @property {string} [type] "urn:vitrine:problem:" and its name
 * @property {string} title
 * @property {string} [detail] what was wrong
 * @property {string} [send] what to send instead
 * @property {number} [status]
 */

/**
 * What the model can't know, in place of an answer.
 * @typedef {object} Abstention
 * @property {string} kind
 * @property {string} says in few words
 * @property {string} detail in a sentence
 * @property {number} score the number that crossed the line
 */

/**
 * An explained class or prompt, or one that the model thinks of.
 * @typedef {object} Target
 * @property {string} label
 * @property {number | undefined} index of the class; a group and a difference have none
 * @property {string | undefined} prompt of a CLIP model
 * @property {number} logit
 * @property {number | undefined} probability a regression has none
 * @property {string | undefined} read which number of it is explained, "logit" or "probability"
 * @property {string | undefined} of the class or prompt itself, where the label says more
 * @property {string | undefined} against the class that it is set against
 * @property {string | undefined} group the group that it is
 * @property {number | undefined} cosine of picture and prompt
 * @property {Abstention | undefined} abstention of a prompt
 */

/**
 * Which classes or prompts to ask for, as fields of the form.
 * @typedef {object} Wish
 * @property {string[] | null} [target]
 * @property {string[] | null} [prompt]
 * @property {string | null} [against] the class that they are set against
 * @property {string | null} [read] "logit" or "probability"
 */

/**
 * A piece of a text as the model reads it.
 * @typedef {object} Token
 * @property {string} text
 * @property {number} start the first of its characters
 * @property {number} end behind the last
 * @property {boolean} special whether it stands for no word
 * @property {number} [part] 1 in the second text of a pair
 */

/**
 * What a plate colours of a text as a whole: a piece, a word or a sentence.
 * @typedef {object} Unit
 * @property {number} start the first of its characters
 * @property {number} end behind the last
 * @property {number[]} tokens indices of its scores
 * @property {string} [text]
 * @property {number} [part] 1 in the second text of a pair
 */

/**
 * What the model read: a picture (`crop` of the upright original was seen, `frame` was asked for), or a text.
 * @typedef {object} ModelInput
 * @property {"image" | "text"} kind
 * @property {number | undefined} width of the original, as `height`
 * @property {number | undefined} height
 * @property {number[] | undefined} crop [x0, y0, x1, y1]
 * @property {number[] | undefined} frame [x0, y0, x1, y1]
 * @property {number[] | undefined} seen columns and rows of pixels that the model saw
 * @property {string | undefined} sha256 of the upload
 * @property {string | undefined} text
 * @property {string | undefined} text_pair the second text of a pair
 * @property {Token[] | undefined} tokens
 * @property {Unit[] | undefined} words
 */

/**
 * A prompt as the model read it, where its words are explained.
 * @typedef {ModelInput & {prompt: string}} PromptInput
 */

/**
 * A part of a text that is longer than the model takes.
 * @typedef {object} TextWindow
 * @property {number} start the first of its characters
 * @property {number} end behind the last
 * @property {number[]} tokens the first and the last of its pieces
 * @property {string} label the top class of this part alone
 * @property {number | null} probability
 * @property {number[]} logits of each explained target
 */

/**
 * Rows and columns of patches or of pixels.
 * @typedef {number[]} Grid
 */

/**
 * The values at the two ends of the colours, the lower first.
 * @typedef {number[]} Ends
 */

/**
 * What is drawn of a map over a picture.
 * @typedef {object} Drawable
 * @property {number[]} scores in raster order
 * @property {Grid} grid
 * @property {boolean} signed
 */

/**
 * One map of an explanation.
 * @typedef {object} ScoreMap
 * @property {string} method the spec
 * @property {string} readout
 * @property {string | null} [rule]
 * @property {string} [title]
 * @property {string} [by]
 * @property {number | null} [year]
 * @property {string} [paper]
 * @property {string} target the label
 * @property {number[]} scores of a picture those of the patches in raster order, of a text one for each token
 * @property {Grid | undefined} grid of the patches; a text has none
 * @property {Grid} [pixels] of the map of the pixels, where there is one
 * @property {number[]} range the smallest and the largest score
 * @property {boolean} signed
 * @property {boolean} [class_specific]
 * @property {string | null} [adds_up_to] what the scores promise to add up to
 * @property {number} [completeness_error]
 * @property {{dtype: string, why: string, rounding: number | null}} [precision] of a map of relevance
 * @property {number} [seconds]
 * @property {string[]} notes
 * @property {(unit: Unit) => number} [unitScore] the score of a unit, of a map that was computed from two
 */

/**
 * What the model says of an input.
 * @typedef {object} Answer
 * @property {string | undefined} title the person's name for it
 * @property {string} output "softmax", "sigmoid" or "regression"
 * @property {ModelInput} input
 * @property {PromptInput[] | undefined} prompts where the words of prompts are explained
 * @property {TextWindow[] | undefined} windows of a text longer than the model takes
 * @property {Target[]} targets what is explained
 * @property {Target[]} top the classes or prompts that the model thinks of, the likeliest first
 * @property {Abstention | undefined} abstention
 * @property {string[]} notes
 */

/**
 * The model has answered, and maps of `expected` will follow.
 * @typedef {Answer & {expected: string[]}} Started
 */

/**
 * What an explanation is beside the answer; that is there once the model has answered.
 * @typedef {object} Kept
 * @property {string} id
 * @property {"queued" | "running" | "done" | "failed" | "cancelled"} state
 * @property {string} created
 * @property {string} model its name
 * @property {string} weights_digest
 * @property {{vitrine: string}} versions
 * @property {string[]} methods specs
 * @property {ScoreMap[]} maps
 * @property {number} [seconds]
 * @property {ProblemBody} [problem]
 */

/**
 * An explanation as the API gives it.
 * @typedef {Kept & Answer} Explanation
 */

/**
 * An option of a read-out.
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
 * A read-out with one rule, as its read-out lists it.
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
 * A read-out, with all its rules.
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
 * @property {string} run that ships, its id on the leaderboard
 * @property {string} model on which it was measured
 * @property {string} measured on what
 * @property {{name: string, title: string, unit: string, direction: string}} metric
 * @property {number} random what the random baseline has
 */

/**
 * What a plate says of its method: a read-out with a rule, and with options where the spec has any.
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
 * @property {number} [place] in the order of the wall
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

/**
 * A class of a model, as far as it is known.
 * @typedef {object} ClassEntry
 * @property {string} label
 * @property {string} [group]
 * @property {string[]} [groups]
 * @property {string[]} [synonyms]
 */

/**
 * What was typed finds: what to send, and how it is shown.
 * @typedef {{name: string, shown: string, hint?: string}} Suggestion
 */

/**
 * A field with a list of what was typed finds.
 * @typedef {object} SearchField
 * @property {string} id
 * @property {string} label
 * @property {(text: string) => Suggestion[]} suggest
 * @property {(name: string) => void} onTake
 * @property {string} [none] said where nothing is found
 * @property {boolean} [stays] whether the list is always there
 */

/**
 * One of a file, a way to get it, a text and the id of an explanation; and what is known of it.
 * @typedef {object} GivenInput
 * @property {Blob | null} [image]
 * @property {(() => Promise<Blob>) | null} [fetch]
 * @property {string | null} [text]
 * @property {string | null} [source]
 * @property {number[] | null} [crop]
 * @property {string | null} [sample]
 * @property {boolean} [isOwn]
 */

/**
 * A model of the list.
 * @typedef {object} Model
 * @property {string} name
 * @property {string | null} kind "image", "clip" or "text"
 * @property {string} title
 * @property {string} description
 * @property {boolean} embedded
 * @property {"available" | "loading" | "loaded" | "failed"} state
 * @property {boolean} default
 * @property {boolean} photos whether it is made for photos that people bring
 * @property {boolean} recommended
 * @property {number | null} megabytes
 * @property {{[name: string]: any}} details
 * @property {string | undefined} device
 * @property {ProblemBody | undefined} problem
 */

/**
 * A model with its classes, once it is loaded.
 * @typedef {Model & {labels: string[], classes?: ClassEntry[], card: string | null}} ModelDetail
 */

/**
 * An input to try.
 * @typedef {object} Sample
 * @property {string} id
 * @property {string} kind "image", "clip" or "text"
 * @property {string} model that it suits
 * @property {string} title
 * @property {string} [note]
 * @property {string} [image] its address
 * @property {string} [thumbnail] a data URI
 * @property {string} [text]
 * @property {string} [target]
 * @property {string[]} [prompts]
 * @property {{name: string, prompts: string[]}[]} [sets] of prompts
 */

/**
 * One curve of the deletion test: the answers while tokens are gone, under the name that is read.
 * @typedef {object} DeletionCurve
 * @property {string} [method] the spec
 * @property {string} [order] "most" or "least"
 * @property {number} area
 * @property {number} [seeds] of random orders
 * @property {number[]} [probability]
 * @property {number[]} [logit]
 * @property {number[]} [value]
 */

/**
 * The deletion test of the maps of a target.
 * @typedef {object} DeletionTest
 * @property {string} target
 * @property {"probability" | "logit" | "value"} read what the curves are of
 * @property {string} how "removed" or "painted"
 * @property {number} tokens
 * @property {number[]} counts how many tokens are gone at each point
 * @property {DeletionCurve[]} curves
 * @property {DeletionCurve} random
 * @property {{method: string, rank: number, most: number, least: number, gap: number, control?: boolean}[]} ranking
 * @property {boolean} [isContrast] whether the target is set against another
 */

/**
 * What two inputs have to do with each other.
 * @typedef {object} Interaction
 * @property {number} cosine
 * @property {{input: ModelInput, grid: Grid | undefined, scores: number[]}} first
 * @property {{input: ModelInput, grid: Grid | undefined, scores: number[]}} second
 * @property {number[][]} pairs a row for each part of the first
 * @property {string[]} notes
 */

/**
 * How maps are looked at; the address has what is not as it begins.
 * @typedef {object} View
 * @property {string} evidence "both", "for" or "against"
 * @property {string} grid "smooth", "bicubic" or "patches"
 * @property {string} level "patches" or "pixels"
 * @property {string} scale "own" or "shared"
 * @property {number} opacity in percent
 * @property {string} sequence colours of unsigned maps
 * @property {string} diverging colours of signed maps
 * @property {string} lens "on" or "off"
 * @property {string} grain "pieces", "words" or "sentences"
 * @property {string} shown "seen" or "original"
 * @property {string} words "hidden" or "shown"
 * @property {string} numbers "hidden" or "shown"
 * @property {string} more "folded" or "shown"
 * @property {string} pair the columns whose difference is shown, "0-1"
 * @property {string} paint the spec by whose maps the picture is painted, or ""
 * @property {number} none percent below which a patch belongs to no prompt
 * @property {string} first which tokens the test takes away first, "most" or "least"
 * @property {number} gone percent of the tokens that are gone
 */

/**
 * What the address asks for.
 * @typedef {object} Address
 * @property {string | null} id of an explanation
 * @property {string | null} source the explanation whose input is asked about
 * @property {string | null} model
 * @property {string[]} targets
 * @property {string[]} prompts
 * @property {string | null} compare the explanation by another model that stands beside it
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

/**
 * A text and how it is cut.
 * @typedef {{text: string, units: Unit[], windows?: TextWindow[]}} TextBase
 */

/**
 * What maps lie on: the grey picture, or a text.
 * @typedef {{width?: number, height?: number, text?: string, units?: Unit[], windows?: TextWindow[]}} Base
 */

/**
 * What the deletion test took away from a plate: the tokens `gone` of so many.
 * @typedef {{gone: Set<number>, of: number, which: string, resultLine: string | null}} Cut
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
 * @property {any} [face] of a picture
 * @property {HTMLElement[]} [spans] of words
 * @property {Cut | null} [cut]
 * @property {{id: string | null, node: HTMLElement}} actions
 * @property {any} [deletion] the lines of the deletion test, where their room is kept
 * @property {string} [state] "waiting", "stale", "done" or "missing"
 * @property {(map: ScoreMap | null, id?: string) => void} show
 * @property {(base: any) => void} setBase
 * @property {(ends: Ends) => void} colour
 * @property {(focus: Focus) => void} mark
 */

export {};
