// One map on a picture from the scores of its tokens in a text, which may cover it in several tiles.

/**
 * @import { PictureTile } from "../core/schemas.js"
 * @import { Grid } from "../core/types.js"
 */

/**
 * The map of a picture on its `grid` from the scores of all tokens: each is spread evenly over the rectangle that the token
 * covers, as `join_tiles` of the engine does.
 * @param {ArrayLike<number>} scores
 * @param {PictureTile[]} tiles
 * @param {Grid} grid
 */
export function joinTiles(scores, tiles, [rows, columns]) {
  const joined = Array(rows * columns).fill(0);
  for (const { first, step, rows: count, columns: across, box } of tiles) {
    const down = sharesOf(box[1], box[3], count, rows);
    const along = sharesOf(box[0], box[2], across, columns);
    down.forEach((ofRow, i) =>
      along.forEach((ofColumn, j) => {
        const score = scores[first + step * i + j];
        for (const [row, high] of ofRow)
          for (const [column, wide] of ofColumn) joined[row * columns + column] += score * high * wide;
      }),
    );
  }
  return joined;
}

/**
 * Of each of `cells` equal pieces of the interval from `start` to `stop` the shares that lie in `fine` equal pieces of the
 * interval from 0 to 1, with their numbers; a piece that lies outside belongs to the nearest one.
 * @param {number} start
 * @param {number} stop
 * @param {number} cells
 * @param {number} fine
 */
function sharesOf(start, stop, cells, fine) {
  return Array.from({ length: cells }, (_, cell) => {
    const low = start + ((stop - start) * cell) / cells;
    const high = start + ((stop - start) * (cell + 1)) / cells;
    const parts = /** @type {[number, number][]} */ ([]);
    for (let i = 0; i < fine; i++) {
      const share = Math.min(high, (i + 1) / fine) - Math.max(low, i / fine);
      if (share > 1e-9) parts.push([i, share]);
    }
    if (!parts.length) parts.push([Math.min(fine - 1, Math.max(0, Math.floor(((low + high) / 2) * fine))), 1]);
    const sum = parts.reduce((total, [, share]) => total + share, 0);
    return parts.map(([i, share]) => /** @type {[number, number]} */ ([i, share / sum]));
  });
}
