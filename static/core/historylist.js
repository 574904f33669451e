// Which explanations were asked for in this browser: their ids, newest first. The server keeps no such list, and knows
// nobody.

const KEY = "vitrine.history";
const SAMPLES_KEY = "vitrine.samples"; // which explanation is of which sample: a stored one does not say it
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

/** @returns {{[id: string]: string}} */
function knownSamples() {
  try {
    const known = JSON.parse(localStorage.getItem(SAMPLES_KEY) ?? "{}");
    return known && typeof known === "object" && !Array.isArray(known) ? known : {};
  } catch {
    return {};
  }
}

/**
 * Note of which sample an explanation is, as long as it is on the list.
 * @param {string} id
 * @param {string | null} sample
 */
export function rememberSample(id, sample) {
  if (!sample) return;
  const ids = new Set(rememberedIds());
  const known = Object.entries({ ...knownSamples(), [id]: sample }).filter(([other]) => other === id || ids.has(other));
  try {
    localStorage.setItem(SAMPLES_KEY, JSON.stringify(Object.fromEntries(known)));
  } catch {
    // as in `keep`
  }
}

/**
 * The sample that an explanation is of; null where it is of none, or that was not noted here.
 * @param {string} id
 * @returns {string | null}
 */
export const sampleOf = (id) => knownSamples()[id] ?? null;
