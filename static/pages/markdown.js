// Model cards as elements: the Markdown that they use, and no markup of their own: everything is inserted as text.

import { el } from "../core/dom.js";

const INLINE = /`([^`]+)`|\*\*([^*]+)\*\*|\*([^*]+)\*|\[([^\]]+)\]\((https?:\/\/[^)\s]+)\)/g;

/** @param {string} text */
function inline(text) {
  /** @type {(string | Node)[]} */
  const parts = [];
  let at = 0;
  for (const match of text.matchAll(INLINE)) {
    const [whole, code, strong, emphasis, label, href] = match;
    parts.push(text.slice(at, match.index));
    if (code) parts.push(el("code", {}, code));
    else if (strong) parts.push(el("strong", {}, strong));
    else if (emphasis) parts.push(el("em", {}, emphasis));
    else parts.push(el("a", { href, rel: "noreferrer", target: "_blank" }, label));
    at = match.index + whole.length;
  }
  return [...parts, text.slice(at)];
}

/** @param {string} line */
const cells = (line) =>
  line
    .trim()
    .replace(/^\||\|$/g, "")
    .split("|")
    .map((cell) => inline(cell.trim()));

/** @param {string[]} lines */
function tableOf(lines) {
  const [head, , ...body] = lines;
  /** @param {"th" | "td"} tag */
  const row = (tag) => (/** @type {string} */ line) =>
    el(
      "tr",
      {},
      cells(line).map((cell) => el(tag, {}, cell)),
    );
  return el(
    "div",
    { class: "scroll" },
    el("table", {}, el("thead", {}, row("th")(head)), el("tbody", {}, body.map(row("td")))),
  );
}

/** @param {string[]} lines */
function listOf(lines) {
  /** @type {string[]} */
  const items = [];
  for (const line of lines) {
    const item = /^\s*(?:[-*]|\d+\.)\s+(.*)/.exec(line);
    if (item) items.push(item[1]);
    else items[items.length - 1] += ` ${line.trim()}`;
  }
  return el(
    /^\s*\d/.test(lines[0]) ? "ol" : "ul",
    {},
    items.map((item) => el("li", {}, inline(item))),
  );
}

/**
 * The Markdown `text` as elements. Headings begin at `level`, so that they fit where the card is put.
 * @param {string} text
 * @param {number} [level]
 * @returns {HTMLElement[]}
 */
export function markdown(text, level = 4) {
  const body = text.replace(/^---\n[\s\S]*?\n---\n/, ""); // the card's metadata
  /** @type {HTMLElement[]} */
  const blocks = [];
  for (const part of body.split(/(^```[\s\S]*?^```$)/m)) {
    if (part.startsWith("```")) blocks.push(el("pre", {}, el("code", {}, part.split("\n").slice(1, -1).join("\n"))));
    else
      for (const paragraph of part.split(/\n\s*\n/))
        if (paragraph.trim()) blocks.push(...block(paragraph.replace(/^\n+|\s+$/g, ""), level));
  }
  return blocks;
}

/**
 * @param {string} paragraph
 * @param {number} level
 * @returns {HTMLElement[]}
 */
function block(paragraph, level) {
  const lines = paragraph.split("\n");
  if (lines.every((line) => line.startsWith("    ")))
    return [el("pre", {}, el("code", {}, lines.map((line) => line.slice(4)).join("\n")))];
  const heading = /^(#+)\s+(.*)/.exec(lines[0]);
  if (heading) {
    const rank = Math.min(6, level + heading[1].length - 1);
    const title = el(/** @type {"h6"} */ (`h${rank}`), {}, inline(heading[2]));
    const rest = lines.slice(1).join("\n");
    return rest.trim() ? [title, ...block(rest, level)] : [title];
  }
  if (lines.length > 1 && /^\s*\|?[\s:|-]+\|[\s:|-]*$/.test(lines[1])) return [tableOf(lines)];
  if (/^\s*([-*]|\d+\.)\s/.test(lines[0])) return [listOf(lines)];
  const list = lines.findIndex((line) => /^\s*[-*]\s/.test(line));
  if (list > 0) return [...block(lines.slice(0, list).join("\n"), level), listOf(lines.slice(list))];
  return [el("p", {}, inline(lines.join(" ")))];
}
