// What the server takes at once, asked of it once: what is over a limit is said before anything is sent, in the
// server's own words.

import { getJSON, Problem } from "./api.js";

/** @import { Limit } from "./schemas.js" */

/** @type {{[name: string]: Limit}} */
let known = {};

/**
 * Ask the server for its limits.
 * @returns {Promise<void>}
 */
export async function loadLimits() {
  known = (await getJSON("/api/limits")).limits;
}

/**
 * The limit called `name`; Infinity before it is known.
 * @param {string} name
 * @returns {number}
 */
export const most = (name) => known[name]?.most ?? Infinity;

/**
 * Throw the Problem of a limit where `count` is over it.
 * @param {string} name
 * @param {number} count
 * @param {string} [what]
 */
function hold(name, count, what = "") {
  if (count <= most(name)) return;
  const { detail, ...problem } = known[name];
  throw new Problem({ ...problem, detail: detail.replace("{count}", String(count)).replace("{what}", what) });
}

/**
 * The number of pixels of a picture; 0 where the browser cannot read it, which is for the server to judge.
 * @param {Blob} file
 */
async function pixelsOf(file) {
  const image = new Image();
  image.src = URL.createObjectURL(file);
  try {
    await image.decode();
    return image.naturalWidth * image.naturalHeight;
  } catch {
    return 0;
  } finally {
    URL.revokeObjectURL(image.src);
  }
}

/**
 * Throw a Problem where the fields of a form are more than the server takes.
 * @param {{image?: Blob | Blob[], text?: string, video?: boolean, target?: string[], prompt?: string[],
 *   methods?: string[]}} options
 * @returns {Promise<void>}
 */
export async function check({ image, text, video, target, prompt, methods = [] }) {
  hold("methods", methods.length);
  for (const [what, names] of Object.entries({ target: target ?? [], prompt: prompt ?? [] })) {
    hold("targets", names.length, what);
    hold("name", Math.max(0, ...names.map((name) => [...name].length)), what);
  }
  if (text) hold("text", [...text].length);
  if (!image) return;
  const images = [image].flat();
  const isVideo = video || !text;
  hold(text ? (video ? "frames_of_video" : "pictures") : "frames", images.length);
  hold(
    "upload",
    images.reduce((bytes, { size }) => bytes + size, 0),
  );
  if (images.length === 1) return hold("pixels", await pixelsOf(images[0]));
  if (isVideo) return hold("pixels_of_clip", images.length * (await pixelsOf(images[0]))); // frames have one size
  const sizes = await Promise.all(images.map(pixelsOf));
  hold(
    "pixels_of_pictures",
    sizes.reduce((a, b) => a + b, 0),
  );
}
