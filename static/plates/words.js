// A plate of a text: its words coloured by their scores, with an underline as thick as the score is large.

import { chosen, hasSink, place, strengths, twoSided } from "../core/colour.js";
import { count, el, number, signedNumber } from "../core/dom.js";
import { plateName } from "../core/registry.js";
import { mapMenu } from "../export/export.js";
import { DeletionFacts } from "../maps/deletionfacts.js";
import { ValueTag, ranksByStrength, rankName } from "../maps/valuetag.js";
import {
  byLine,
  Facts,
  AboutButton,
  heading,
  Notes,
  plainLine,
  sameNote,
  Scale,
  remarks,
  standingLine,
  PlateActions,
} from "../maps/caption.js";
import { MapSentence, textInWords } from "../maps/summary.js";
import { unitScore } from "./content.js";
import { enlarge } from "./plate.js";

/**
 * @import { Ends } from "../core/colour.js"
 * @import { TextInput, TextWindow } from "../core/schemas.js"
 * @import { Focus, ScoreMap, Unit, Variant, View } from "../core/types.js"
 * @import { TextBase } from "../maps/types.js"
 * @import { PlateStores } from "./types.js"
 */

/** @typedef {Pick<TextInput, "text" | "text_pair" | "answer" | "tokens" | "words">} Shown */

