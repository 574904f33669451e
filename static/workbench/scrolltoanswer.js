// A narrow window, where all lies in one column: see workbench.css.

import { byId } from "../core/dom.js";

const WIDEST = 760;
const SEEN = 120; // pixels of the first map that are enough to see that it is there

/**
 * Scroll down to the answer that the person asked for, unless its first map is in sight or the person has scrolled
 * there.
 */
export function scrollToAnswer() {
  if (innerWidth > WIDEST || scrollY > byId("question").offsetTop) return;
  const [first, bar] = [byId("plates").querySelector(".map-canvas, .reading"), byId("deletion-bar")].map(
    (node) => node?.getBoundingClientRect().top,
  );
  if (first + SEEN > bar) byId("question").scrollIntoView();
}
