// Which explanations were asked for in this browser: their ids, newest first. The server keeps no such list, and knows
// nobody.

const KEY = "vitrine.history";
const MOST = 200;

/**
 * The ids of the remembered explanations, newest first; none where the browser keeps nothing for this site.
 * @returns {string[]}
 */
export function rememberedIds() {
  try {
    const ids = JSON.parse(localStorage.getItem(KEY) ?? "[]");
    return Array.isArray(ids) ? ids.filter((id) => typeof id === "string") : [];
  } catch {
    return []; // what is there is not ours, or storage is switched off
  }
}

/** @param {string[]} ids */
function keep(ids) {
  try {
    localStorage.setItem(KEY, JSON.stringify(ids.slice(0, MOST)));
  } catch {
    // storage is switched off or full: the list stays as it was
  }
}

/**
 * Put an explanation first.
 * @param {string} id
 */
export const remember = (id) => keep([id, ...rememberedIds().filter((known) => known !== id)]);

/**
 * Take explanations off the list.
 * @param {...string} ids
 */
export const drop = (...ids) => keep(rememberedIds().filter((id) => !ids.includes(id)));
