// The Text page: a review, its sentiment, and one plate a method with the words coloured.

import { Bench } from "./bench.js";
import { Classes, classOf, likewise, setAgainst, spoken } from "./classes.js";
import { EVIDENCE, inWords, segment } from "./controls.js";
import { byId, el, say } from "./dom.js";
import { Wall } from "./plate.js";
import { Samples } from "./samples.js";
import { unitsOf, WordPlate } from "./words.js";

const problems = byId("specimen-problem");
const field = byId("text");
let read = null; // the input as the model read it: text, tokens, words
let target = null;

const bench = new Bench("text", {
  changed(model, detail) {
    classes.setLabels(detail.labels ?? []);
  },
  ready(stored) {
    samples.show(bench.samples);
    if (!stored) return openExample();
    bench.given = { text: stored.input?.text };
    field.value = bench.given.text ?? "";
  },
  started(info, job, isNew) {
    target = info.targets[0];
    byId("answer").textContent = spoken(target);
    document.title = `${spoken(target)} · Text · Vitrine`;
    classes.show(info.top, target);
    byId("notes").replaceChildren(...(info.notes ?? []).map((note) => el("li", {}, note)));
    samples.mark(bench.given?.sample ?? null);
    read = info.input;
    if (isNew) cut();
  },
  method(map, job) {
    bench.wall.receive(map, job.id);
  },
  again(change = {}) {
    if (change.model) target = null;
    explain(bench.given, target && classOf(target), byId("case-problem"), Boolean(change.model), likewise(target));
  },
});

bench.wall = new Wall(byId("plates"), { focus: bench.focus, view: bench.view, onRead: (text) => say("reading", text), makePlate: (variant, stores) => new WordPlate(variant, stores) });
const classes = new Classes(
  byId("classes"),
  (label) => explain(bench.given, label, byId("case-problem"), false, likewise(target, label)),
  (label) => explain(bench.given, classOf(target), byId("case-problem"), false, setAgainst(target, label)),
);
const samples = new Samples(byId("samples"), openSample);
byId("controls").append(
  segment(bench.view, "evidence", "Evidence", EVIDENCE),
  segment(bench.view, "grain", "Grain", { pieces: "pieces", words: "words", sentences: "sentences" }),
  segment(bench.view, "scale", "Scale", { own: "own", shared: "shared" }),
  inWords(bench.view),
);
bench.view.follow((now, before) => {
  if (now.grain === before.grain || !read) return;
  bench.focus.set({ at: -1, locked: false });
  cut();
});
byId("writing").addEventListener("submit", (event) => {
  event.preventDefault();
  explain({ text: field.value }, null, problems);
});
field.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) byId("writing").requestSubmit();
});

/** Lay the text out in the chosen grain on every plate. */
function cut() {
  bench.wall.setBase({ text: read.text, units: unitsOf(read, bench.view.value.grain) });
  bench.wall.colour();
}

const explain = (given, label, place, isNew = true, asked = {}) => bench.explain(given, { target: label, ...asked }, place, isNew);

function openSample(sample) {
  field.value = sample.text;
  explain({ text: sample.text, sample: sample.id }, null, problems);
}

function openExample() {
  const first = bench.samples.find((sample) => sample.model === bench.models.current.name) ?? bench.samples[0];
  if (!first) return;
  bench.wall.setBase({ text: first.text, units: [] });
  field.value = first.text;
  explain({ text: first.text, sample: first.id }, bench.asked.target, problems);
}

bench.open();
