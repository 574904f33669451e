// The Text page: a review, its sentiment, and one plate a method with the words coloured.

import "./frame.js";
import { getBlob } from "../core/api.js";
import { wordControls } from "../core/controls.js";
import { addressOf, byId, el, percent } from "../core/dom.js";
import { Input } from "../inputs/input.js";
import { unitsOf, wholeText, WordPlate } from "../plates/words.js";
import { ClassPage } from "../workbench/classpage.js";
import { Unsubmitted } from "../workbench/unsubmitted.js";

/**
 * @import { Sample, TextInput, TextWindow, Word } from "../core/schemas.js"
 * @import { Started } from "../core/types.js"
 * @import { LongText } from "../plates/longtext.js"
 * @import { PlateMaker } from "../plates/types.js"
 * @import { PromptParts } from "../workbench/promptparts.js"
 * @import { SecondText } from "../workbench/secondtext.js"
 * @import { ClassSteps, ModelInfo } from "../workbench/types.js"
 */

const LONG = 250; // words: more than these fill a screen in each plate
const field = byId("text");
/** @type {LongText | null} */
let longText = null; // once a text is long
/** @type {string | null} */
let submitted = null; // what was sent last: it is asked before the answer begins
let isWritten = false; // since a text was last filled in or asked about: nothing may take its place
/** @type {Started | null} the input as the model read it, and where the windows of a long one lie */
let started = null;
/** @type {PromptParts | null} */
let parts = null; // once a model reads a picture with the text
/** @type {SecondText | null} */
let second = null; // once a model reads two texts together

let readsPictures = false; // whether the model writes about pictures: reviews are nothing to ask it
let readsAlone = false; // what the model writes from, without a text

/** @param {Started} started */
const textOf = ({ input }) => /** @type {TextInput} */ (input);

/**
 * A text in the chosen grain.
 * @param {Started} started
 */
function laidOut({ input, windows }) {
  const text = /** @type {TextInput} */ (input);
  return {
    text: wholeText(text),
    units: unitsOf(text, workbench.view.value.grain),
    windows,
    picture: parts?.picture,
  };
}

/**
 * Show the windows of a long text, and the model's answer about each alone.
 * @param {TextWindow[]} windows
 * @param {Word[]} words
 */
function tellWindows(windows, words) {
  /** @param {number} at */
  const place = (at) => words.findIndex(({ end }) => end > at) + 1;
  /** @param {TextWindow} span */
  const last = ({ end }) => words.findLastIndex((word) => word.start < end) + 1;
  /** @param {TextWindow} span */
  const line = (span) =>
    `Words ${place(span.start)} to ${last(span)}: ${span.label}${span.probability === undefined || span.probability === null ? "" : ` ${percent(span.probability)}`}`;
  byId("windows").hidden = !windows.length;
  byId("windows").replaceChildren(...windows.map((span) => el("li", {}, line(span))));
}

/** Render the text in the chosen grain on every plate. */
function layOut() {
  if (started) workbench.plateSet.setBase(laidOut(started));
  page.compare.cut();
  workbench.plateSet.colour();
}

/**
 * Show a long text once, and not in each plate.
 * @param {number} words how many it has
 */
async function showOnce(words) {
  if (words > LONG && !longText) {
    const { LongText } = await import("../plates/longtext.js");
    longText ??= new LongText(byId("plates"), workbench.toolStates.of("coloured"));
  }
  longText?.show(words > LONG && workbench.plateSet === page.single ? page.single : null);
}

async function loadParts() {
  const { PromptParts } = await import("../workbench/promptparts.js");
  return (parts ??= new PromptParts(workbench, () => unsubmitted.look()));
}

async function loadSecond() {
  const { SecondText } = await import("../workbench/secondtext.js");
  return (second ??= new SecondText(() => unsubmitted.look()));
}

/**
 * Put a text that the page brings into the field, unless the person was faster.
 * @param {string | undefined} text
 */
function fill(text) {
  if (!isWritten) field.value = text;
}

/**
 * @param {Sample} sample
 * @param {string[] | null} [labels]
 * @param {boolean} [isOwn]
 */
function openSample(sample, labels = null, isOwn = true) {
  fill(sample.text);
  submitted = null;
  const { id, image, text, model } = sample;
  const given = image ? { fetch: () => getBlob(image), more: { text } } : { text };
  page.explain(new Input({ ...given, sample: id, isOwn }), labels, model);
}

/**
 * Return whether a sample is for the model of the page: it is named in the address, or the model says what is expected
 * of it. A model of something else begins with an empty field.
 * @param {Sample} sample
 */
function isForModel({ id, model, expected }) {
  const { name, labels } = /** @type {ModelInfo} */ (workbench.modelInfo).detail;
  const says = labels?.some((label) => label.toLowerCase() === expected?.toLowerCase());
  return id === workbench.address.sample || model === name || says;
}

/**
 * Return whether an input is known to have a picture, or to be a sound.
 * @param {Input} input
 */
