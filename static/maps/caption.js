// The caption of a plate: what a reader needs to judge the map above it.

import { coloursOf, ramp, twoSided } from "../core/colour.js";
import { el, number, seconds } from "../core/dom.js";
import { isMethod } from "../core/registry.js";
import { ruleName } from "../core/rules.js";
import { withTerms } from "../help/terms.js";

/**
 * @import { Ends } from "../core/colour.js"
 * @import { ScoreMap, Standing, Variant, View } from "../core/types.js"
 */

/**
 * The authors and year of a method.
 * @param {{by?: string, year?: number | null}} options
 * @returns {string}
 */
export const byLine = ({ by, year }) => [by, year].filter(Boolean).join(", ") || "\u00a0";

/**
 * Make the heading of a method, which links to its page.
 * @param {Variant} variant
 * @returns {HTMLHeadingElement}
 */
export const heading = (variant) =>
  el("h2", { title: variant.description }, el("a", { href: `/methods/${variant.readout}` }, variant.title));

/** @type {{[rule: string]: string}} */
const ENDINGS = { one: "st", two: "nd", few: "rd", other: "th" };
const ordinals = new Intl.PluralRules("en", { type: "ordinal" });
/**
 * "1st", "2nd".
 * @param {number} n
 * @returns {string}
 */
export const ordinal = (n) => `${n}${ENDINGS[ordinals.select(n)]}`;

/**
 * The rank of a method in a run in words: where several are tied with the best, none is the first.
 * @param {Standing} standing
 */
const placeOf = ({ rank, tied, ties }) => (tied && ties > 1 ? `one of the ${ties} best` : ordinal(rank));

/**
 * Make the line on a method's rank in a run that ships, with its model and data set; where none measured it (null), the
 * line says that. The whole sentence is its tooltip, and is read out. No line where it is not known whether one did.
 * @param {{standing?: Standing | null, family?: string}} options
 * @returns {HTMLParagraphElement | null}
 */
export function standingLine({ standing, family }) {
  if (standing === undefined) return null;
  if (!standing)
    return el(
      "p",
      { class: "standing" },
      isMethod({ family }) ? "not measured" : "the control: noise, to compare with",
    );
  const { of, value, low, high, measured, inputs, model, metric, second, random } = standing;
  /** @param {number | null} figure */
  const shown = (figure) => (figure === null ? "–" : number(metric.unit === "share" ? 100 * figure : figure));
  const unit = metric.unit === "share" ? " %" : "";
  const place = placeOf(standing);
  const by = `“${metric.title}”${second && standing.tied ? ` and “${second.title}”` : ""}`;
  const where = `Not measured on your input: ${place} of ${of} methods by ${by} on ${measured}, with ${model}`;
  const figures = `${shown(value)}${unit} (${shown(low)} to ${shown(high)}), and ${shown(random)}${unit} for a random map`;
  const better = metric.direction === "lower" ? "Less is better." : "More is better.";
  const title = `${where}: ${figures}. ${better}`;
  return el(
    "p",
    { class: "standing", title },
    el("span", { class: "elsewhere" }, "elsewhere "), // shown where the map of this input is in doubt
    el("b", { class: standing.tied && standing.ties > 1 ? "words" : "" }, place),
    el("span", { class: "where" }, ` of ${of} with ${model}, tested on ${inputs}`),
    el("span", { class: "hidden" }, `. ${title}`),
  );
}

/**
 * Make the line on what a method shows, in plain words; what the deletion test says of the map replaces it.
 * @param {{line?: string}} options
 * @returns {HTMLDivElement}
 */
export const plainLine = ({ line }) => el("div", { class: "plainly" }, el("p", {}, withTerms(line ?? "")));

/**
 * The row of a list of facts that a value stands in.
 * @param {HTMLElement} value
 */
const rowOf = (value) => /** @type {HTMLElement} */ (value.parentNode);

const SAME = "This method gives the same map for every class.";

/**
 * What the engine notes about these maps, in plain words, once each, and whether the order of one of them cannot be
 * trusted for this input: that is what "!" stands for.
 * @param {ScoreMap[]} maps
 * @returns {{texts: string[], isDoubtful: boolean}}
 */
