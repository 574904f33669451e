// The Methods page: every method of the registry with each of its rules, and the rules themselves.

import { getJSON } from "../core/api.js";
import { byId, count, el, say } from "../core/dom.js";
import { showProblem } from "../core/problems.js";
import { learnRules, ruleName } from "../core/rules.js";
import { paperLink } from "../maps/label.js";

const cite = ({ by, year, paper }) => {
  const text = [by, year].filter(Boolean).join(", ");
  const href = paperLink(paper);
  return href
    ? el("a", { href, title: paper, rel: "noreferrer", target: "_blank" }, text || "paper")
    : el("span", { title: paper ?? "" }, text || "–");
};

/** What holds for a method whatever its rule. */
function traits(method) {
  const sign = method.signed ? "for and against" : "strength only";
  const scope = method.class_specific
    ? "specific to the class"
    : el("span", { class: "warn" }, "the same map for every class");
  const sum =
    method.promise &&
    ` · adds up to ${method.promise.total}, under ${method.promise.rules.map(ruleName).join(" and ")} alone`;
  return el(
    "p",
    { class: "traits" },
    sign,
    " · ",
    scope,
    sum,
    method.passes ? ` · ${method.passes}` : "",
    method.slow ? " · slow" : "",
  );
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
      "tr",
      { class: i ? "" : "first", data: { spec: variant.spec } },
      i
        ? null
        : el(
            "th",
            { scope: "rowgroup", rowSpan: variants.length },
            el("a", { class: "title", href: `/methods/${method.name}` }, method.title),
            el("p", {}, method.description),
            traits(method),
            options(method),
            refused(method),
          ),
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
  const head = el(
    "thead",
    {},
    el(
      "tr",
      {},
      heads.map((text) => el("th", { scope: "col" }, text)),
    ),
  );
  const columns = el(
    "colgroup",
    {},
    ["method", "", "", "paper", ""].map((name) => el("col", { class: name })),
  );
  return el(
    "table",
    {},
    columns,
    head,
    methods.map((method) =>
      family(
        method,
        variants.filter((variant) => variant.readout === method.name),
      ),
    ),
  );
}

/** A row a rule, a column a kind of operator: what the rule does there. */
function rulesTable(rules, kinds) {
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
  const cell = (rule, { name, choices }) => {
    const { title, says } = choices.find((choice) => choice.value === rule[name]);
    return el("td", { title: says }, title);
  };
  const name = (rule) => el("th", { scope: "row" }, el("span", { class: "title" }, ruleName(rule.name)));
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

try {
  const [{ methods, variants, counts }, { rules, kinds }] = await Promise.all([
    getJSON("/api/methods"),
    getJSON("/api/rules"),
  ]);
  learnRules(rules);
  byId("methods").append(methodsTable(methods, variants));
  byId("rules").append(rulesTable(rules, kinds));
  say(
    "status",
    `${count(counts.readouts, "read-out")}, ${count(counts.methods, "method")}: ${counts.listed} with rules of their own, listed here, and ${counts.parts} with the other rules`,
  );
} catch (problem) {
  showProblem(byId("methods"), problem);
}