const WORD = /[\p{L}\p{N}_]+(?:['’-][\p{L}\p{N}_]+)*|[^\s\p{L}\p{N}_]/gu; // as models count: each mark is one too
const FOLDED = 12; // so many unread words stand there openly

/**
 * Return whether the model left out any letters between two places of the text: white space alone is nothing.
 * @param {string} text
 * @param {number} from
 * @param {number} to
 */
const leftOut = (text, from, to) => /[\p{L}\p{N}]/u.test(text.slice(from, to));

/**
 * Make the part that the model did not read: struck through, and folded where it is long.
 * @param {string} gap
 */
function unread(gap) {
  const span = el("span", { class: "unread", title: "not read by the model" }, gap);
  const words = gap.match(WORD)?.length ?? 0;
  if (words <= FOLDED) return [span];
  /** @param {boolean} open */
  const text = (open) =>
    open ? `fold ${count(words, "word")} that were not read` : `… ${count(words, "word")} not read …`;
  const fold = el("button", { type: "button", class: "fold", "aria-expanded": "false" }, text(false));
  fold.addEventListener("click", (event) => {
    event.stopPropagation();
    span.hidden = !span.hidden;
    fold.setAttribute("aria-expanded", String(!span.hidden));
    fold.textContent = text(!span.hidden);
  });
  span.hidden = true;
  return [" ", fold, " ", span];
}

/**
 * Join pieces that stand for bytes of one character, which is shown once.
 * @param {Unit[]} pieces
 * @param {Unit} piece
 */
function joined(pieces, piece) {
  const last = pieces.at(-1);
  if (!last || piece.start >= last.end || (piece.part ?? 0) !== (last.part ?? 0)) return [...pieces, piece];
  Object.assign(last, { end: Math.max(last.end, piece.end), tokens: [...last.tokens, ...piece.tokens] });
  return pieces;
}

const BETWEEN = "\n\n"; // the two texts of a pair, where they are shown

/**
 * The text that is shown below the first: the second of a pair, or what the model wrote as far as its words have
 * scores.
 * @param {Shown} input
 * @returns {string | undefined}
 */
function secondText({ text_pair: second, answer, words = [] }) {
  const ends = words.filter((word) => word.part === 2).map((word) => word.end);
  return second ?? (ends.length ? answer?.slice(0, Math.max(...ends)) : undefined);
}

/**
 * What stands before the second text: the first one, and the room between the two; nothing where no text was given, as
 * with a sound that is written down.
 * @param {Shown} input
 */
const before = ({ text }) => (text ? text + BETWEEN : "");

/**
 * The text as it is shown: the second of two below the first.
 * @param {Shown} input
 * @returns {string}
 */
export function wholeText(input) {
  const second = secondText(input);
  return second === undefined ? (input.text ?? "") : before(input) + second;
}

/**
 * Split the text by `grain`: [{start, end, tokens}], tokens being indices into the scores.
 * @param {Shown} input
 * @param {string} grain
 * @returns {Unit[]}
 */
export function unitsOf(input, grain) {
  const text = wholeText(input);
  const isPair = secondText(input) !== undefined;
  const by = isPair ? before(input).length : 0;
  const [tokens, words] = isPair ? [moved(input.tokens, by), moved(input.words, by)] : [input.tokens, input.words];
  if (grain === "words") return words;
  if (grain === "pieces")
    return tokens
      .map((token, i) => ({ ...token, tokens: [i] }))
      .filter((piece) => !piece.special && piece.end > piece.start)
      .reduce(joined, /** @type {Unit[]} */ ([]));
  /** @type {Unit[]} */
  const sentences = [];
  let open = false;
  for (const word of words) {
    const last = sentences.at(-1);
    if (open && last && (last.part ?? 0) === (word.part ?? 0) && !leftOut(text, last.end, word.start))
      Object.assign(last, { end: word.end, tokens: [...last.tokens, ...word.tokens] });
    else sentences.push({ start: word.start, end: word.end, tokens: [...word.tokens], part: word.part });
    // a full stop ends a sentence where white space or the end of the text comes next, so "4.5" stays whole
    open = !(/[.!?…]["'”’)]*$/.test(text.slice(word.start, word.end)) && /^["'”’)]*(\s|$)/.test(text.slice(word.end)));
  }
  return sentences;
}

/**
 * The parts of a text, moved `by` this many characters: those of the second of a pair.
 * @template {{start: number, end: number, part?: number}} Part
 * @param {Part[]} parts
 * @param {number} by
 * @returns {Part[]}
 */
const moved = (parts, by) =>
  parts.map((one) => (one.part ? { ...one, start: one.start + by, end: one.end + by } : one));

/**
 * Colour a word by its position on the scale: depth of colour, thickness of the underline, and dots under what speaks
 * against.
 * @param {HTMLElement | SVGElement} span
 * @param {number} t
 * @param {boolean} signed
 */
export function tint(span, t, signed) {
  const size = Math.abs(t);
  span.setAttribute("class", t === 0 ? "" : !signed ? "mag" : t > 0 ? "pro" : "con");
  span.style.setProperty("--a", size.toFixed(3));
  span.style.setProperty("--u", `${Math.round(size * 4)}px`);
}

/**
 * Make the mark where a window of a long text begins or ends: a thin line with its number, no part of the text.
 * @param {string} kind
 * @param {number} i
 */
function edge(kind, i) {
  return el("i", {
    class: `edge ${kind}`,
    title: `window ${i + 1} ${kind}`,
    "aria-hidden": "true",
    data: { window: i + 1 },
  });
}

/**
 * The marks of those windows whose `side` ("start" or "end") lies in a unit.
 * @param {TextWindow[]} windows
 * @param {string} side
 * @param {{start: number, end: number}} unit
 * @param {string} kind
 */
const edges = (windows, side, unit, kind) =>
  windows.flatMap((span, i) => {
    const at = side === "end" ? span.end - 1 : span.start;
    return at >= unit.start && at < unit.end ? [edge(kind, i)] : [];
  });

/** A text coloured by one map, with its caption. */
export class WordPlate {
  /**
   * With `target`, the plate is one of a row of maps of the same method, and its caption shows only what differs in the
   * row.
   * @param {Variant} variant
   * @param {PlateStores} stores
   * @param {string | null} [target]
   */
  constructor(variant, stores, target = null) {
    this.variant = variant;
    this.stores = stores;
    this.view = stores.view;
    this.focus = stores.focus;
    this.onRead = stores.onRead;
    this.target = target;
    this.name = target === null ? plateName(variant) : `${plateName(variant)}, ${target}`;
    /** @type {ScoreMap | null} */
    this.map = null;
    /** @type {TextBase | null} */
    this.base = null;
    /** @type {number[]} */
    this.values = [];
    /** @type {ArrayLike<number>} */
    this.ranks = [];
    /** @type {(HTMLElement | SVGElement)[]} */
    this.spans = [];
    /** @type {number[]} */
    this.order = [];
    this.ends = [0, 0];
    /** @type {any} */
    this.picture = null;
    this.valueTag = new ValueTag();
    this.reading = el("div", {
      class: "reading",
      dir: "auto", // Arabic and Hebrew run from the right
      tabIndex: 0,
      role: "application",
      "aria-roledescription": "coloured text",
    });
    this.scale = new Scale(variant);
    this.sentence = new MapSentence(this.reading);
    this.facts = new Facts(variant, target !== null);
    this.notes = target === null ? new Notes(sameNote(variant)) : null; // a row of maps has them once
    this.actions = new PlateActions(variant, mapMenu(this), () => this.map, target === null);
    this.deletion = target === null ? null : new DeletionFacts(); // in a row its room is kept, as no words lie there
    const name =
      target === null
        ? [
            heading(variant),
            standingLine(variant),
            plainLine(variant),
            el("p", { class: "by", title: byLine(variant) }, byLine(variant)),
          ]
        : [el("p", { class: "caption" }, target)];
    const head = [this.valueTag.node, ...name];
    const foot = el(
      "div",
      { class: "under" },
      this.scale.node,
      this.facts.node,
      this.sentence.node,
      this.notes?.node,
      this.deletion?.node,
      this.actions.node,
    );
    this.node = el("article", { class: "plate", data: { spec: variant.spec } }, head, this.reading, foot);
    this.about = target === null ? new AboutButton(variant.title, () => this.node) : null;
    this.scale.node.append(el("div", { class: "buttons" }, this.about?.node, enlarge(this, this.reading)));
    this.#listen();
    this.show(null);
  }

  /**
   * The view: how the map is shown.
   * @returns {View}
   */
  get look() {
    return this.view.value;
  }

  /**
   * The scores that decide the scale: where the view says so, without a first word that dwarfs all others.
   * @returns {number[]}
   */
  get scaled() {
    return this.look.sink === "on" && hasSink(this.values) ? this.values.slice(1) : this.values;
  }

  /** @param {"waiting" | "stale" | "done" | "missing"} state */
  set state(state) {
    this.node.dataset.state = state;
    this.node.setAttribute("aria-busy", String(state === "waiting" || state === "stale"));
  }

  /**
   * Set the text and its division: {text, units, windows}, `windows` those of a text longer than the model. Null leaves
   * the plate as it is.
   * @param {TextBase | null} base
   */
  setBase(base) {
    if (!base) return;
    if (base.picture !== this.base?.picture) {
      this.picture?.node.remove();
      this.picture = base.picture?.on(this) ?? null;
      if (this.picture) this.reading.before(this.picture.node);
      this.scale.where = this.picture ? "in the words" : undefined;
    }
    this.base = base;
    this.lay(base);
    this.#score();
  }

  /** @param {TextBase} base */
  lay({ text, units, windows = [] }) {
    let at = 0;
    /** @type {(string | Node)[]} */
    const parts = [];
    /** @param {number} to */
    const between = (to) => {
      const gap = text.slice(at, to);
      parts.push(...(units.length && !this.picture && leftOut(text, at, to) ? unread(gap) : [gap]));
    };
    this.spans = units.map(({ start, end }, i) => {
      const span = el("span", { data: { w: i } }, text.slice(start, end));
      between(start);
      parts.push(
        ...edges(windows, "start", { start, end }, "begins"),
        span,
        ...edges(windows, "end", { start, end }, "ends"),
      );
      at = end;
      return span;
    });
    between(text.length);
    this.reading.replaceChildren(...parts);
  }

  /** Does nothing here; a molecule describes itself. */
  tell() {}

  /**
   * Show a map of explanation `id`; null removes it.
   * @param {ScoreMap | null} map
   * @param {string} [id]
   */
  show(map, id) {
    this.map = map;
    this.picture?.show(map);
    this.facts.show(map);
    this.actions.id = (map && id) ?? null;
    const known = remarks(map ? [map] : []);
    this.notes?.show(known);
    this.about?.warn(known.isDoubtful);
    if (!map) this.scale.show(null);
    this.#score();
    this.state = map ? "done" : "waiting";
  }

  /**
   * Colour the words with these ends of the colours.
   * @param {Ends} ends
   */
  colour(ends) {
    const signed = twoSided(ends, this.variant.signed);
    this.ends = ends;
    if (this.map) this.scale.show(ends, this.look, this.values);
    this.picture?.draw();
    this.spans.forEach((span, i) => {
      const t = this.map ? place(chosen(this.values[i], signed, this.look.evidence), ends, signed) : 0;
      tint(span, t, signed);
    });
    this.mark(this.focus.value);
  }

  /**
   * Show the focus.
   * @param {Focus} options
   */
  mark({ at, locked }) {
    this.spans.forEach((span, i) => {
      span.classList.toggle("on", i === at);
      span.classList.toggle("locked", i === at && locked);
    });
    if (this.map && at >= 0 && at < this.values.length) this.valueTag.show(this.#shown(at), this.#rank(at));
    else this.valueTag.show();
  }

  /** @param {number} i */
  #rank(i) {
    return rankName(this.ranks[i], this.ranks.length);
  }

  /** @param {number} i */
  #shown(i) {
    return (this.variant.signed ? signedNumber : number)(this.values[i]);
  }

  /** @param {number} i */
  #word(i) {
    const { text = "", units = [] } = this.base ?? {};
    return `“${text.slice(units[i].start, units[i].end)}”`;
  }

  #score() {
    const { map, base } = this;
    this.values =
      map && base ? base.units.map(map.unitScore ?? ((unit) => unitScore(map.scores, unit, map.signed))) : [];
    this.ranks = ranksByStrength(this.values);
    const sizes = strengths(this.values);
    this.order = sizes.map((_, i) => i).sort((a, b) => sizes[b] - sizes[a]);
    this.sentence.show(
      map && base
        ? textInWords(
            base.units.map(({ start, end }, i) => ({ text: base.text.slice(start, end), value: this.values[i] })),
            map,
          )
        : "",
    );
    const strongest = this.order.slice(0, 3).map((i) => `${this.#word(i)} ${this.#shown(i)}`);
    const description = strongest.length
      ? `strongest ${strongest.join(", ")}. Left and Right walk the text, Up and Down go by strength, Escape lets go.`
      : "not there yet";
    this.reading.setAttribute("aria-label", `${this.name}: ${description}`);
    this.tell();
  }

  #listen() {
    /** @param {PointerEvent} event */
    const at = ({ target }) =>
      Number((target instanceof Element && target.closest("[data-w]")?.getAttribute("data-w")) || -1);
    this.reading.addEventListener(
      "pointerover",
      (event) => this.focus.value.locked || this.focus.set({ at: at(event) }),
    );
    this.reading.addEventListener("pointerleave", () => this.focus.value.locked || this.focus.set({ at: -1 }));
    this.reading.addEventListener("click", (event) => {
      const now = this.focus.value;
      const word = at(event);
      this.focus.set(word < 0 || (now.locked && now.at === word) ? { locked: false } : { at: word, locked: true });
    });
    this.reading.addEventListener("keydown", (event) => this.#walk(event));
  }

  /** @param {KeyboardEvent} event */
  #walk(event) {
    if (!this.values.length || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Escape") return void this.focus.set({ at: -1, locked: false });
    const { at } = this.focus.value;
    const last = this.values.length - 1;
    const rank = this.order.indexOf(at);
    const back = () => Math.max(0, at - 1);
    const on = () => Math.min(last, at + 1);
    const fromRight = getComputedStyle(this.reading).direction === "rtl";
    /** @type {{[key: string]: () => number}} */
    const places = {
      ArrowLeft: fromRight ? on : back,
      ArrowRight: fromRight ? back : on,
      ArrowUp: () => this.order[Math.max(0, rank - 1)],
      ArrowDown: () => this.order[Math.min(last, rank + 1)],
      Home: () => this.order[0],
    };
    const next = places[event.key]?.();
    if (next === undefined) return;
    event.preventDefault();
    this.focus.set({ at: next, locked: true });
    this.spans[next].scrollIntoView({ block: "nearest" });
    this.onRead?.(`${this.name}, ${this.#word(next)}: ${this.#shown(next)}, ${this.#rank(next)} by strength`);
  }
}