export function remarks(maps) {
  const equal = maps
    .filter((map) => map.range[0] === map.range[1])
    .map(() => "All scores are equal, so this map shows nothing.");
  return {
    texts: [...new Set([...equal, ...maps.flatMap((map) => map.notes ?? [])])],
    isDoubtful: equal.length > 0 || maps.some((map) => map.doubtful),
  };
}

/**
 * The notes under a map: what holds for every map of the method, and before it what is to be known of this one, with a
 * sign where its order cannot be trusted.
 */
export class Notes {
  /** @param {string | null} standing */
  constructor(standing) {
    this.standing = standing;
    this.node = el("div", { class: "note" });
    this.show({ texts: [], isDoubtful: false });
  }
  /**
   * Show what is to be known of the map, a paragraph each.
   * @param {{texts: string[], isDoubtful: boolean}} remarks
   */
  show({ texts, isDoubtful }) {
    /** @param {string} text */
    const warning = (text) =>
      el(
        "p",
        { class: "warning" },
        el("span", { class: "sign", "aria-hidden": "true" }, "!"),
        el("span", { class: "hidden" }, "Warning: "),
        el("span", {}, text),
      );
    /** @param {string} text */
    const remark = (text) => el("p", { class: "remark" }, text);
    this.node.classList.toggle("doubtful", isDoubtful);
    this.node.replaceChildren(
      ...texts.map(isDoubtful ? warning : remark),
      ...(this.standing ? [el("p", {}, this.standing)] : []),
    );
  }
}

/**
 * The note on what holds for every map of a method, whatever the input.
 * @param {Variant} variant
 * @param {string} [same]
 * @returns {string}
 */
export const sameNote = (variant, same = SAME) => (variant.class_specific ? "" : same);

/**
 * Make a button that opens the fields of a method's options; null where it has none.
 * @param {Variant} variant
 * @returns {HTMLButtonElement | null}
 */
export const optionsButton = (variant) =>
  variant.options?.length
    ? el(
        "button",
        {
          type: "button",
          class: "options",
          "aria-label": `${variant.title}: options`,
          on: {
            click: (event) =>
              event.target.dispatchEvent(new CustomEvent("options", { bubbles: true, detail: variant.spec })),
          },
        },
        "options",
      )
    : null;

/**
 * The meaning of the two ends of the colours; `meaning` where a map with a sign is not against and for its target.
 * @param {{signed: boolean, meaning?: string[]}} options
 * @returns {string[]}
 */
export const meaningOf = ({ signed, meaning = ["against", "for"] }) => (signed ? meaning : ["weak", "strong"]);

/**
 * The note on a map that is drawn as strength although its method has a sign; "" for any other.
 * @param {Ends} ends
 * @param {boolean} signed
 * @param {string} [where] the scores are, where the map has others elsewhere
 * @returns {string}
 */
export const oneSignNote = (ends, signed, where = "here") =>
  !signed || twoSided(ends, signed) || ends[0] === ends[1]
    ? ""
    : `Nothing ${where} speaks ${ends[1] > 0 ? "against" : "for"}, so the map is drawn as strength: only the order counts.`;

/**
 * The values at the two ends of the colours in words; of an end that some of the map's scores lie beyond, that its
 * colour also stands for them.
 * @param {Ends} ends
 * @param {number[]} scores
 * @returns {string[]}
 */
export function endTexts([low, high], scores) {
  const [least, most] = scores.reduce(([a, b], score) => [Math.min(a, score), Math.max(b, score)], [low, high]);
  const [first, last] = [number(low, 2), number(high, 2)];
  return [
    number(least, 2) === first ? first : `\u2264\u2009${first}`,
    number(most, 2) === last ? last : `\u2265\u2009${last}`,
  ];
}

/** The colour bar with the values at its two ends. */
export class Scale {
  /** @type {string | undefined} where its scores are, in words, where the map has others elsewhere */
  where;

