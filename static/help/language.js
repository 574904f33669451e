// The language of the guided visit: that of ?lang= in the address, else the first of the browser's languages that there
// is a file for, else English. A translation is a file in language/ and nothing else: the head of each page names them.

/** @type {string[]} */
export const LANGUAGES =
  /** @type {HTMLMetaElement} */ (document.querySelector("meta[name=vitrine]")).dataset.languages?.split(" ") ?? [];

/**
 * {language, say}: `say(key, values)` is the text of a key, with {name} replaced by values.
 * @returns {Promise<{language: string, say: (key: string, values?: {[name: string]: any}) => string}>}
 */
export async function loadWords() {
  const preferred = [new URLSearchParams(location.search).get("lang"), ...navigator.languages];
  const language =
    preferred.map((name) => name?.toLowerCase().split("-")[0]).find((name) => name && LANGUAGES.includes(name)) ?? "en";
  const { default: words } = await import(`./language/${language}.js`);
  return {
    language,
    say: (key, values = {}) =>
      words[key].replace(/\{(\w+)\}/g, (/** @type {string} */ _, /** @type {string} */ name) => values[name]),
  };
}
