// The Text page: a review, its sentiment, and one plate a method with the words coloured.

import { wordControls } from "../core/controls.js";
import { byId, el, percent } from "../core/dom.js";
import { Input } from "../inputs/input.js";
import { LongText } from "../plates/longtext.js";
import { unitsOf, WordPlate } from "../plates/words.js";
import { ClassPage } from "../workbench/classpage.js";
import { Unsubmitted } from "../workbench/unsubmitted.js";

const field = byId("text");
let submitted = null; // what was sent last: it is asked before the answer begins
let isWritten = false; // since a text was last filled in or asked about: nothing may take its place
// {input, windows}: the input as the model read it (text, tokens, words), and where the windows of a long one lie
let read = null;

/** A text in the chosen grain. */
const laidOut = ({ input, windows }) => ({
  text: input.text,
  units: unitsOf(input, workbench.view.value.grain),
  windows,
});

/** Where the windows of a long text lie, and what the model says of each alone. */
function tellWindows({ input, windows = [] }) {
  const place = (at) => input.words.findIndex(({ end }) => end > at) + 1;
  const last = ({ end }) => input.words.findLastIndex((word) => word.start < end) + 1;
  const line = (span) =>
    `Words ${place(span.start)} to ${last(span)}: ${span.label}${span.probability === undefined || span.probability === null ? "" : ` ${percent(span.probability)}`}`;
  byId("windows").hidden = !windows.length;
  byId("windows").replaceChildren(...windows.map((span) => el("li", {}, line(span))));
}

/** Lay the text out in the chosen grain on every plate. */
function cut() {
  workbench.plateSet.setBase(laidOut(read));
  page.compare.cut();
  workbench.plateSet.colour();
}

/** Put a text that the page brings into the field, unless the person was faster. */
function fill(text) {
  if (!isWritten) field.value = text;
}

function openSample(sample, labels = null, isOwn = true) {
  fill(sample.text);
  submitted = null;
  page.explain(new Input({ text: sample.text, sample: sample.id, isOwn }), labels, sample.model);
}

const pageSteps = {
  reopen(stored) {
    fill(stored.input?.text ?? "");
  },
  example() {
    const sample = workbench.exampleSample();
    if (!sample) return;
    workbench.plateSet.setBase({ text: sample.text, units: [] });
    openSample(sample, workbench.address.targets, false);
  },
  started(info, job, isNew) {
    read = info;
    if (!field.value) fill(info.input.text); // it was not known yet when the page opened
    tellWindows(info);
    unsubmitted.look();
    if (isNew) cut();
    longText.show(workbench.plateSet === page.single ? page.single : null, info.input.words.length);
  },
  openSample(sample) {
    isWritten = false;
    openSample(sample);
  },
};

const makePlate = (variant, stores, target) => new WordPlate(variant, stores, target);
const page = new ClassPage("text", pageSteps, { baseOf: (id, info) => laidOut(info), makePlate, many: false });
const { workbench } = page;
const longText = new LongText(byId("plates"), workbench.toolStates.of("coloured"));
byId("controls").append(...wordControls(workbench.view));
workbench.view.follow((now, before) => {
  if (now.grain === before.grain || !read) return;
  workbench.focus.set({ at: -1, locked: false });
  cut();
});
field.addEventListener("input", () => (isWritten = true));
const plain = (text) => text.replace(/\r\n?/g, "\n"); // as a field holds it
byId("writing").addEventListener("submit", (event) => {
  event.preventDefault();
  isWritten = false;
  submitted = field.value;
  page.explain(new Input({ text: field.value }), null);
});
const unsubmitted = new Unsubmitted(
  byId("writing"),
  () => Boolean(read) && ![plain(workbench.question.input?.text ?? read.input.text), submitted].includes(field.value),
  "The answer and the maps belong to the text before your change: ask for this one with “Explain this review”.",
);
field.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) byId("writing").requestSubmit();
});

workbench.open();
