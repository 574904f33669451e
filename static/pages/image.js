// The Image page: a picture, the classes that the model sees in it, and one plate a method.

import "./frame.js";
import { getBlob } from "../core/api.js";
import { mapControls } from "../core/controls.js";
import { byId } from "../core/dom.js";
import { Input } from "../inputs/input.js";
import { acceptPictures } from "../inputs/pictures.js";
import { windowFields } from "../inputs/greywindow.js";
import { partButton, seenBase, PictureView } from "../inputs/pictureview.js";
import { ClassPage } from "../workbench/classpage.js";

/**
 * @import { ImageInput, Sample } from "../core/schemas.js"
 * @import { ClassSteps } from "../workbench/types.js"
 */

// a sample names a class of the model that it was made for; another model is asked for its own top class
/** @param {Sample} sample */
const targetOf = (sample) =>
  workbench.models.fitting(sample.model, workbench.question.model) === sample.model && sample.target
    ? [sample.target]
    : null;
/**
 * @param {Sample} sample
 * @param {boolean} [isOwn]
 */
const inputOf = (sample, isOwn = true) =>
  new Input({ fetch: () => getBlob(String(sample.image)), sample: sample.id, isOwn });
const openSample = (/** @type {Sample} */ sample) => page.explain(inputOf(sample), targetOf(sample), sample.model);

const takesClips = () => workbench.models.takesClips(workbench.question.model);
const takesSounds = () => workbench.models.takesSounds(workbench.question.model);
const isSoundFile = (/** @type {Blob | Blob[] | null} */ file) => file instanceof File && /\.wav$/i.test(file.name);
/**
 * The model that a file of the person's own suits; a clip suits the model that the page has.
 * @param {Blob | Blob[] | null} file
 */
function forOwn(file) {
  if (isSoundFile(file)) return takesSounds() ? null : (workbench.models.forSounds ?? null);
  return takesClips() ? null : (workbench.models.forPhotos ?? null);
}
/**
 * Return whether an input is known to be a picture, which a model of sounds cannot read.
 * @param {Input} input
 */
const isPicture = (input) =>
  input.image || input.fetch
    ? !isSoundFile(input.image)
    : workbench.shown?.input === input && !(/** @type {ImageInput} */ (workbench.subject.value.info?.input)?.sound);

/** @type {"picture" | "clip" | "sound"} */
let given = "picture"; // what the model of the page is given

/** Name what is on show, and before that what the model of the page is given. */
function nameInput() {
  const input = /** @type {ImageInput | undefined} */ (workbench.shown && workbench.subject.value.info?.input);
  const kind = !input ? given : input.sound ? "sound" : input.frames ? "clip" : "picture";
  byId("input-panel-title").textContent = `Your ${kind}`;
}

const REMARKS = {
  picture: "",
  clip: "This model takes clips: choose several pictures at once, or an animated GIF.",
  sound: "This model takes sounds: choose a .wav file.",
};

/** @type {ClassSteps} */
const pageSteps = {
  example() {
    if (takesSounds()) return;
    const sample = workbench.exampleSample();
    const { targets } = workbench.address;
    if (sample) page.explain(inputOf(sample, false), targets.length ? targets : targetOf(sample), sample.model);
  },
  carry: (input) => page.explain(input, null, forOwn(input.image)),
  lacks: ({ details }, input) => Boolean(details?.sound_rate) && isPicture(input),
  giving: (input, model) => picture.await(input, model),
  stored: (id) => picture.fetch(id),
  refused: () => picture.restore(),
  async started(info, question, isNew) {
    nameInput();
    if (!isNew) return picture.belongsTo(question.id);
    const base = await picture.show(question.id, /** @type {ImageInput} */ (info.input), question.input);
    if (base) workbench.plateSet.setBase(Object.assign(base, { outliers: info.outliers?.patches }));
  },
  receive(map) {
    picture.setGrid(map.grid ?? []);
  },
  suits: () => !takesSounds(), // samples are pictures
  changed() {
    const wanted = takesSounds() ? "sound" : takesClips() ? "clip" : "picture";
    if (wanted === given) return;
    given = wanted;
    page.offerSamples();
    nameInput();
    give.name(given);
    byId("remark").textContent = REMARKS[given];
  },
  openSample,
};

const page = new ClassPage("image", pageSteps, { baseOf: seenBase });
const { workbench } = page;
const picture = new PictureView(byId("picture"), workbench);
const give = acceptPictures(
  byId("give"),
  (image) => page.explain(new Input({ image }), null, forOwn(image)),
  takesClips,
);
partButton(byId("give"), workbench);
windowFields(byId("give"), workbench);
byId("controls").append(...mapControls(workbench.view));

workbench.open();
