// The methods of a CLIP model that is asked for several prompts together: those that the page begins with, and how far
// each can be trusted, were measured so.

import { learnSpecs, Registry } from "./registry.js";

/** @import { Methods, TogetherMethods } from "./schemas.js" */

/** The methods of a model for several prompts. */
export class TogetherRegistry extends Registry {
  /**
   * `listed` is the answer of GET /api/methods, `together` what was measured for several prompts.
   * @param {Methods} listed
   * @param {TogetherMethods} together
   */
  constructor(listed, together) {
    super({ ...listed, standing: together.standing });
    learnSpecs(together.specs);
    this.usual = together.usual;
  }

  /**
   * The variant that a plate shows for a spec; with options that were measured, it has their rank.
   * @param {string} spec
   */
  plate(spec) {
    const plate = super.plate(spec);
    const place = this.standing?.ranks[spec];
    if (!plate?.standing || !place) return plate;
    return { ...plate, standing: { ...plate.standing, ...place } };
  }
}
