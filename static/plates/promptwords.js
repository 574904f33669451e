// The words of the prompts, coloured: a row a method, a column a prompt, each with words of its own.

import { Matrix } from "./matrix.js";
import { unitsOf, WordPlate } from "./words.js";

/**
 * @import { PromptInput } from "../core/schemas.js"
 * @import { TextBase } from "../maps/types.js"
 * @import { PlateSetOptions } from "./types.js"
 */

/** A set of plates with a row a method and a column a prompt, whose words are coloured. */
export class PromptWords extends Matrix {
  bases = new Map(); // prompt -> {text, units}

  /**
   * @param {HTMLElement} root
   * @param {PlateSetOptions} options
   */
  constructor(root, options) {
    super(root, {
      ...options,
      same: "This map is the same whatever the prompt is compared with.",
      makePlate: (variant, stores, target) => new WordPlate(variant, stores, target),
    });
  }

  /**
   * The prompts as the model read them: [{prompt, text, tokens, words}].
   * @param {PromptInput[]} prompts
   * @param {string} grain
   */
  setPrompts(prompts, grain) {
    this.bases = new Map(
      prompts.map((input) => [input.prompt, { text: input.text ?? "", units: unitsOf(input, grain) }]),
    );
    for (const plate of this.all) plate.setBase(this.baseOf(plate.target ?? undefined));
  }

  /**
   * @param {string} [target]
   * @returns {TextBase | null}
   */
  baseOf(target) {
    return this.bases.get(target) ?? null;
  }

  /** Does nothing: each prompt is drawn on its own words, never on a picture. */
  setBase() {}
}
