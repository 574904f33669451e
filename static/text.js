// The Text page: a review, its sentiment, and one plate a method with the words coloured.

import { Bench } from "./bench.js";
import { Classes, classOf, likewise, spoken, spokenAll } from "./classes.js";
import { Compare } from "./compare.js";
import { wordControls } from "./controls.js";
import { byId, el } from "./dom.js";
import { Samples } from "./samples.js";
import { wallFor, wallsOf } from "./walls.js";
import { unitsOf, WordPlate } from "./words.js";

const problems = byId("specimen-problem");
const field = byId("text");
let read = null; // the input as the model read it: text, tokens, words
let targets = [];

const bench = new Bench("text", {
  changed(model, detail) {
    classes.setLabels(detail.labels ?? []);
    compare.offer();
  },
  refused() {
    classes.restore();
  },
  wall(info) {
    return wallFor(info, walls, compare);
  },
  prepare(stored) {
    return compare.prepare(bench.asked.compare, stored.model);
  },
  ready(stored) {
    samples.show(bench.samples);
    if (!stored) return openExample();
    bench.given = { text: stored.input?.text };
    field.value = bench.given.text ?? "";
  },
  started(info, job, isNew) {
    targets = info.targets;
    byId("answer").textContent = spokenAll(targets);
    document.title = `${spoken(targets[0])} · Text · Vitrine`;
    classes.show(info.top, targets);
    compare.follow(info);
    byId("notes").replaceChildren(...(info.notes ?? []).map((note) => el("li", {}, note)));
    samples.mark(bench.given?.sample ?? null);
    read = info.input;
    if (isNew) cut();
  },
  method(map, job) {
    bench.wall.receive(map, job.id);
  },
  again(change = {}) {
    if (change.model) targets = [];
    explain(bench.given, targets.map(classOf), byId("case-problem"), Boolean(change.model), likewise(targets[0]));
  },
});

const walls = wallsOf(bench, (variant, stores, target) => new WordPlate(variant, stores, target));
bench.wall = walls.single;
const classes = new Classes(byId("classes"), (labels, asked) => explain(bench.given, labels, byId("case-problem"), false, asked), false);
const compare = new Compare(byId("classes"), bench, { ...walls, baseOf: (id, info) => laidOut(info.input) });
const samples = new Samples(byId("samples"), openSample);
byId("controls").append(...wordControls(bench.view));
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

/** A text in the chosen grain. */
const laidOut = (input) => ({ text: input.text, units: unitsOf(input, bench.view.value.grain) });

/** Lay the text out in the chosen grain on every plate. */
function cut() {
  bench.wall.setBase(laidOut(read));
  compare.cut();
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
  explain({ text: first.text, sample: first.id }, bench.asked.targets, problems);
}

bench.open();
