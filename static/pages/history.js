// The explanations made from this browser, those of one picture together: look again, search, compare two, delete.

import "./frame.js";
import { explanationPath, forgetExplanation, getJSON } from "../core/api.js";
import { addressOf, byId, count, el, say } from "../core/dom.js";
import { reportProblem, showProblem } from "../core/problems.js";
import { loadLimits } from "../core/limits.js";
import { sayMethods } from "../core/registry.js";
import { drop, rememberedIds } from "../core/historylist.js";
import { targetInWords, sureness } from "../core/targets.js";
import { namingField } from "../workbench/naming.js";
import { mainTarget } from "../workbench/overview.js";
import { forget } from "../workbench/tabmemory.js";
import { wordStrip } from "./gallery/gallery.js";

/** @import { ExplanationSummary } from "../core/schemas.js" */

const BATCH = 24; // read at once
/** @type {{[state: string]: string}} */
const UNFINISHED = { queued: "still waiting", running: "still being made", failed: "failed" };
const left = rememberedIds(); // ids that are not shown yet
/** @type {Map<string, ExplanationSummary>} */
const ticked = new Map(); // id -> summary
/** @type {ExplanationSummary[]} */
const summaries = []; // those that are known

/** @param {ExplanationSummary} summary */
const link = (summary) => `${summary.page}?id=${encodeURIComponent(summary.id)}`;
/** @param {string} created */
const when = (created) => new Date(created).toLocaleString([], { dateStyle: "medium", timeStyle: "short" });

const titles = new Map(); // name of a model -> its title

/** @param {ExplanationSummary} summary */
function answer({ state, targets, problem }) {
  if (!targets) return problem?.title ?? UNFINISHED[state];
  return targets.map(targetInWords).join(", ");
}

/**
 * Say how sure the model is; of several prompts or classes, of which one that is said: of the prompt that fits best, or
 * of the first class. Null where it says nothing, as of a single prompt, whose share is always the whole.
 * @param {ExplanationSummary} summary
 */
function sureLine({ page, targets, abstention }) {
  if (!targets?.length || (page === "/prompt" && targets.length === 1 && !targets[0].abstention)) return null;
  const target = mainTarget(targets);
  const sure = sureness(target, abstention, targets.length);
  const isOfInput = abstention && !target.abstention; // what the model cannot know of the whole input
  return sure && targets.length > 1 && !isOfInput ? `“${targetInWords(target)}”: ${sure}` : sure;
}

/**
 * The answer's map, over the picture or in the words; without one, the picture or the text.
 * @param {ExplanationSummary} summary
 */
function viewOf({ map, thumbnail, words, excerpt }) {
  if (map || thumbnail) return el("img", { src: map ?? thumbnail, alt: "", loading: "lazy" });
  return el("span", { class: "excerpt" }, words?.length ? wordStrip(words) : (excerpt ?? ""));
}

/**
 * @param {ExplanationSummary} summary
 * @returns {HTMLElement}
 */
