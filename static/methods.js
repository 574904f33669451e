// The Methods page: every method of the registry with each of its rules, and the rules themselves.

import { getJSON } from "./api.js";
import { byId, count, el, say, showProblem } from "./dom.js";
import { paperLink, ruleName } from "./label.js";

const KINDS = { attention: "attention weights", norm: "normalisation", activation: "activation", product: "product of two paths", linear: "linear and add" };

const cite = ({ by, year, paper }) => {
  const text = [by, year].filter(Boolean).join(", ");
  const href = paperLink(paper);
  return href ? el("a", { href, title: paper, rel: "noreferrer", target: "_blank" }, text || "paper") : el("span", { title: paper ?? "" }, text || "–");
};

/** What holds for a method whatever its rule. */
function traits(method) {
  const sign = method.signed ? "for and against" : "strength only";
  const scope = method.class_specific ? "specific to the class" : el("span", { class: "warn" }, "the same map for every class");
  return el("p", { class: "traits" }, sign, " · ", scope, method.passes ? ` · ${method.passes}` : "", method.dear ? " · slow" : "");
}

/** The name of a pair of read-out and rule, where it says more than the two. */
const ownName = (method, { title }) => (title === method.title || title.startsWith(`${method.title} ·`) ? null : title);

/** The options of a method, as they are declared. */
function options(method) {
  const rows = method.options.map((option) => {
    const usual = option.default === null ? "" : `=${option.default}`;
    return [el("dt", {}, el("code", {}, option.name + usual)), el("dd", {}, `${option.help} (${option.allowed})`)];
  });
  return rows.length ? el("dl", { class: "options" }, rows.flat()) : null;
}

/** The rules that make no sense with a method, and why; those with the same reason together. */
function refused(method) {
  if (!method.rules.length) return null;
  const byReason = new Map();
  for (const { rule, reason } of method.pairs.filter((pair) => pair.reason)) {
    const why = reason.slice(reason.indexOf(": ") + 2).split(". ")[0];
    byReason.set(why, [...(byReason.get(why) ?? []), ruleName(rule)]);
  }
  return [...byReason].map(([why, rules]) => el("p", { class: "refused" }, `Not with ${rules.join(", ")}: ${why}.`));
}

function family(method, variants) {
  const rows = variants.map((variant, i) =>
    el(
      "tr", { class: i ? "" : "first", data: { spec: variant.spec } },
      i ? null : el("th", { scope: "rowgroup", rowSpan: variants.length }, el("a", { class: "title", href: `/methods/${method.name}` }, method.title), el("p", {}, method.description), traits(method), options(method), refused(method)),
      el("td", {}, variant.rule ? ruleName(variant.rule) : el("span", { class: "quiet" }, "none needed")),
      el("td", {}, ownName(method, variant)),
      el("td", {}, cite(variant)),
      el("td", {}, el("code", {}, variant.spec)),
    ),
  );
  return el("tbody", {}, rows);
}

function methodsTable(methods, variants) {
  const heads = ["Method", "Rule", "Then known as", "Paper", "Write it as"];
  const head = el("thead", {}, el("tr", {}, heads.map((text) => el("th", { scope: "col" }, text))));
  const columns = el("colgroup", {}, ["method", "", "", "paper", ""].map((name) => el("col", { class: name })));
  return el("table", {}, columns, head, methods.map((method) => family(method, variants.filter((variant) => variant.readout === method.name))));
}

function rulesTable(rules) {
  const head = el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "Rule"), Object.values(KINDS).map((text) => el("th", { scope: "col" }, text)), el("th", { scope: "col" }, "Paper")));
  const row = (rule) => el("tr", { class: "first" }, el("th", { scope: "row" }, el("span", { class: "title" }, ruleName(rule.name))), Object.keys(KINDS).map((kind) => el("td", {}, String(rule[kind] ?? "–").replaceAll("_", " "))), el("td", {}, cite(rule)));
  return el("table", {}, head, el("tbody", {}, rules.map(row)));
}

try {
  const [{ methods, variants }, { rules }] = await Promise.all([getJSON("/api/methods"), getJSON("/api/rules")]);
  byId("methods").append(methodsTable(methods, variants));
  byId("rules").append(rulesTable(rules));
  say("status", `${count(methods.length, "read-out")}, ${count(variants.length, "method")} with their rules`);
} catch (problem) {
  showProblem(byId("methods"), problem);
}
