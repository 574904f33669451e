// The Text page: a review, its sentiment, and one plate a method with the words coloured.

import { ClassPage } from "./classpage.js";
import { wordControls } from "./controls.js";
import { byId } from "./dom.js";
import { unitsOf, WordPlate } from "./words.js";

const field = byId("text");
let read = null; // the input as the model read it: text, tokens, words

/** A text in the chosen grain. */
const laidOut = (input) => ({ text: input.text, units: unitsOf(input, bench.view.value.grain) });

/** Lay the text out in the chosen grain on every plate. */
function cut() {
  bench.wall.setBase(laidOut(read));
  page.compare.cut();
  bench.wall.colour();
}

function openSample(sample, labels = null) {
  field.value = sample.text;
  page.explain({ text: sample.text, sample: sample.id }, labels);
}

const own = {
  ready(stored) {
    if (stored) {
      bench.given = { text: stored.input?.text };
      field.value = bench.given.text ?? "";
    } else if (page.example) {
      bench.wall.setBase({ text: page.example.text, units: [] });
      openSample(page.example, bench.asked.targets);
    }
  },
  started(info, job, isNew) {
    read = info.input;
    if (isNew) cut();
  },
  openSample: (sample) => openSample(sample),
};

const makePlate = (variant, stores, target) => new WordPlate(variant, stores, target);
const page = new ClassPage("text", own, { baseOf: (id, info) => laidOut(info.input), makePlate, many: false });
const { bench } = page;
byId("controls").append(...wordControls(bench.view));
bench.view.follow((now, before) => {
  if (now.grain === before.grain || !read) return;
  bench.focus.set({ at: -1, locked: false });
  cut();
});
byId("writing").addEventListener("submit", (event) => {
  event.preventDefault();
  page.explain({ text: field.value }, null);
});
field.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) byId("writing").requestSubmit();
});

bench.open();
