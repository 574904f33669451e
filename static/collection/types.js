// Types of the table of a collection. Types alone: no page loads this.

/**
 * @typedef {object} Filters
 * @property {string} word
 * @property {string | null} label
 * @property {string | null} answer
 * @property {boolean | null} right
 * @property {string[]} flags
 * @property {{[column: string]: string}} own
 * @property {number[] | null} box x0, y0, x1, y1 in the plane
 * @property {"inputs" | "maps"} space
 * @property {string} order
 * @property {boolean} descending
 */

export {};
