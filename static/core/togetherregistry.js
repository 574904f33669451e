// The methods of a CLIP model that is asked for several prompts together: those that the page begins with, and how far
// each can be trusted, were measured so.

import { learnSpecs, Registry } from "./registry.js";

/** @import { Methods, TogetherMethods } from "./schemas.js" */

/** The methods of a model for several prompts. */
export class TogetherRegistry extends Registry {
  /**
   * As GET /api/methods gives it.
   * @param {Methods} listed
   * @param {TogetherMethods} together
   */
  constructor(listed, together) {
    super({ ...listed, standing: together.standing });
    learnSpecs(together.specs);
    this.usual = together.usual;
  }

  /**
   * What a plate shows of a spec; with options that were measured, where these stand.
   * @param {string} spec
   */
  plate(spec) {
    const plate = super.plate(spec);
    const place = this.standing?.ranks[spec];
    if (!plate?.standing || !place) return plate;
    return { ...plate, standing: { ...plate.standing, ...place } };
  }
}
