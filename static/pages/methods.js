// The Methods page: every method of the registry on the same photo, by family; and the rules.

import "./frame.js";
import { getJSON } from "../core/api.js";
import { byId, count, el, say } from "../core/dom.js";
import { showProblem } from "../core/problems.js";
import { learnRules, ruleName } from "../core/rules.js";
import { paperLink } from "../maps/caption.js";
import { Gallery } from "./gallery/gallery.js";

/** @import { Method, Methods, OperatorKind, Rankings, Rule, Rules } from "../core/schemas.js" */

/** @param {Rule} rule */
const cite = ({ by, year, paper }) => {
  const text = [by, year].filter(Boolean).join(", ");
  const href = paperLink(paper);
  return href
    ? el("a", { href, title: paper, rel: "noreferrer", target: "_blank" }, text || "paper")
    : el("span", { title: paper ?? "" }, text || "–");
};

/**
 * The properties of a method under every rule, in a few words.
 * @param {Method} method
 */
const traits = (method) =>
  [method.class_specific ? null : "the same for every class", method.slow ? "slow" : null].filter(Boolean);

/**
 * The usual pair of a method, or that with the rule that was chosen.
 * @param {Method} method
 * @param {string} rule
 */
const pairOf = (method, rule) => {
  const wanted = rule && method.rules.length ? rule : method.rule;
  return wanted !== method.rule && !method.rules.includes(String(wanted))
    ? null
    : method.pairs.find((pair) => pair.rule === wanted);
};

/** @type {{[kind: string]: string}} */
const ON = { image: "on photos", clip: "on prompts", text: "on reviews" };

/**
 * The mark of a map: how far the measured ranking says that it can be trusted, and its group in the ranking.
 * @param {string} spec
 * @param {{places: {spec: string, rank: number, of: number, group: string}[], cannot_tell: string | null} |
 *   undefined} ranking of its kind of input
 * @returns {{group: string, text: string}}
 */
export function trustOf(spec, ranking) {
  const place = ranking?.cannot_tell ? undefined : ranking?.places.find((candidate) => candidate.spec === spec);
  if (!place) return { group: "unknown", text: "not measured" };
  if (place.group === "first") return { group: "first", text: "ties for first" };
  if (place.group === "chance") return { group: "chance", text: "no better than chance" };
  if (place.group === "worse") return { group: "worse", text: "worse than chance" };
  return { group: "behind", text: `${place.rank} of ${place.of}` };
}

/**
 * The rule whose map a card shows where none is chosen: the method's usual one; where that map marks next to nothing on
 * every input, the first other rule of the method whose map marks something.
 * @param {Method} method
 * @param {ReturnType<typeof pairOf>} usual
 * @param {Gallery} gallery
 */
function drawnPair(method, usual, gallery) {
  /** @param {string} spec */
  const says = (spec) => gallery.says(gallery.kindFor(spec), spec);
  if (!usual || says(usual.spec)) return usual;
  return method.rules.map((name) => pairOf(method, name)).find((pair) => pair && says(pair.spec)) ?? usual;
}

/**
 * The sentence on a map that marks next to nothing: the one that is drawn, or the one that was wanted, in whose place
 * another is drawn. Null where there is neither.
 * @param {ReturnType<typeof pairOf>} wanted
 * @param {ReturnType<typeof pairOf>} drawn
 * @param {boolean} says whether the map that is drawn marks something
 */
function sparseNote(wanted, drawn, says) {
  const text = says
    ? `Its usual rule (${ruleName(wanted?.rule ?? "")}) marks next to nothing here.`
    : "Here it marks next to nothing.";
  return says && wanted?.spec === drawn?.spec ? null : el("p", { class: "traits" }, text);
}

/**
 * Make the card of a method: its map with model, input, rule and legend, its name, one line, and how far it is trusted.
 * @param {Method} method
 * @param {Gallery} gallery
 * @param {string} rule
 * @param {Rankings["rankings"]} rankings
 */
