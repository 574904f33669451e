// What belongs to the previous question, and cannot be asked of the next one: who tries is told why.

const EVENTS = ["pointerdown", "click", "keydown", "change"];
const LEAVES = ["Tab", "Escape"];

/**
 * Keep `node` from being used while `held()` says so; `tell()` is called when somebody tries.
 * @param {HTMLElement} node
 * @param {() => boolean} held
 * @param {() => void} tell
 */
export function hold(node, held, tell) {
  for (const name of EVENTS) {
    node.addEventListener(
      name,
      (event) => {
        if (!held() || LEAVES.includes(event.key)) return;
        event.preventDefault();
        event.stopImmediatePropagation();
        tell();
      },
      { capture: true },
    );
  }
}
