// What comes first: of each family the method that was measured as most trustworthy, then the others, the classic
// baselines, and the control.

import { el } from "../core/dom.js";
import { countMethods, isMethod } from "../core/registry.js";
import { withTerms } from "../help/terms.js";
import { lead, orderLine, recommendation, recommendedOf } from "./recommendation.js";

/**
 * @import { Store } from "../core/state.js"
 * @import { Variant, View } from "../core/types.js"
 */

export const FEW = 4; // so many plates are all large

/**
 * Split plates in the order of the page into {best, more, classic, control}. A few plates are all of the first rank.
 * @param {Variant[]} variants
 * @returns {{best: Variant[], more: Variant[], classic: Variant[], control: Variant[]}}
 */
function splitByRank(variants) {
  if (variants.length <= FEW) return { best: variants, more: [], classic: [], control: [] };
  const control = variants.filter((variant) => !isMethod(variant));
  const methods = variants.filter(isMethod);
  const best = variants.filter(({ leads }) => leads);
  const rest = methods.filter(({ leads }) => !leads);
  return {
    best,
    more: rest.filter(({ classic }) => !classic),
    classic: rest.filter(({ classic }) => classic),
    control,
  };
}

/**
 * Put the sentence of a method on its plate, with that of its rule where another plate has the same one without it.
 * @param {HTMLElement} node
 * @param {Variant} variant
 * @param {boolean} isAlike
 */
function sayLine(node, { line, ruleLine }, isAlike) {
  const says = [line, isAlike ? ruleLine : ""].filter(Boolean).join(" ");
  node.querySelector(".plainly p")?.replaceChildren(...withTerms(says));
}

/** The headings of a set of plates, and what is folded under them. */
export class PlateGroups {
  /** @type {HTMLElement[]} */
  #folding = []; // what is shown or not
  /** @type {Variant[]} */
  #rest = []; // the methods that it holds
  /** @type {Variant[]} */
  #all = [];
  /** @type {Variant[]} */
  #best = []; // what comes first
  /** @type {HTMLElement[]} */
  #first = []; // their nodes
  /** @type {Set<string>} */
  doubtful = new Set(); // the specs whose map of this input cannot be trusted

