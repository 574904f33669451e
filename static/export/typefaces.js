// The fonts of exported figures: those of the pages, measured once they are there, and embedded in the file.

export const SERIF = "'Source Serif 4', serif";
export const SANS = "'Source Sans 3', sans-serif";
export const MONO = "'Source Code Pro', monospace";

/** The @font-face rules of fonts.css that bring a file, as [{family, rule, url}]. */
function declared() {
  const sheet = [...document.styleSheets].find(({ href }) => href?.endsWith("/fonts.css"));
  return [...(sheet?.cssRules ?? [])]
    .filter((rule) => rule instanceof CSSFontFaceRule)
    .map((rule) => ({
      rule,
      family: rule.style.getPropertyValue("font-family").replace(/["']/g, ""),
      url: /url\("([^"]+)"\)/.exec(rule.style.getPropertyValue("src"))?.[1],
    }))
    .flatMap((face) => (face.url ? { ...face, url: new URL(face.url, sheet?.href ?? undefined).href } : []));
}

/**
 * Resolves once every font of the figures can be measured.
 * @returns {Promise<void>}
 */
export async function loadFonts() {
  const families = new Set(declared().map(({ family }) => family));
  await Promise.all(
    [...document.fonts].filter(({ family }) => families.has(family.replace(/["']/g, ""))).map((face) => face.load()),
  );
}

/**
 * A file as a data: address.
 * @param {Blob} blob
 * @returns {Promise<string>}
 */
export function dataURL(blob) {
  return new Promise((resolve, reject) => {
    const reader = Object.assign(new FileReader(), {
      onload: () => resolve(String(reader.result)),
      onerror: () => reject(reader.error),
    });
    reader.readAsDataURL(blob);
  });
}

/**
 * The @font-face rules of the families that `markup` names, with their files inside.
 * @param {string} markup
 * @returns {Promise<string>}
 */
export async function embedFonts(markup) {
  const faces = declared().filter(({ family }) => markup.includes(`font-family="&#39;${family}&#39;`));
  const rules = await Promise.all(
    faces.map(async ({ rule, url }) => {
      const file = await (await fetch(url)).blob();
      return rule.cssText.replace(/url\("[^"]+"\)/, `url("${await dataURL(file)}")`);
    }),
  );
  return rules.join("\n");
}
