// Which sample a page begins with: the one that a link names, else one for the model.

/**
 * @import { Sample } from "../core/schemas.js"
 * @import { Address } from "../core/types.js"
 */

/**
 * The sample that the address names; undefined where it names none that is there.
 * @param {Sample[]} samples
 * @param {Address} address
 * @returns {Sample | undefined}
 */
export const linkedSample = (samples, address) => samples.find(({ id }) => id === address.sample);

/**
 * The sample to begin with: the one that the address names, else the model's own, rather one that `suits`, else the
 * first; undefined where there are none.
 * @param {Sample[]} samples
 * @param {Address} address
 * @param {string | undefined} model
 * @param {(sample: Sample) => boolean} [suits]
 * @returns {Sample | undefined}
 */
export function firstSample(samples, address, model, suits = () => true) {
  const ofModel = samples.filter((sample) => sample.model === model);
  return linkedSample(samples, address) ?? ofModel.find(suits) ?? ofModel[0] ?? samples[0];
}
