// The explanations made from this browser: look again, compare two, delete.

import { explanationPath, forgetExplanation, getJSON } from "../core/api.js";
import { byId, count, el, say } from "../core/dom.js";
import { reportProblem, showProblem } from "../core/problems.js";
import { loadLimits } from "../core/limits.js";
import { sayMethods } from "../core/registry.js";
import { drop, remembered } from "../core/historylist.js";
import { spoken, sureness } from "../core/targets.js";
import { namingField } from "../workbench/naming.js";
import { forget } from "../workbench/tabmemory.js";

const BATCH = 24; // read at once
const UNFINISHED = { queued: "still waiting", running: "still being made", failed: "failed" };
const left = remembered(); // ids that are not shown yet
const ticked = new Map(); // id -> summary
let shown = 0;

const link = (summary) => `${summary.page}?id=${encodeURIComponent(summary.id)}`;
const when = (created) => new Date(created).toLocaleString([], { dateStyle: "medium", timeStyle: "short" });

const titles = new Map(); // name of a model -> its title

function answer({ state, targets, problem }) {
  if (!targets) return problem?.title ?? UNFINISHED[state];
  return targets.map(spoken).join(", ");
}

function record(summary) {
  const name = summary.title ?? answer(summary);
  const first = summary.targets?.[0];
  const isAlone = summary.page === "/prompt" && summary.targets?.length === 1;
  const sure = first && sureness(first, summary.abstention);
  const isShare = isAlone && !first.abstention; // shares need two prompts
  const view = summary.thumbnail
    ? el("img", { src: summary.thumbnail, alt: "", loading: "lazy" })
    : el("span", { class: "excerpt" }, summary.excerpt ?? "");
  const box = el("input", { type: "checkbox", on: { change: () => tick(summary, box.checked) } });
  const naming = namingField(
    () => summary,
    (title) => {
      summary.title = title ?? undefined;
      const renamed = record(summary);
      node.replaceWith(renamed);
      renamed.querySelector("h2 a").focus();
    },
  );
  naming.button.setAttribute("aria-label", `Name ${name}`);
  const node = el(
    "li",
    { class: "record", data: { id: summary.id } },
    el("a", { class: "pane", href: link(summary), "aria-label": `Open: ${name}` }, view),
    el("h2", {}, el("a", { href: link(summary) }, name), sure && !isShare ? el("span", { class: "num" }, sure) : null),
    summary.title ? el("p", {}, answer(summary)) : null,
    el(
      "p",
      { class: "quiet" },
      titles.get(summary.model) ?? summary.model,
      summary.state === "done"
        ? `, ${sayMethods(summary.methods, summary.controls)}`
        : `, ${UNFINISHED[summary.state]}`,
    ),
    el("p", { class: "quiet" }, el("time", { dateTime: summary.created }, when(summary.created))),
    el(
      "div",
      { class: "acts" },
      el("label", {}, box, "compare"),
      naming.button,
      remover(summary, name, () => node),
    ),
    naming.form,
  );
  return node;
}

/** Delete, asked twice. */
function remover(summary, name, node) {
  const sure = el(
    "button",
    {
      type: "button",
      class: "plain",
      hidden: true,
      "aria-label": `Delete ${name} for good`,
      on: { click: () => remove(summary, node()) },
    },
    "Delete for good",
  );
  const keep = el(
    "button",
    { type: "button", class: "plain", hidden: true, "aria-label": `Keep ${name}`, on: { click: () => ask(false) } },
    "Keep",
  );
  const first = el(
    "button",
    { type: "button", class: "plain", "aria-label": `Delete ${name}`, on: { click: () => ask(true) } },
    "Delete",
  );
  const ask = (on) => {
    [sure.hidden, keep.hidden, first.hidden] = [!on, !on, on];
    (on ? keep : first).focus();
  };
  return el("span", { class: "remover" }, first, sure, keep);
}

async function remove(summary, node) {
  try {
    await forgetExplanation(summary.id);
  } catch (problem) {
    if (problem.status !== 404) return showProblem(byId("problem"), problem);
  }
  drop(summary.id);
  forget(summary.id);
  tick(summary, false);
  node.remove();
  shown--;
  tell("Deleted.");
}

/** Why these cannot be set side by side; "" where they can. */
function reasonAgainst(records) {
  if (records.length < 2) return "Tick two to see them side by side.";
  if (records.length > 2) return "Tick no more than two.";
  if (records[0].page !== records[1].page || records.some(({ state }) => state !== "done"))
    return "Tick two finished ones of the same page.";
  if (records[0].page === "/prompt")
    return "The Prompt page shows one explanation at a time: ask about one picture with several prompts.";
  if (records.some(({ targets }) => targets.length > 1))
    return "One of them has several classes side by side already: tick two with one class each.";
  return "";
}

function tick(summary, on) {
  if (on) ticked.set(summary.id, summary);
  else ticked.delete(summary.id);
  const reason = reasonAgainst([...ticked.values()]);
  byId("compare").disabled = Boolean(reason);
  byId("chosen").textContent = reason;
}

function tell(before = "") {
  const rest = left.length ? `, ${left.length} more` : "";
  byId("comparing").hidden = shown + left.length < 2;
  say(
    "status",
    `${before} ${shown || left.length ? `${count(shown, "explanation")}${rest}` : "Nothing is here yet: explain a picture or a text first."}`.trim(),
  );
}

/** Show the next ones; those that the server has forgotten leave the list, with a word. */
async function next() {
  const ids = left.splice(0, BATCH);
  const results = await Promise.allSettled(ids.map((id) => getJSON(`${explanationPath(id)}/summary`)));
  const reasons = results.map((result) => (result.status === "rejected" ? result.reason : null));
  const gone = ids.filter((_, i) => reasons[i]?.status === 404);
  drop(...gone);
  gone.forEach(forget);
  const broken = reasons.find((reason) => reason && reason.status !== 404);
  if (broken) reportProblem(broken, byId("problem"));
  const known = results.filter((result) => result.status === "fulfilled").map(({ value }) => value);
  // a question that was taken back has no answer to look at
  const listed = known.filter(({ state }) => state !== "cancelled");
  for (const { id } of known.filter((summary) => !listed.includes(summary))) {
    drop(id);
    forget(id);
  }
  shown += listed.length;
  byId("records").append(...listed.map(record));
  byId("more").hidden = !left.length;
  tell(gone.length ? `The server has forgotten ${count(gone.length, "explanation")}: they left this list.` : "");
}

byId("compare").addEventListener("click", () => {
  const [a, b] = ticked.values();
  location.href = `${link(a)}&compare=${encodeURIComponent(b.id)}`;
});
byId("more").addEventListener("click", next);
/** What models are called; one that is gone goes by its name. */
async function loadTitles() {
  const { models } = await getJSON("/api/models");
  for (const { name, title } of models) titles.set(name, title);
}

await Promise.all([loadLimits(), loadTitles()]).catch((problem) => showProblem(byId("problem"), problem));
await next();