const hasPicture = (input) =>
  Boolean(input.image || input.fetch) ||
  "text" in input.more || // with the picture of another question
  Boolean(shownAs(input)?.picture);

/**
 * The input of a question as the model read it, where its answer is on show.
 * @param {Input} input
 */
const shownAs = (input) => {
  const { info } = workbench.subject.value;
  return workbench.shown?.input === input && info ? textOf(/** @type {Started} */ (info)) : null;
};

/** @type {ClassSteps} */
const pageSteps = {
  suits: (sample) => Boolean(sample.image) === readsPictures && !readsAlone,
  async changed(model) {
    const { details, embedded } = model;
    const isOther = readsPictures !== Boolean(details?.picture_grid);
    readsPictures = Boolean(details?.picture_grid);
    readsAlone = readsPictures && !details?.reads?.includes("text");
    if (isOther) page.offerSamples();
    // a review that was asked about is no question about a picture
    if (isOther && readsPictures && !isWritten && !workbench.question.input) field.value = "";
    byId("several").hidden = readsPictures;
    byId("several").href = addressOf(`/collection?model=${encodeURIComponent(model.name)}`);
    if (parts || details?.picture_grid || details?.chat_template) (await loadParts()).offer(details);
    if (second || !embedded || details?.task) (await loadSecond()).offer(model);
  },
  lacks: ({ details }, input) =>
    (details?.picture_grid ? !(input.fetch || parts?.suffices(input)) : hasPicture(input)) ||
    (Boolean(details?.texts) && input.text !== null && input.second === null),
  partOf({ name, details }, input) {
    const text = /** @type {{text?: string}} */ (input.more).text ?? shownAs(input)?.text ?? "";
    if (details?.picture_grid || details?.texts || !hasPicture(input) || !text.trim()) return null;
    const detail = `${workbench.models.shownName(name)} reads none: this is its answer to the text alone.`;
    return { input: new Input({ text }), says: { title: "The picture is left out", detail } };
  },
  reopen(stored) {
    fill(stored.input?.kind === "text" ? (stored.input.text ?? "") : "");
    if (readsPictures || parts || stored.chat)
      void loadParts().then(({ chat }) => (chat.checked = Boolean(stored.chat)));
  },
  example() {
    const sample = workbench.exampleSample();
    if (!sample || !pageSteps.suits?.(sample) || !isForModel(sample)) return;
    workbench.plateSet.setBase({ text: sample.text ?? "", units: [] });
    openSample(sample, workbench.address.targets, false);
  },
  async started(info, job, isNew) {
    const { text, text_pair, words, picture, further_pictures } = /** @type {TextInput} */ (info.input);
    const pictures = picture ? [picture, ...(further_pictures ?? [])] : [];
    if (picture || parts) await (await loadParts()).started(job.id, pictures, isNew);
    if (workbench.shown !== job) return; // another came in between
    // at another place of an answer other words of it are read
    const isOther = started !== null && wholeText(textOf(started)) !== wholeText(textOf(info));
    started = info;
    if (text_pair || second) void loadSecond().then((fields) => fields.fill(text_pair ?? ""));
    if (!field.value) fill(text ?? ""); // it was not known yet when the page opened
    tellWindows(info.windows ?? [], words);
    unsubmitted.look();
    if (isOther) workbench.focus.set({ at: -1, locked: false });
    if (isNew || isOther) layOut();
    return showOnce(words.length);
  },
  openSample(sample) {
    isWritten = false;
    openSample(sample);
  },
};

/** @type {PlateMaker} */
const makePlate = (variant, stores, target) => new WordPlate(variant, stores, target);
const page = new ClassPage("text", pageSteps, { baseOf: (id, info) => laidOut(info), makePlate, many: false });
const { workbench } = page;
byId("controls").append(...wordControls(workbench.view));
workbench.view.follow((now, before) => {
  if (now.grain === before.grain || !started) return;
  workbench.focus.set({ at: -1, locked: false });
  layOut();
});
field.addEventListener("input", () => (isWritten = true));
const plain = (/** @type {string} */ text) => text.replace(/\r\n?/g, "\n"); // as a field holds it
byId("writing").addEventListener("submit", (/** @type {Event} */ event) => {
  event.preventDefault();
  isWritten = false;
  submitted = field.value;
  const given = parts?.given(field.value) ?? second?.given(field.value);
  page.explain(given ?? new Input({ text: field.value }), null);
});
const unsubmitted = new Unsubmitted(
  byId("writing"),
  () =>
    started !== null &&
    (parts?.isGiven ||
      second?.isChanged ||
      ![
        plain(workbench.question.input?.text ?? /** @type {TextInput} */ (started.input).text ?? ""),
        submitted,
      ].includes(field.value)),
  "These maps are of the input before your change. Press the button below it for new ones.",
);
field.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) byId("writing").requestSubmit();
});

workbench.open();