  /**
   * `view` stores whether the rest is shown, where it may be folded at all.
   * @param {Store<View>} view
   */
  constructor(view) {
    this.view = view;
    this.isFoldable = false;
    this.isContrast = false; // whether it is asked why one answer rather than another
    this.button = el("button", {
      type: "button",
      class: "act plain",
      "aria-expanded": "false",
      on: { click: () => view.set({ more: this.#isOpen ? "folded" : "shown" }) },
    });
    this.bar = el("div", { class: "unfold" }, this.button);
    /**
     * @param {string} title
     * @param {string} says
     */
    const head = (title, says) =>
      el("div", { class: "part" }, el("h2", {}, title), el("span", { class: "quiet" }, says));
    this.mark = el("span", { class: "mark" }, "Recommended"); // over the first plate
    this.lead = el("p", { class: "advice lead" }); // which plate to look at first
    this.tested = el("span", { class: "tested" }); // whether the deletion test on this input supports that
    this.why = el("p", { class: "advice" }); // and why
    this.advice = el("details", { class: "advice why-first" }, el("summary"), this.why);
    this.rules = el("p", { class: "quiet rules" }); // what holds for all plates of a rule
    this.similarity = el("div", { class: "map-similarity" }); // filled where all maps are there: see MapSimilarity
    this.guide = el("div", { class: "guide" }, this.similarity, this.advice, this.rules);
    /** @type {{[group: string]: HTMLElement}} */
    this.heads = {
      more: head("More methods", ""),
      classic: head("Classic baselines", "older methods, to compare with"),
      control: head("Control", "noise, not a method; a map that looks no better says nothing"),
    };
    view.follow((now, before) => now.more !== before.more && this.#fold());
  }

  get #isOpen() {
    return !this.isFoldable || this.view.value.more === "shown";
  }

  /**
   * The nodes of a set of plates with their headings; `nodeOf(variant)` gives that of one method.
   * @param {Variant[]} variants
   * @param {(variant: Variant) => HTMLElement} nodeOf
   * @returns {HTMLElement[]}
   */
  nodes(variants, nodeOf) {
    const { best, more, classic, control } = splitByRank(variants);
    /** @param {string} group */
    const mark = (group) => (/** @type {Variant} */ variant) => {
      const node = nodeOf(variant);
      node.dataset.group = group;
      node.hidden = false;
      return node;
    };
    /**
     * @param {string} group
     * @param {Variant[]} listed
     */
    const part = (group, listed) => (listed.length ? [this.heads[group], ...listed.map(mark(group))] : []);
    const first = best.map(mark("best"));
    this.#folding = [...part("more", more), ...part("classic", classic), ...part("control", control)];
    this.#rest = [...more, ...classic, ...control];
    this.#all = variants;
    for (const [i, variant] of [...best, ...this.#rest].entries())
      sayLine([...first, ...this.#folding.filter((node) => node.dataset.group)][i], variant, this.#isAlike(variant));
    this.#fold();
    [this.#best, this.#first] = [best, first];
    this.#advise();
    return [this.lead, ...first, this.guide, ...(this.#rest.length ? [this.bar] : []), ...this.#folding];
  }

  /**
   * The recommended method on show.
   * @returns {Variant | undefined}
   */
  get recommended() {
    return recommendedOf(this.#best, this.doubtful);
  }

  /**
   * Take note of whether the map of a method can be trusted for this input: one that cannot is not recommended.
   * @param {string} spec
   * @param {boolean} isDoubtful
   */
  doubt(spec, isDoubtful) {
    if (this.doubtful.has(spec) === isDoubtful) return;
    if (isDoubtful) this.doubtful.add(spec);
    else this.doubtful.delete(spec);
    this.#advise();
  }

  /** Mark the recommended plate, and say why. */
  #advise() {
    const [variants, nodes, { recommended }] = [this.#best, this.#first, this];
    const marked = recommended ? variants.indexOf(recommended) : -1;
    this.mark.remove();
    nodes.forEach((node, i) => node.classList.toggle("recommended", i === marked));
    if (recommended) (nodes[marked].querySelector(".row-caption .standing") ?? nodes[marked]).prepend(this.mark, " ");
    const first = lead(variants, this.isContrast, this.doubtful);
    const why = recommendation(variants, this.doubtful);
    const order = orderLine(variants.filter(isMethod), this.isContrast);
    const isSaid = Boolean(order && first?.says.endsWith(order));
    const measured = isSaid ? first?.says.slice(0, -order.length) : first?.says;
    this.lead.replaceChildren(
      ...(first ? [el("b", {}, first.title), ` ${measured} `] : []),
      isSaid ? el("span", { class: "order" }, `${order} `) : "", // what the test finds takes its room
      this.tested,
    );
    this.advice.hidden = !why;
    this.advice.firstElementChild?.replaceChildren(why?.title ?? "");
    this.why.textContent = why?.says ?? "";
  }

  /**
   * Return whether a plate has the sentence of another one: both are of one method, by different rules.
   * @param {Variant} variant
   */
  #isAlike({ line, spec }) {
    return this.#all.some((other) => other.line === line && other.spec !== spec);
  }

  /** Say what holds for all plates of a rule, of the rules of plates that are not folded away. */
  #sayRules() {
    const shown = this.#isOpen ? this.#all : this.#all.filter((variant) => !this.#rest.includes(variant));
    const rules = [
      ...new Set(shown.flatMap((variant) => (variant.ruleLine && !this.#isAlike(variant) ? variant.ruleLine : []))),
    ];
    this.rules.replaceChildren(...withTerms(rules.join(" ")));
  }

  /**
   * Say next to the recommendation what the deletion test on this input found; "" while it found nothing.
   * @param {string} verdict
   * @param {string} rule what it means to fail the test
   */
  judge(verdict, rule) {
    this.tested.textContent = verdict;
    this.tested.title = rule;
  }

  #fold() {
    for (const node of this.#folding) node.hidden = !this.#isOpen;
    this.#sayRules();
    this.bar.hidden = !this.isFoldable;
    this.button.setAttribute("aria-expanded", String(this.#isOpen));
    this.button.textContent = this.#isOpen ? "Fewer methods" : countMethods(this.#rest, "more ");
  }
}