function record(summary) {
  const name = summary.title ?? answer(summary);
  const sure = sureLine(summary);
  const view = viewOf(summary);
  const box = el("input", { type: "checkbox", on: { change: () => tick(summary, box.checked) } });
  const naming = namingField(
    () => summary,
    (title) => {
      summary.title = title ?? undefined;
      const renamed = record(summary);
      node.replaceWith(renamed);
      /** @type {HTMLElement | null} */ (renamed.querySelector("h2 a"))?.focus();
    },
  );
  naming.button.setAttribute("aria-label", `Name ${name}`);
  /** @type {HTMLElement} */
  const node = el(
    "li",
    { class: "record", data: { id: summary.id } },
    el("a", { class: "pane", href: link(summary), "aria-label": `Open: ${name}` }, view),
    el("h2", {}, el("a", { href: link(summary) }, name), sure ? el("span", { class: "num" }, sure) : null),
    summary.title ? el("p", {}, answer(summary)) : null,
    el(
      "p",
      { class: "quiet" },
      titles.get(summary.model) ?? summary.model,
      summary.state === "done"
        ? `, ${sayMethods(summary.methods, summary.controls)}`
        : `, ${UNFINISHED[summary.state]}`,
    ),
    el("p", { class: "quiet" }, el("time", { dateTime: summary.created }, when(summary.created ?? ""))),
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

/**
 * Make a button that deletes an explanation once it is pressed twice.
 * @param {ExplanationSummary} summary
 * @param {string} name
 * @param {() => HTMLElement} node
 */
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
  /** @param {boolean} on */
  const ask = (on) => {
    [sure.hidden, keep.hidden, first.hidden] = [!on, !on, on];
    (on ? keep : first).focus();
  };
  return el("span", { class: "remover" }, first, sure, keep);
}

/**
 * @param {ExplanationSummary} summary
 * @param {HTMLElement} node
 */
async function remove(summary, node) {
  try {
    await forgetExplanation(summary.id);
  } catch (problem) {
    if (problem.status !== 404) return showProblem(byId("problem"), problem);
  }
  node.remove();
  leave(summary);
  draw("Deleted.");
}

/**
 * Take an explanation off the list.
 * @param {ExplanationSummary} summary
 */
function leave(summary) {
  drop(summary.id);
  forget(summary.id);
  tick(summary, false);
  summaries.splice(summaries.indexOf(summary), 1);
}

/** Delete everything on the list, on the server too. */
async function removeAll() {
  const all = [...summaries];
  byId("delete-all-sure").disabled = true;
  try {
    for (const summary of all) {
      await forgetExplanation(summary.id).catch((problem) => {
        if (problem.status !== 404) throw problem;
      });
      leave(summary);
    }
  } catch (problem) {
    showProblem(byId("problem"), problem);
  }
  byId("delete-all-sure").disabled = false;
  askAll(false);
  draw(`${count(all.length - summaries.length, "explanation")} deleted.`);
}

/**
 * Ask whether everything shall be deleted.
 * @param {boolean} on
 */
function askAll(on) {
  byId("delete-all").hidden = on;
  byId("delete-all-asked").hidden = !on;
  byId("delete-all-sure").textContent = `Delete all ${summaries.length} for good`;
  (on ? byId("delete-all-keep") : byId("delete-all")).focus();
}

/**
 * The reason why these cannot be compared side by side; "" where they can.
 * @param {ExplanationSummary[]} records
 */
function reasonAgainst(records) {
  if (records.length < 2) return "Tick two explanations to see them side by side.";
  if (records.length > 2) return "Tick no more than two explanations.";
  if (records[0].page !== records[1].page || records.some(({ state }) => state !== "done"))
    return "Tick two finished explanations of the same page to compare them.";
  if (records[0].page === "/prompt")
    return "The Prompt page shows one explanation at a time. Ask about one picture with several prompts instead.";
  if (records.some(({ targets = [] }) => targets.length > 1))
    return "One of the two already shows several classes side by side. Tick two explanations with one class each.";
  return "";
}

/**
 * @param {ExplanationSummary} summary
 * @param {boolean} on
 */
function tick(summary, on) {
  if (on) ticked.set(summary.id, summary);
  else ticked.delete(summary.id);
  const reason = reasonAgainst([...ticked.values()]);
  byId("compare").disabled = Boolean(reason);
  byId("chosen").textContent = reason;
}

/**
 * The text of an entry that a search looks in.
 * @param {ExplanationSummary} summary
 */
const textOf = (summary) =>
  [summary.title, answer(summary), summary.excerpt, titles.get(summary.model), summary.model, ...(summary.specs ?? [])]
    .join(" ")
    .toLowerCase();

/**
 * The explanations of one picture or text together, the newest first by the time of its newest.
 * @param {ExplanationSummary[]} found
 * @returns {ExplanationSummary[][]}
 */
function groups(found) {
  const byInput = new Map();
  for (const summary of [...found].sort((a, b) => (b.created ?? "").localeCompare(a.created ?? ""))) {
    const input = summary.about ?? summary.id;
    byInput.set(input, [...(byInput.get(input) ?? []), summary]);
  }
  return [...byInput.values()];
}

/** @param {ExplanationSummary[]} members */
function group(members) {
  if (members.length === 1) return record(members[0]);
  /** @type {{[page: string]: string}} */
  const names = { "/text": "text", "/molecule": "molecule" };
  const what = names[members[0].page] ?? "picture";
  return el(
    "li",
    { class: "group" },
    el("p", { class: "quiet" }, `${members.length} explanations of one ${what}`),
    el("ul", { class: "members" }, alike(members).map(stack)),
  );
}

/**
 * Explanations of one input by their answers: those by one model with one answer and name
 * are one stack, the newest first.
 * @param {ExplanationSummary[]} members
 * @returns {ExplanationSummary[][]}
 */
function alike(members) {
  /** @type {Map<string, ExplanationSummary[]>} */
  const stacks = new Map();
  for (const summary of members) {
    const key = JSON.stringify([summary.page, summary.model, summary.state, answer(summary), summary.title ?? ""]);
    stacks.set(key, [...(stacks.get(key) ?? []), summary]);
  }
  return [...stacks.values()];
}

/**
 * The newest of a stack, and the others folded under it; open where one of them is ticked.
 * @param {ExplanationSummary[]} records
 */
function stack([newest, ...others]) {
  if (!others.length) return record(newest);
  return el(
    "li",
    { class: "stack" },
    el("ul", { class: "top" }, record(newest)),
    el(
      "details",
      { open: others.some(({ id }) => ticked.has(id)) },
      el("summary", {}, `${count(others.length, "more", "more")} with this answer`),
      el("ul", { class: "others" }, others.map(record)),
    ),
  );
}

/** Draw the entries that match the search. */
function draw(before = "") {
  const words = byId("search").value.toLowerCase().split(/\s+/).filter(Boolean);
  const found = summaries.filter((summary) =>
    words.every((/** @type {string} */ word) => textOf(summary).includes(word)),
  );
  byId("records").replaceChildren(...groups(found).map(group));
  const compare = byId("records").querySelectorAll("[type=checkbox]");
  for (const box of compare) box.checked = ticked.has(box.closest(".record").dataset.id);
  byId("tools").hidden = !summaries.length;
  byId("comparing").hidden = summaries.length < 2;
  const all = count(summaries.length, "explanation");
  const text = summaries.length ? all : "Nothing here yet. Explain a picture or a text first.";
  say("status", `${before} ${words.length ? `${found.length} of ${all}` : text}`.trim());
}

/** Read the next ones; those that the server has forgotten leave the list, with a word. */
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
  summaries.push(...listed);
  draw(gone.length ? `The server no longer has ${count(gone.length, "explanation")}, so they left this list.` : "");
}

byId("compare").addEventListener("click", () => {
  const [a, b] = ticked.values();
  location.href = addressOf(`${link(a)}&compare=${encodeURIComponent(b.id)}`);
});
byId("search").addEventListener("input", () => draw());
byId("delete-all").addEventListener("click", () => askAll(true));
byId("delete-all-keep").addEventListener("click", () => askAll(false));
byId("delete-all-sure").addEventListener("click", removeAll);

/** Fetch the titles of models; one that is gone goes by its name. */
async function loadTitles() {
  const { models } = await getJSON("/api/models");
  for (const { name, title } of models) titles.set(name, title);
}

async function begin() {
  await Promise.all([loadLimits(), loadTitles()]).catch((problem) => showProblem(byId("problem"), problem));
  do await next();
  while (left.length);
  byId("records").setAttribute("aria-busy", "false");
}

void begin();