  /** @param {{signed: boolean, meaning?: string[]}} variant */
  constructor({ signed, meaning }) {
    this.signed = signed;
    this.words = meaning;
    this.low = el("span");
    this.high = el("span");
    this.zero = el("span", {}, "0");
    this.ramp = el("div");
    this.meaning = el("div", { class: "meaning", "aria-hidden": "true" });
    this.note = el("p", { class: "order-only", hidden: true });
    this.node = el(
      "div",
      { class: "scale" },
      this.ramp,
      this.meaning,
      el("div", { class: "ends" }, this.low, this.zero, this.high),
      this.note,
    );
    this.show(null);
  }
  /**
   * `ends` null: not known yet. `view` says which colours, `scores` are those that they show.
   * @param {Ends | null} ends
   * @param {Partial<View>} [view]
   * @param {number[]} [scores]
   */
  show(ends, view = {}, scores = []) {
    const signed = ends ? twoSided(ends, this.signed) : this.signed;
    const stops = ramp(signed, coloursOf(view, signed)).map((colour) => `rgb(${colour.join(" ")})`);
    this.ramp.className = `ramp ${signed ? "signed" : "unsigned"}`;
    this.ramp.style.setProperty("--ramp", stops.join(", "));
    this.meaning.replaceChildren(...meaningOf({ signed, meaning: this.words }).map((text) => el("span", {}, text)));
    this.zero.hidden = !signed;
    this.note.textContent = ends ? oneSignNote(ends, this.signed, this.where) : "";
    this.note.hidden = !this.note.textContent;
    [this.low.textContent, this.high.textContent] = ends ? endTexts(ends, scores) : ["\u00a0", "\u00a0"];
  }
}

/**
 * How the maps are drawn, in words: which scores, and on which scale. Only maps of methods that are `signed` show what
 * speaks against the answer.
 * @param {Pick<View, "evidence" | "scale">} view
 * @param {boolean[]} signed of each map
 * @returns {string}
 */
export function drawnAs({ evidence, scale }, signed) {
  const kinds = evidence === "both" ? "for and against" : `${evidence} alone`;
  const shown = !signed.includes(true)
    ? "weak to strong"
    : signed.includes(false)
      ? `${kinds}, or weak to strong`
      : kinds;
  return `shows scores ${shown}, ${scale === "own" ? "each map on its own scale" : "all maps on one scale"}`;
}

/**
 * The address of the paper: its page at arXiv, if the citation names one.
 * @param {string | undefined} citation
 * @returns {string | null}
 */
export function paperLink(citation) {
  const id = /arXiv (\d{4}\.\d{4,5})/.exec(citation ?? "")?.[1];
  return id ? `https://arxiv.org/abs/${id}` : null;
}

/** The lines that only a finished map fills; their room is kept from the start, so nothing moves when they arrive. */
export class Facts {
  /**
   * `brief` leaves out what is the same for a whole row of maps.
   * @param {Variant} variant
   * @param {boolean} [brief]
   */
  constructor(variant, brief = false) {
    /**
     * @param {string} name
     * @param {string} title
     * @param {string} [text]
     */
    const line = (name, title, text = "–") => {
      const value = el("dd", {}, text);
      this.rows.push(el("div", { title, class: name === "range" ? "range" : "" }, el("dt", {}, name), value));
      return value;
    };
    /** @type {HTMLElement[]} */
    this.rows = [];
    if (!brief) line("rule", "How the signal travels back through the model", ruleName(variant.rule));
    this.range = line("range", "Smallest and largest score");
    if (!brief)
      line("class-specific", "Whether the map can differ from class to class", variant.class_specific ? "yes" : "no");
    this.variant = variant;
    this.sum = line(
      "sum is off by",
      "Completeness error: how far the scores are from adding up to the explained number",
    );
    this.seeds = line(
      "two seeds",
      "Correlation with the map of another seed, estimated from its own samples: 1 is the same map, 0 is noise",
    );
    this.precision = line("precision", "");
    this.time = line("time", "Computing time of this map");
    this.node = el("dl", { class: "facts" }, this.rows);
    this.show(null);
  }
  /**
   * Show the facts of this map; null: there is none.
   * @param {ScoreMap | null} map
   */
  show(map) {
    this.range.textContent = map ? `${number(map.range[0], 2)} … ${number(map.range[1], 2)}` : "–";
    const error = map?.completeness_error;
    const total = map?.adds_up_to === undefined ? this.variant.adds_up_to : map.adds_up_to;
    this.sum.textContent = error === undefined || error === null ? "–" : number(error, 2);
    this.sum.dataset.promise = total ?? "";
    const isKnown = map === null || this.sum.textContent !== "–";
    rowOf(this.sum).hidden = !total || !isKnown; // scores that need not add up are not off
    rowOf(this.sum).title = `The scores should add up to ${total}; they are off by this`;
    const { precision, seed_correlation: seeds } = map ?? {};
    rowOf(this.seeds).hidden = seeds === undefined; // of maps drawn at random alone
    this.seeds.textContent = seeds === undefined ? "–" : number(seeds, 2);
    rowOf(this.precision).hidden = map !== null && !precision; // as of most explanations of earlier versions
    this.precision.textContent = precision?.dtype ?? "–";
    rowOf(this.precision).title = precision ? `The precision in which this map was computed. ${precision.why}` : "";
    this.time.textContent = map?.seconds === undefined ? "–" : seconds(map.seconds);
  }
}

