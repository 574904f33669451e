// What the API is asked and what it answers, as several scripts share it. Types alone: no page loads this.

/**
 * @import { ProblemBody } from "./api.js"
 * @import { ClassEntry } from "./search.js"
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
 * Where a model says that it does not know: beyond a line that was measured.
 * @typedef {object} AbstentionLine
 * @property {string} kind
 * @property {string} says in few words
 * @property {string} score that is held against the line
 * @property {number} line
 * @property {boolean} below whether it abstains below the line; else above
 * @property {string} measured on what, in a sentence
 * @property {string | undefined} prompts the kind of prompts that it is about; else all
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

/** @typedef {{level: number, width: number, source: "set" | "file" | "range"}} GreyWindow */

/**
 * What the model read: a picture (`crop` of the upright original was seen, `frame` was asked for), or a text.
 * @typedef {object} ModelInput
 * @property {"image" | "text"} kind
 * @property {number | undefined} width of the original, as `height`
 * @property {number | undefined} height
 * @property {number[] | undefined} crop [x0, y0, x1, y1]
 * @property {number[] | undefined} frame [x0, y0, x1, y1]
 * @property {GreyWindow | undefined} window of greys of more than 8 bits, the values shown as black to white
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
 * One map of an explanation.
 * @typedef {object} ScoreMap
 * @property {string} method the spec
 * @property {string} readout
 * @property {string | null} [rule]
 * @property {{[name: string]: boolean | number | string}} [options] those that the spec names
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
 * @property {number} [seed_correlation] of a map drawn at random
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
 * @typedef {Answer & {expected: string[], costs?: {[spec: string]: number}}} Started
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
 * What is known of a model once it is loaded.
 * @typedef {object} ModelDetails
 * @property {number} [blocks]
 * @property {number | null} [heads] null where the model does not say
 * @property {number} [width] of the residual stream
 * @property {Grid | null} [grid] of the patches; a text has none
 * @property {number[] | null} [input] height and width in pixels; a text has none
 * @property {number | null} [max_tokens] of a text
 * @property {number | null} [classes] a CLIP model and a regression have none
 * @property {number} [parameters]
 * @property {number} [logit_scale] of a CLIP model: logit = logit_scale * cosine + logit_bias
 * @property {number} [logit_bias]
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
 * @property {string} good_for
 * @property {ModelDetails} details
 * @property {string | undefined} device
 * @property {string | undefined} weights_digest
 * @property {ProblemBody | undefined} problem
 * @property {{lines: AbstentionLine[]} | undefined} calibration once it is loaded, if it has such lines
 */

/**
 * A model with its classes, once it is loaded.
 * @typedef {Model & {labels: string[], classes?: ClassEntry[], card: string | null}} ModelDetail
 */

/**
 * One curve of the deletion test: the answers while tokens are removed, under the name that is read.
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
 * @typedef {object} DeletionAnswer
 * @property {string} target
 * @property {"probability" | "logit" | "value"} read what the curves are of
 * @property {string} how "removed" or "painted"
 * @property {number} tokens
 * @property {number[]} counts how many tokens are removed at each point
 * @property {DeletionCurve[]} curves
 * @property {DeletionCurve} random
 * @property {{method: string, rank: number, most: number, least: number, gap: number, control?: boolean}[]} ranking
 * @property {boolean} [isContrast] whether the target is set against another
 */

export {};
