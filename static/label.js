// The museum label of a plate: what a reader needs to judge the map above it.

import { coloursOf, ramp } from "./colour.js";
import { el, number, seconds } from "./dom.js";

const RULES = { gradient: "gradient", libra: "Libra", conservative: "conservative", attnlrp: "AttnLRP", deep_taylor: "deep Taylor", lrp: "LRP" };

export const ruleName = (rule) => (rule ? RULES[rule] ?? rule.replace(/^libra-/, "Libra without ") : "none needed");

export const byLine = ({ by, year }) => [by, year].filter(Boolean).join(", ") || "\u00a0";

/** The name of a method, which leads to its page. */
export const heading = (variant) => el("h2", { title: variant.description }, el("a", { href: `/methods/${variant.readout}` }, variant.title));

const SAME = "The same map for every class.";

/** Whether a note says that the map does not depend on the class. */
export const isSame = (note) => /\bsame (map )?for every\b/i.test(note);

/** What the engine found wrong with these maps, in plain words, once each. */
export function warnings(maps) {
  const equal = maps.filter((map) => map.range[0] === map.range[1]).map(() => "All scores are equal: this map tells nothing apart.");
  return [...new Set([...equal, ...maps.flatMap((map) => map.notes ?? [])])].filter((note) => !isSame(note));
}

/** Under a map: what holds for every map of the method, and with a sign before it what is wrong with this one. */
export class Notes {
  constructor(standing) {
    this.standing = standing;
    this.node = el("div", { class: "note" });
    this.show([]);
  }
  show(found) {
    const warning = (text) => el("p", { class: "warning" }, el("span", { class: "sign", "aria-hidden": "true" }, "!"), el("span", { class: "hidden" }, "Warning: "), el("span", {}, text));
    this.node.replaceChildren(...found.map(warning), ...(this.standing ? [el("p", {}, this.standing)] : []));
  }
}

/** What holds for every map of a method, whatever the input. */
export const standing = (variant, same = SAME) => (variant.class_specific ? "" : same);

/** Opens the fields of a method's options; null where it has none. */
export const optionsButton = (variant) =>
  variant.options?.length
    ? el("button", { type: "button", class: "options", "aria-label": `${variant.title}: options`, on: { click: (event) => event.target.dispatchEvent(new CustomEvent("options", { bubbles: true, detail: variant.spec })) } }, "options")
    : null;

/** The colour bar with the values at its two ends. */
export class Scale {
  constructor(signed) {
    this.signed = signed;
    this.low = el("span");
    this.high = el("span");
    this.ramp = el("div", { class: `ramp ${signed ? "signed" : "unsigned"}` });
    this.node = el("div", { class: "scale" }, this.ramp, el("div", { class: "ends" }, this.low, signed ? el("span", {}, "0") : null, this.high));
    this.show(null);
  }
  /** `ends` null: not known yet. `view` says which colours. */
  show(ends, view = {}) {
    const stops = ramp(this.signed, coloursOf(view, this.signed)).map((colour) => `rgb(${colour.join(" ")})`);
    this.ramp.style.setProperty("--ramp", stops.join(", "));
    this.low.textContent = ends ? number(ends[0], 2) : "\u00a0";
    this.high.textContent = ends ? number(ends[1], 2) : "\u00a0";
  }
}

/** Where to read the paper: its page at arXiv, if the citation names one. */
export function paperLink(citation) {
  const id = /arXiv (\d{4}\.\d{4,5})/.exec(citation ?? "")?.[1];
  return id ? `https://arxiv.org/abs/${id}` : null;
}

/** The lines that only a finished map fills; their room is kept from the start, so nothing moves when they arrive. */
export class Facts {
  /** `brief` leaves out what is the same for a whole row of maps. */
  constructor(variant, brief = false) {
    const line = (name, title, text = "–") => {
      const value = el("dd", {}, text);
      this.rows.push(el("div", { title, class: name === "range" ? "range" : "" }, el("dt", {}, name), value));
      return value;
    };
    this.rows = [];
    if (!brief) line("rule", "How the signal travels back through the model", ruleName(variant.rule));
    this.range = line("range", "Smallest and largest score");
    if (!brief) line("class-specific", "Whether the map can differ from class to class", variant.class_specific ? "yes" : "no");
    this.sum = line("sum off by", "Completeness error: how far the terms are from adding up to the explained score; where the method promises it");
    this.time = line("time", "Seconds that this map took");
    this.node = el("dl", { class: "facts" }, this.rows);
  }
  show(map) {
    this.range.textContent = map ? `${number(map.range[0], 2)} … ${number(map.range[1], 2)}` : "–";
    const error = map?.completeness_error;
    this.sum.textContent = error === undefined || error === null ? "–" : number(error, 2);
    this.time.textContent = map?.seconds === undefined ? "–" : seconds(map.seconds);
  }
}

/** What can be taken away of a plate, its options, and its paper. `menu` is the menu of its export. */
export class Take {
  id = null; // of the explanation that the map is from
  constructor(variant, menu, withPaper = true) {
    const href = withPaper && paperLink(variant.paper);
    const paper = href && el("a", { class: "paper", href, title: variant.paper, rel: "noreferrer", target: "_blank", "aria-label": `${variant.title}: the paper` }, "paper");
    this.node = el("div", { class: "take" }, menu, withPaper ? optionsButton(variant) : null, paper);
  }
}
