// The Prompt page: a picture and what to look for in words; methods by prompts.

import { getBlob } from "./api.js";
import { Bench } from "./bench.js";
import { classOf, likewise, MOST, readChoice, spoken, spokenAll } from "./classes.js";
import { mapControls } from "./controls.js";
import { byId, el, number, percent, say } from "./dom.js";
import { Samples } from "./samples.js";
import { acceptPictures, Specimen, STORED, storedPicture } from "./specimen.js";
import { Versus } from "./versus.js";

const problems = byId("specimen-problem");
let details = {}; // of the model
let asked = {}; // what is asked of every prompt: {against, read}

const bench = new Bench("clip", {
  changed(model) {
    details = model.details ?? {};
  },
  ready(stored) {
    samples.show(bench.samples);
    if (stored) bench.given = storedPicture(stored.id);
    else openExample();
  },
  async started(info, job, isNew) {
    asked = likewise(info.targets[0]);
    showPrompts(info.targets);
    bench.wall.setTargets(info.targets, info.targets.map(told));
    if (isNew) bench.wall.clear();
    byId("answer").textContent = spokenAll(info.targets);
    document.title = `${spoken(info.targets[0])} · Prompt · Vitrine`;
    byId("notes").replaceChildren(...[...(info.notes ?? []), ...(bench.given?.again ? [STORED] : [])].map((note) => el("li", {}, note)));
    samples.mark(bench.given?.sample ?? null);
    if (!isNew) return;
    const base = await specimen.show(job.id, info.input);
    if (base) bench.wall.setBase(base);
  },
  method(map, job) {
    specimen.setGrid(map.grid);
    bench.wall.receive(map, job.id);
  },
  again(change = {}) {
    explain(bench.given, prompts(), byId("case-problem"), Boolean(change.model));
  },
});

bench.wall = new Versus(byId("plates"), { focus: bench.focus, view: bench.view, onRead: (text) => say("reading", text) });
const specimen = new Specimen(byId("picture"), bench);
const samples = new Samples(byId("samples"), (sample) => openSample(sample));
acceptPictures(byId("give"), (file) => explain({ image: file }, prompts(), problems));
byId("controls").append(...mapControls(bench.view));

const rows = el("div", { class: "rows" });
const add = el("button", { type: "button", class: "act plain", on: { click: () => addRow("").querySelector("input").focus() } }, "Add a prompt");
byId("prompts").append(el("h2", {}, "Prompts"), rows, el("div", { class: "give" }, el("button", { type: "submit", class: "act" }, "Look for these"), add));
byId("prompts").addEventListener("submit", (event) => {
  event.preventDefault();
  explain(bench.given, prompts(), problems, false);
});
addRow("");

/** The cosine of image and prompt: as the server gives it, else the logit over the model's scale. */
const cosine = (target) => target.cosine ?? (details.logit_scale ? (target.logit - (details.logit_bias ?? 0)) / details.logit_scale : null);

function told(target) {
  if (target.against) return `logit ${number(target.logit)} above “${target.against}”`;
  const near = cosine(target);
  const likeness = near === null ? `logit ${number(target.logit)}` : `cosine ${number(near)}`;
  return `${likeness} · share ${percent(target.probability)}`;
}

function addRow(prompt, target = null) {
  const field = el("input", { type: "text", value: prompt, maxLength: 200, "aria-label": "Prompt", placeholder: "a zebra" });
  const remove = el("button", { type: "button", "aria-label": "Remove this prompt", title: "Remove", on: { click: () => drop(row) } }, "×");
  const bar = el("i");
  bar.style.width = `${100 * (target?.probability ?? 0)}%`;
  const row = el("div", { class: "entry" }, field, remove, el("span", { class: "likeness" }, target ? told(target) : "\u00a0"), el("span", { class: "bar" }, bar));
  rows.append(row);
  add.disabled = rows.children.length >= MOST;
  return row;
}

function drop(row) {
  row.remove();
  if (!rows.children.length) addRow("");
  add.disabled = false;
  rows.lastChild.querySelector("input").focus();
}

const prompts = () => [...new Set([...rows.querySelectorAll("input")].map((field) => field.value.trim()).filter(Boolean))];

function showPrompts(targets) {
  rows.replaceChildren();
  for (const target of targets) addRow(classOf(target), target);
}

const explain = (given, prompt, place, isNew = true) => bench.explain(given, { prompt, ...asked }, place, isNew);

const openSample = (sample, wanted = sample.prompts) => explain({ fetch: () => getBlob(sample.image), sample: sample.id }, wanted?.length ? wanted : prompts(), problems);

function openExample() {
  const first = bench.samples.find((sample) => sample.model === bench.models.current.name) ?? bench.samples[0];
  if (!first) return;
  const wanted = bench.asked.prompts.length ? bench.asked.prompts : (first.prompts ?? []);
  showPrompts([]);
  for (const prompt of wanted) addRow(prompt);
  bench.wall.setTargets(wanted.map((label) => ({ label })), []);
  openSample(first, wanted);
}

bench.open();
