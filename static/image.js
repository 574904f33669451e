// The Image page: a picture, the classes that the model sees in it, and one plate a method.

import { getBlob } from "./api.js";
import { Bench } from "./bench.js";
import { Classes, classOf, likewise, spoken, spokenAll } from "./classes.js";
import { Compare } from "./compare.js";
import { mapControls } from "./controls.js";
import { byId, el } from "./dom.js";
import { Samples } from "./samples.js";
import { acceptPictures, seenBase, Specimen, STORED, storedPicture } from "./specimen.js";
import { wallFor, wallsOf } from "./walls.js";

const problems = byId("specimen-problem");
let targets = [];

const bench = new Bench("image", {
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
    if (stored) bench.given = storedPicture(stored.id);
    else openExample();
  },
  async started(info, job, isNew) {
    targets = info.targets;
    byId("answer").textContent = spokenAll(targets);
    document.title = `${spoken(targets[0])} · Image · Vitrine`;
    classes.show(info.top, targets);
    compare.follow(info);
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
    if (change.model) targets = [];
    explain(bench.given, targets.map(classOf), byId("case-problem"), Boolean(change.model), likewise(targets[0]));
  },
});

const walls = wallsOf(bench);
bench.wall = walls.single;
const specimen = new Specimen(byId("picture"), bench);
const classes = new Classes(byId("classes"), (labels, asked) => explain(bench.given, labels, byId("case-problem"), false, asked));
const compare = new Compare(byId("classes"), bench, { ...walls, baseOf: seenBase });
const samples = new Samples(byId("samples"), (sample) => openSample(sample));
acceptPictures(byId("give"), (file) => explain({ image: file, model: bench.models.forPhotos }, null, problems));
byId("controls").append(...mapControls(bench.view));

const explain = (given, label, place, isNew = true, asked = {}) => bench.explain(given, { target: label, ...asked }, place, isNew);

// a sample names a class of the model that it was made for; another model is asked for its own top class
const targetOf = (sample) => (bench.models.fitting(sample.model) === sample.model ? sample.target : null);
const openSample = (sample, label = targetOf(sample)) => explain({ fetch: () => getBlob(sample.image), sample: sample.id, model: sample.model }, label, problems);

function openExample() {
  const first = bench.samples.find((sample) => sample.model === bench.models.current.name) ?? bench.samples[0];
  if (first) openSample(first, bench.asked.targets.length ? bench.asked.targets : undefined);
}

bench.open();
