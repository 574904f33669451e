// The navigation of a narrow window, which is one line that a finger moves: the entry of this page is in sight.

const entry = /** @type {HTMLElement | null} */ (document.querySelector(".top nav [aria-current]"));
const line = entry?.parentElement;
if (entry && line) line.scrollLeft = entry.offsetLeft - line.offsetLeft - (line.clientWidth - entry.offsetWidth) / 2;
