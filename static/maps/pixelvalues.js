// The numbers of a map of the pixels, where a method goes back to them. Fetched where one is asked for. Nothing is
// interpolated.

import { getBytes, mapPath } from "../core/api.js";

/**
 * @import { ScoreMap, Variant } from "../core/types.js"
 * @import { Drawable } from "./types.js"
 */

const MAGIC = "\x93NUMPY";
const loaded = new WeakMap(); // map -> promise of its pixels

/**
 * The numbers of a NumPy file of version 1: {shape, values}, float32 in raster order.
 * @param {ArrayBuffer} buffer
 * @returns {{shape: number[], values: Float32Array}}
 */
function readNumpy(buffer) {
  const bytes = new Uint8Array(buffer);
  /**
   * @param {number} from
   * @param {number} to
   */
  const ascii = (from, to) => String.fromCharCode(...bytes.subarray(from, to));
  const start = 10 + new DataView(buffer).getUint16(8, true);
  const header = ascii(10, start);
  if (
    ascii(0, 6) !== MAGIC ||
    bytes[6] !== 1 ||
    !header.includes("'<f4'") ||
    !header.includes("'fortran_order': False")
  )
    throw new Error("This file is not a NumPy array of float32.");
  const shape = (/'shape': \(([^)]*)\)/.exec(header)?.[1] ?? "")
    .split(",")
    .filter((n) => n.trim())
    .map(Number);
  return { shape, values: new Float32Array(buffer.slice(start)) };
}

/**
 * The map of the pixels of `map`, of explanation `id`: {scores, grid: [rows, columns], signed}; fetched once.
 * @param {ScoreMap} map
 * @param {string} id
 * @returns {Promise<Drawable>}
 */
export function pixelsOf(map, id) {
  if (!loaded.has(map)) {
    const path = `${mapPath(id, map.method, map.target, "npy")}&at=pixels`;
    const pending = getBytes(path).then((bytes) => {
      const { shape, values } = readNumpy(bytes);
      return { scores: [...values], grid: shape, signed: map.signed };
    });
    pending.catch(() => loaded.delete(map));
    loaded.set(map, pending);
  }
  return loaded.get(map);
}

/**
 * The reason why a method has no map of the pixels, in words.
 * @param {Variant} variant
 * @returns {string}
 */
export const withoutPixels = (variant) =>
  variant.options?.some((option) => option.name === "at" && option.choices.includes("pixels"))
    ? "This map has one score for each patch. The option at=pixels gives one for each pixel."
    : "This method gives one score for each patch, so there is no map of pixels.";
