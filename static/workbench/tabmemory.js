// What this tab remembers from page to page: where each was left, and the picture that goes along from Image to Prompt
// and back. The links of the head lead there; the link of the page that one is on begins again.

import { addressOf, pathOf } from "../core/dom.js";

/**
 * @import { Target } from "../core/schemas.js"
 * @import { ModelInput, Started } from "../core/types.js"
 * @import { Memory } from "./types.js"
 */

const KEY = "vitrine.places";
const PICTURES = ["/image", "/prompt"];
const PROMPTS = 3; // with which a picture goes to the Prompt page

/** @returns {Memory} */
function read() {
  try {
    return { places: {}, picture: null, examples: [], ...JSON.parse(sessionStorage.getItem(KEY) ?? "{}") };
  } catch {
    return { places: {}, picture: null, examples: [] }; // storage is switched off, or what is there is not ours
  }
}

/** @param {Memory} state */
function keep(state) {
  try {
    sessionStorage.setItem(KEY, JSON.stringify(state));
  } catch {
    // storage is switched off or full: the links lead to fresh pages
  }
  showLinks(state);
}

/**
 * Remember the address at which a page was left, with the key of its picture.
 * @param {string} path
 * @param {string} search
 * @param {string} picture
 */
export function leave(path, search, picture) {
  const state = read();
  keep({ ...state, places: { ...state.places, [path]: { search, picture } } });
}

/**
 * The key of an input, the same in every explanation of it.
 * @param {ModelInput | undefined} input
 * @param {string} id of an explanation
 * @returns {string}
 */
export const keyOf = (input, id) => (input?.kind === "image" && input.sha256) || id;

/** @param {Target} target */
const promptFor = ({ label, prompt }) => prompt ?? `a photo of ${/^[aeiou]/i.test(label) ? "an" : "a"} ${label}`;

/**
 * Remember the explanation `id` of the picture on show for the other page. A picture that the person gave (`isOwn`)
 * goes along to the other page, to the Prompt page with the first classes that the model named; the example that a page
 * begins with does not.
 * @param {string} id
 * @param {Started} info
 * @param {boolean} isOwn
 */
export function carry(id, info, isOwn) {
  const picture = { key: keyOf(info.input, id), id, prompts: info.top.slice(0, PROMPTS).map(promptFor) };
  const state = read();
  const examples = state.examples.filter((key) => key !== picture.key || !isOwn);
  if (isOwn) keep({ ...state, examples, picture });
  else if (!examples.includes(picture.key)) keep({ ...state, examples: [...examples, picture.key] });
}

/**
 * Return whether this picture was only ever the example of a page.
 * @param {string} key
 * @returns {boolean}
 */
export const isExample = (key) => read().examples.includes(key);

/**
 * Forget a deleted explanation, so that no link leads there.
 * @param {string} id
 */
export function forget(id) {
  const state = read();
  const places = Object.fromEntries(
    Object.entries(state.places).filter(([, { search }]) => new URLSearchParams(search).get("id") !== id),
  );
  keep({ ...state, places, picture: state.picture?.id === id ? null : state.picture });
}

/**
 * @param {string} path
 * @param {Memory} memory
 */
function address(path, { places, picture }) {
  const place = places[path];
  if (!PICTURES.includes(path) || !picture || place?.picture === picture.key) return path + (place?.search ?? "");
  const query = new URLSearchParams([
    ["source", picture.id],
    ...(path === "/prompt" ? picture.prompts.map((prompt) => ["prompt", prompt]) : []),
  ]);
  return `${path}?${query}`;
}

function showLinks(state = read()) {
  /** @type {NodeListOf<HTMLAnchorElement>} */
  const links = document.querySelectorAll("header nav a");
  for (const link of links) {
    const path = pathOf(link);
    const isHere = link.getAttribute("aria-current") === "page";
    if (isHere) link.title = "Start again";
    else if (path in state.places || PICTURES.includes(path)) link.href = addressOf(address(path, state));
  }
}

showLinks();
