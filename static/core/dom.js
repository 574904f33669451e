// Elements and numbers: the two things that every page writes.

export const MINUS = "\u2212";
const SVG_SPACE = "http://www.w3.org/2000/svg";

/**
 * Make an element. `props` are properties, except `class`, `data`, `on` and attributes with a dash or in `role`, `for`.
 * @template {keyof HTMLElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {{on?: {[event: string]: (event: any) => void}, [name: string]: any}} [props]
 * @param {...any} children
 * @returns {HTMLElementTagNameMap[Tag]}
 */
export function el(tag, props = {}, ...children) {
  const node = /** @type {any} */ (document.createElement(tag));
  for (const [name, value] of Object.entries(props)) {
    if (value === undefined || value === null || value === false) continue;
    if (name === "class") node.className = value;
    else if (name === "data") Object.assign(node.dataset, value);
    else if (name === "on") for (const [event, run] of Object.entries(value)) node.addEventListener(event, run);
    else if (name.includes("-") || name === "role" || name === "for" || name === "list") node.setAttribute(name, value);
    else node[name] = /^(href|src)$/.test(name) ? addressOf(value) : value;
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

/**
 * Make an element of SVG with attributes and children, texts among them.
 * @param {string} tag
 * @param {{[name: string]: any}} [attributes]
 * @param {...any} children
 * @returns {SVGElement}
 */
export function svg(tag, attributes = {}, ...children) {
  const node = document.createElementNS(SVG_SPACE, tag);
  for (const [name, value] of Object.entries(attributes))
    if (value !== null && value !== undefined && value !== "") node.setAttribute(name, value);
  node.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return node;
}

/**
 * The 2D drawing context of a canvas.
 * @param {{getContext: (kind: "2d", settings?: any) => any}} canvas
 * @param {{willReadFrequently: boolean}} [settings]
 * @returns {OffscreenCanvasRenderingContext2D}
 */
export const context2d = (canvas, settings) => canvas.getContext("2d", settings);

/**
 * @param {string} id
 * @returns {any}
 */
export const byId = (id) => document.getElementById(id);

/**
 * Format a number with `digits` significant digits, a true minus sign, and an exponent only where it is needed.
 * @param {number} value
 * @param {number} [digits]
 * @returns {string}
 */
export function number(value, digits = 3) {
  if (!Number.isFinite(value)) return value > 0 ? "∞" : value < 0 ? `${MINUS}∞` : "not a number";
  const size = Math.abs(value);
  let text;
  if (size === 0) text = "0";
  else if (size < 1e-4 || size >= 1e6)
    text = size
      .toExponential(digits - 1)
      .replace("-", MINUS)
      .replace("+", "");
  else if (size >= 10 ** digits - 0.5) text = String(Math.round(size));
  else text = size.toPrecision(digits);
  return value < 0 ? MINUS + text : text;
}

/**
 * Format a whole number that is not negative, with commas: "1,000". `toLocaleString` would first load tables of
 * languages.
 * @param {number} n
 * @returns {string}
 */
export const whole = (n) => String(n).replace(/\B(?=(\d{3})+$)/g, ",");

/**
 * @param {number} value
 * @param {number} [digits]
 * @returns {string}
 */
export const signedNumber = (value, digits = 3) => (value > 0 ? "+" : "") + number(value, digits);

/**
 * Format a probability as a percentage with one decimal; what is neither 0 nor 1 never reads as 0 or 100.
 * @param {number} p
 * @returns {string}
 */
export function percent(p) {
  if (p > 0 && p < 0.0005) return "<0.1\u2009%";
  if (p < 1 && p > 0.9995) return ">99.9\u2009%";
  return `${(100 * p).toFixed(1)}\u2009%`;
}

/**
 * A text whose percentages are not broken at the end of a line, as a list of nodes and strings.
 * @param {string} text
 * @returns {(string | Node)[]}
 */
export const unbroken = (text) =>
  text.split(/(\S+\u2009%)/).map((part, i) => (i % 2 ? el("span", { class: "nb" }, part) : part));

/**
 * Format the model's answer for a class: its probability, or the value of a regression, which has none.
 * @param {{probability?: number | null, logit: number}} options
 * @returns {string}
 */
export const answered = ({ probability, logit }) =>
  probability === undefined || probability === null ? number(logit) : percent(probability);

const NO_POINTS = 0.0005; // so many percent points are rounding, not a change
const NO_CHANGE = 1e-5; // and of a number, as a share of it

/**
 * Format a change of a probability in percentage points: "+1.2 points". A change by rounding alone is 0.
 * @param {number} change
 * @returns {string}
 */
export const points = (change) => {
  const size = Math.abs(100 * change);
  return `${size < NO_POINTS ? "0" : signedNumber(100 * change, size < 9.95 ? 2 : size < 99.95 ? 3 : 4)} points`;
};

/**
 * Format the change of an answer: in points, or in the unit of a regression. A change by rounding alone is 0.
 * @param {{probability?: number | null, logit: number}} was
 * @param {{probability?: number | null, logit: number}} is
 * @returns {string}
 */
export function formatChange(was, is) {
  if (is.probability !== undefined && is.probability !== null) return points(is.probability - Number(was.probability));
  const change = is.logit - was.logit;
  return Math.abs(change) < NO_CHANGE * Math.max(1, Math.abs(was.logit)) ? "0" : signedNumber(change);
}

/**
 * "120 ms", "1.5 s".
 * @param {number} s
 * @returns {string}
 */
export const seconds = (s) =>
  s < 0.0995 ? `${Math.max(1, Math.round(1000 * s))} ms` : `${s < 99.5 ? s.toPrecision(2) : Math.round(s)} s`;

/**
 * "1 map", "2 maps".
 * @param {number} n
 * @param {string} word
 * @param {string} [plural]
 * @returns {string}
 */
export const count = (n, word, plural = `${word}s`) => `${n} ${n === 1 ? word : plural}`;

/**
 * Replace the options of a select and keep what was chosen, where it is still there; else choose the first of `others`
 * that is there.
 * @param {HTMLSelectElement} select
 * @param {string[][]} options
 * @param {...(string | undefined)} others
 */
export function refill(select, options, ...others) {
  const wanted = [select.value, ...others].find((value) => options.some(([name]) => name === value));
  select.replaceChildren(...options.map(([value, text]) => el("option", { value }, text)));
  if (wanted !== undefined) select.value = wanted;
}

/**
 * Say something in a live region, once.
 * @param {string} id
 * @param {string} text
 */
export function say(id, text) {
  const node = byId(id);
  if (node.textContent !== text) node.textContent = text;
}

/** The prefix that a proxy puts before each path, such as "/vitrine", read from this script's own address. */
const ROOT = new URL(import.meta.url).pathname.replace(/\/static\/.*/, "");

/**
 * The address of a path of the server; one with ROOT stays.
 * @param {string} path
 */
export const addressOf = (path) => (/^\/(?!\/)/.test(path) && !path.startsWith(`${ROOT}/`) ? ROOT + path : path);

/**
 * The path at an address.
 * @param {{pathname: string}} address
 */
export const pathOf = ({ pathname }) => pathname.slice(ROOT.length);

const sheets = new Map(); // address -> promise

/**
 * The address of a file of the pages, "tools/probe-example.json", where this script is from: all files of a page are of
 * one version.
 * @param {string} file
 * @returns {string}
 */
export const staticPath = (file) => new URL(`../${file}`, import.meta.url).pathname;

/**
 * Add a style sheet, "tools/interaction.css", once; resolves when it applies.
 * @param {string} file
 * @returns {Promise<void>}
 */
export function addStyleSheet(file) {
  const href = staticPath(`styles/${file}`);
  const loads = (/** @type {any} */ resolve, /** @type {any} */ reject) =>
    document.head.append(
      el("link", {
        rel: "stylesheet",
        href,
        on: { load: resolve, error: () => reject(new Error(`${href} did not arrive`)) },
      }),
    );
  if (!sheets.has(href)) sheets.set(href, new Promise(loads));
  return sheets.get(href);
}