function card(method, gallery, rule, rankings) {
  const usual = pairOf(method, "");
  const pair = rule ? pairOf(method, rule) : drawnPair(method, usual, gallery);
  const kind = pair ? gallery.kindFor(pair.spec) : "image";
  const thumbnail = pair
    ? gallery.thumbnail(kind, pair.spec, method.signed, pair.title)
    : el("span", { class: "thumb none" }, `not with ${ruleName(rule)}`);
  const hasMap = pair && gallery.has(kind, pair.spec);
  const isControl = method.family === "control";
  const trust = pair && !isControl ? trustOf(pair.spec, rankings[kind]) : null;
  const askedFor = kind === "image" ? "" : `: “${gallery.labelOf(kind)}”`; // the answer on the photo stands over all
  const drawn = hasMap ? [gallery.modelOf(kind), pair.rule ? ruleName(pair.rule) : null] : [];
  const facts = [...traits(method), ...drawn].filter(Boolean);
  return el(
    "li",
    { class: "method-card", data: { method: method.name, family: method.family, spec: pair?.spec ?? "" } },
    el("a", { href: `/methods/${method.name}` }, thumbnail, el("h3", {}, method.title)),
    trust
      ? el(
          "p",
          { class: "trust", data: { group: trust.group } },
          trust.text,
          trust.group === "unknown" ? null : el("span", { class: "on" }, ` ${ON[kind]}`),
        )
      : null,
    el("p", { class: "by" }, [usual?.by, usual?.year].filter(Boolean).join(", ")),
    el("p", { class: "says" }, usual?.line || method.description),
    facts.length ? el("p", { class: "traits" }, `${facts.join(" · ")}${askedFor}`) : null,
    hasMap ? sparseNote(rule ? pair : usual, pair, gallery.says(kind, pair.spec)) : null,
    el(
      "p",
      { class: "traits" },
      hasMap ? gallery.legend(kind, [method.signed], true) : method.signed ? "for and against" : "strength only",
    ),
  );
}

/**
 * The pairs of a method with its own rules that can run.
 * @param {Method} method
 */
const ownPairs = (method) =>
  method.pairs.filter(({ rule, reason }) => !reason && (!rule || method.rules.includes(rule)));

/**
 * The pairs that are known by a name of their own, such as AttnLRP, which is Input × Gradient with another rule.
 * @param {Method} method
 */
const namedPairs = (method) =>
  method.pairs.filter(({ title, reason, names_rule: isBoth }) => !reason && title !== method.title && !isBoth);

/**
 * The texts of a method that a search looks in, the most telling first: its names and words; the titles and authors of
 * its pairs; its rules as they are written. A text is looked in where none before it, of no method, has the words.
 * @param {Method} method
 */
const textsOf = (method) => {
  const pairs = ownPairs(method);
  return [
    [method.name, method.title, method.description],
    pairs.flatMap(({ title, by }) => [title, by]),
    pairs.map(({ spec }) => spec),
  ].map((texts) => texts.join(" ").toLowerCase());
};

/**
 * Make the card of a pair that has a name of its own; it leads to the method's page with its rule chosen.
 * @param {Method} method
 * @param {Method["pairs"][number]} pair
 * @param {Gallery} gallery
 * @param {Rankings["rankings"]} rankings
 */
function variantCard(method, pair, gallery, rankings) {
  const kind = gallery.kindFor(pair.spec);
  const trust = trustOf(pair.spec, rankings[kind]);
  const known = trust.group === "unknown" ? null : el("span", { class: "on" }, ` ${ON[kind]}`);
  const page = new URLSearchParams({ input: kind, rule: pair.spec });
  return el(
    "li",
    { class: "method-card", data: { method: method.name, family: method.family, spec: pair.spec } },
    el(
      "a",
      { href: `/methods/${method.name}?${page}` },
      gallery.thumbnail(kind, pair.spec, method.signed, pair.title),
      el("h3", {}, pair.title),
    ),
    el("p", { class: "trust", data: { group: trust.group } }, trust.text, known),
    el("p", { class: "by" }, [pair.by, pair.year].filter(Boolean).join(", ")),
    el("p", { class: "says" }, `${method.title} with the rule ${ruleName(String(pair.rule))}.`),
  );
}

/** The gallery: families with their cards, a search, a choice of family and of rule. */
class MethodGallery {
  /**
   * @param {Methods} listed
   * @param {Rule[]} rules
   * @param {Gallery} gallery
   * @param {Rankings["rankings"]} rankings
   */
  constructor({ methods, families }, rules, gallery, rankings) {
    this.methods = methods;
    this.families = families.filter(({ name }) => methods.some((method) => method.family === name));
    this.gallery = gallery;
    this.rankings = rankings;
    this.texts = new Map(methods.map((method) => [method, textsOf(method)]));
    this.search = el("input", { type: "search", id: "search", on: { input: () => this.draw() } });
    this.family = el(
      "select",
      { id: "family", on: { change: () => this.draw() } },
      el("option", { value: "" }, "all"),
      this.families.map(({ name, title }) => el("option", { value: name }, title)),
    );
    const used = rules.filter(({ name }) => methods.some((method) => method.rules.includes(name)));
    this.rule = el(
      "select",
      { id: "rule", on: { change: () => this.draw() } },
      el("option", { value: "" }, "usual"),
      used.map(({ name }) => el("option", { value: name }, ruleName(name))),
    );
    /**
     * @param {string} label
     * @param {HTMLInputElement | HTMLSelectElement} control
     */
    const field = (label, control) => el("label", {}, el("span", {}, label), control);
    byId("filters").append(
      field("Search", this.search),
      field("Family", this.family),
      field("Drawn with the rule", this.rule),
    );
  }

