// The Image page: a picture, the classes that the model sees in it, and one plate a method.

import { getBlob } from "./api.js";
import { Bench } from "./bench.js";
import { Classes, classOf, likewise, setAgainst, spoken } from "./classes.js";
import { mapControls } from "./controls.js";
import { byId, el, say } from "./dom.js";
import { Wall } from "./plate.js";
import { Samples } from "./samples.js";
import { acceptPictures, Specimen, STORED, storedPicture } from "./specimen.js";

const problems = byId("specimen-problem");
let target = null;

const bench = new Bench("image", {
  changed(model, detail) {
    classes.setLabels(detail.labels ?? []);
  },
  ready(stored) {
    samples.show(bench.samples);
    if (stored) bench.given = storedPicture(stored.id);
    else openExample();
  },
  async started(info, job, isNew) {
    target = info.targets[0];
    byId("answer").textContent = spoken(target);
    document.title = `${spoken(target)} · Image · Vitrine`;
    classes.show(info.top, target);
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
    if (change.model) target = null;
    explain(bench.given, target && classOf(target), byId("case-problem"), Boolean(change.model), likewise(target));
  },
});

bench.wall = new Wall(byId("plates"), { focus: bench.focus, view: bench.view, onRead: (text) => say("reading", text) });
const specimen = new Specimen(byId("picture"), bench);
const classes = new Classes(
  byId("classes"),
  (label) => explain(bench.given, label, byId("case-problem"), false, likewise(target, label)),
  (label) => explain(bench.given, classOf(target), byId("case-problem"), false, setAgainst(target, label)),
);
const samples = new Samples(byId("samples"), (sample) => openSample(sample));
acceptPictures(byId("give"), (file) => explain({ image: file }, null, problems));
byId("controls").append(...mapControls(bench.view));

const explain = (given, label, place, isNew = true, asked = {}) => bench.explain(given, { target: label, ...asked }, place, isNew);

// a sample names a class of the model that it was made for; another model is asked for its own top class
const openSample = (sample, label = sample.model === bench.models.current.name ? sample.target : null) => explain({ fetch: () => getBlob(sample.image), sample: sample.id }, label, problems);

function openExample() {
  const first = bench.samples.find((sample) => sample.model === bench.models.current.name) ?? bench.samples[0];
  if (first) openSample(first, bench.asked.target ?? undefined);
}

bench.open();
