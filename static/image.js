// The Image page: a picture, the classes that the model sees in it, and one plate a method.

import { getBlob } from "./api.js";
import { ClassPage } from "./classpage.js";
import { mapControls } from "./controls.js";
import { byId } from "./dom.js";
import { acceptPictures, seenBase, Specimen, storedPicture } from "./specimen.js";

// a sample names a class of the model that it was made for; another model is asked for its own top class
const targetOf = (sample) => (bench.models.fitting(sample.model) === sample.model ? sample.target : null);
const openSample = (sample, labels = targetOf(sample)) => page.explain({ fetch: () => getBlob(sample.image), sample: sample.id, model: sample.model }, labels);

const own = {
  ready(stored) {
    if (stored) bench.given = storedPicture(stored.id);
    else if (page.example) openSample(page.example, bench.asked.targets.length ? bench.asked.targets : undefined);
  },
  async started(info, job, isNew) {
    const base = isNew && (await specimen.show(job.id, info.input));
    if (base) bench.wall.setBase(base);
  },
  receive(map) {
    specimen.setGrid(map.grid);
  },
  openSample: (sample) => openSample(sample),
};

const page = new ClassPage("image", own, { baseOf: seenBase });
const { bench } = page;
const specimen = new Specimen(byId("picture"), bench);
acceptPictures(byId("give"), (file) => page.explain({ image: file, model: bench.models.forPhotos }, null));
byId("controls").append(...mapControls(bench.view));

bench.open();
