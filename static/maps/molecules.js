// What plates and figures of molecules share: the outlines of a drawing, and where colours lie on it.

import { svg } from "../core/dom.js";

/** @import { Drawing, MoleculePart } from "../core/schemas.js" */

const OUTLINES = new Set(["path", "line", "polygon", "ellipse"]);
const [LEAST, MOST] = [7, 17]; // units of the drawing: how large the colour of an atom is
const OF_BOND = 0.42; // of the length of a bond

/**
 * The outlines of a drawing, and nothing else that it might hold.
 * @param {Drawing} drawing
 * @returns {SVGElement}
 */
export function outlines({ svg: text }) {
  const parsed = new DOMParser().parseFromString(text, "image/svg+xml").documentElement;
  const kept = [...parsed.children].filter((node) => OUTLINES.has(node.tagName));
  return svg("g", { class: "outlines" }, ...kept.map((node) => document.importNode(node, true)));
}

/**
 * The radius of an atom's colour, so that neighbours do not run into each other.
 * @param {MoleculePart} molecule
 * @returns {number}
 */
export function radiusOf({ bonds, drawing }) {
  const places = drawing?.places ?? [];
  const lengths = bonds.map(({ atoms: [a, b] }) =>
    Math.hypot(places[a][0] - places[b][0], places[a][1] - places[b][1]),
  );
  const mean = lengths.reduce((sum, length) => sum + length, 0) / (lengths.length || 1);
  return Math.max(LEAST, Math.min(MOST, OF_BOND * (mean || MOST / OF_BOND)));
}

/**
 * The half of each bond that belongs to an atom, [x1, y1, x2, y2].
 * @param {MoleculePart} molecule
 * @param {number} atom
 * @returns {number[][]}
 */
export function halvesOf({ bonds, drawing }, atom) {
  const places = drawing?.places ?? [];
  return bonds
    .filter(({ atoms }) => atoms.includes(atom))
    .map(({ atoms: [a, b] }) => {
      const [[x, y], [u, v]] = [places[atom], places[a === atom ? b : a]];
      return [x, y, (x + u) / 2, (y + v) / 2];
    });
}