/** The button of a plate that shows and hides what else is known of its map: rank, time and notes. */
export class AboutButton {
  /**
   * @param {string} name of the plate
   * @param {() => HTMLElement} plate
   */
  constructor(name, plate) {
    this.node = el(
      "button",
      {
        type: "button",
        class: "about",
        "aria-expanded": "false",
        "aria-label": `${name}: rank, time and notes`,
        title: "Rank, time and notes",
        on: {
          click: () => this.node.setAttribute("aria-expanded", String(plate().classList.toggle("labelled"))),
        },
      },
      "i",
    );
  }

  /**
   * Mark the button where the order of the map cannot be trusted.
   * @param {boolean} isWarned
   */
  warn(isWarned) {
    this.node.textContent = isWarned ? "!" : "i";
    this.node.classList.toggle("warned", isWarned);
    this.node.title = isWarned ? "Show the warning, rank and time" : "Show rank, time and notes";
  }
}

/**
 * The actions of a plate: its exports, its options, its claim, and its paper. `menu` is the menu of its export, and
 * `mapOf` gives the map on show.
 */
export class PlateActions {
  /** @type {string | null} */
  #id = null;
  #over = new AbortController(); // of the claim on show
  /**
   * @param {Variant} variant
   * @param {Node} menu
   * @param {() => ScoreMap | null} mapOf
   * @param {boolean} [withPaper]
   */
  constructor(variant, menu, mapOf, withPaper = true) {
    this.mapOf = mapOf;
    const href = withPaper && paperLink(variant.paper);
    const paper =
      href &&
      el(
        "a",
        {
          class: "paper",
          href,
          title: variant.paper,
          rel: "noreferrer",
          target: "_blank",
          "aria-label": `${variant.title}: the paper`,
        },
        "paper",
      );
    this.claim = el("div", { class: "claim", hidden: true });
    const claim = el(
      "button",
      {
        type: "button",
        class: "options ask",
        title: "By how much does the answer fall without what this map puts first?",
        "aria-label": `${variant.title}: claim`,
        on: { click: () => this.#askClaim() },
      },
      "claim",
    );
    this.node = el("div", { class: "take" }, menu, withPaper ? optionsButton(variant) : null, claim, paper, this.claim);
  }

  /** The id of the explanation that the map is from. */
  get id() {
    return this.#id;
  }

  /** @param {string | null} id */
  set id(id) {
    this.#over.abort(); // a claim is about one map of one explanation
    this.#id = id;
    this.claim.hidden = true;
    this.claim.replaceChildren();
  }

  #askClaim() {
    const map = this.mapOf();
    if (!map || !this.#id) return;
    this.#over.abort();
    const { signal } = (this.#over = new AbortController());
    this.claim.hidden = false;
    const detail = { place: this.claim, id: this.#id, map, signal };
    this.node.dispatchEvent(new CustomEvent("claim", { bubbles: true, detail })); // the page asks
  }
}