  /** Draw what is left by the search and the choices. */
  draw() {
    const words = this.search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const ofFamily = this.methods.filter(({ family }) => !this.family.value || family === this.family.value);
    const named = words.length
      ? ofFamily.flatMap((method) =>
          namedPairs(method)
            .filter(({ title }) => words.every((word) => title.toLowerCase().includes(word)))
            .map((pair) => variantCard(method, pair, this.gallery, this.rankings)),
        )
      : [];
    const levels = named.length ? [0] : [0, 1, 2]; // a name that fits says more than a rule that many methods take
    const found =
      levels
        .map((level) =>
          ofFamily.filter((method) =>
            words.every((word) =>
              this.texts
                .get(method)
                ?.slice(0, level + 1)
                .join(" ")
                .includes(word),
            ),
          ),
        )
        .find((methods) => methods.length) ?? [];
    const variants = named.length
      ? el(
          "section",
          { id: "named", style: `--members: ${named.length}` },
          el("h2", {}, "With this name"),
          el("p", { class: "quiet" }, "A method with one of its rules; its page opens with that rule."),
          el("ul", { class: "gallery" }, named),
        )
      : null;
    const parts = this.families.flatMap(({ name, title, line }) => {
      const members = found.filter((method) => method.family === name);
      const cards = members.map((method) => card(method, this.gallery, this.rule.value, this.rankings));
      return members.length
        ? el(
            "section",
            { style: `--members: ${members.length}` },
            el("h2", {}, title),
            el("p", { class: "quiet" }, line),
            el("ul", { class: "gallery" }, cards),
          )
        : [];
    });
    byId("methods").replaceChildren(...(variants ? [variants] : []), ...parts);
    byId("methods").setAttribute("aria-busy", "false");
    const all = this.methods.length;
    const others = named.length ? `${count(named.length, "method")} with a rule; ` : "";
    say("status", found.length === all ? count(all, "method") : `${others}${found.length} of ${count(all, "method")}`);
  }
}

/**
 * Make the table of rules: a row for each rule, a column for each kind of operator, with what the rule does there.
 * @param {Rule[]} rules
 * @param {OperatorKind[]} kinds
 */
function rulesTable(rules, kinds) {
  /**
   * @param {string} text
   * @param {string} [about]
   */
  const column = (text, about) => el("th", { scope: "col", title: about ?? "" }, text);
  const head = el(
    "thead",
    {},
    el(
      "tr",
      {},
      column("Rule"),
      kinds.map((kind) => column(kind.title, kind.covers)),
      column("Paper"),
    ),
  );
  /**
   * @param {{[kind: string]: any}} rule
   * @param {OperatorKind} kind
   */
  const cell = (rule, { name, choices }) => {
    const { title, says } = choices.find((choice) => choice.value === rule[name]) ?? {};
    return el("td", { title: says }, title);
  };
  /** @param {Rule} rule */
  const name = (rule) => el("th", { scope: "row" }, el("span", { class: "title" }, ruleName(rule.name)));
  /** @param {Rule} rule */
  const row = (rule) =>
    el(
      "tr",
      { class: "first" },
      name(rule),
      kinds.map((kind) => cell(rule, kind)),
      el("td", {}, cite(rule)),
    );
  return el("table", {}, head, el("tbody", {}, rules.map(row)));
}

async function begin() {
  try {
    /** @type {[Methods, Rules, Gallery, Rankings]} */
    const [listed, { rules, kinds }, gallery, { rankings }] = await Promise.all([
      getJSON("/api/methods"),
      getJSON("/api/rules"),
      Gallery.load(),
      getJSON("/api/leaderboard/rankings"),
    ]);
    learnRules(rules);
    byId("photo-label").textContent = gallery.labelOf("image");
    byId("keys").append(gallery.legend("image", [true, false]));
    new MethodGallery(listed, rules, gallery, rankings).draw();
    byId("rules").append(rulesTable(rules, kinds));
    const { readouts, methods } = listed.counts ?? {};
    byId("counts").textContent = readouts ? `${count(readouts, "method")}, ${methods} with their rules.` : "";
  } catch (problem) {
    showProblem(byId("methods"), problem);
  }
}

void begin();
