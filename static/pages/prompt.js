// The Prompt page: a picture and what to look for in words; methods by prompts.

import "./frame.js";
import { Matrix } from "../plates/matrix.js";
import { sameKindOfTarget, readChoice } from "../choice/targetoptions.js";
import { getBlob } from "../core/api.js";
import { mapControls, more } from "../core/controls.js";
import { byId, el, say, addStyleSheet } from "../core/dom.js";
import { isFound } from "../core/targets.js";
import { Input } from "../inputs/input.js";
import { acceptPictures } from "../inputs/pictures.js";
import { Prompts } from "../inputs/prompts.js";
import { Samples } from "../inputs/samples.js";
import { windowFields } from "../inputs/greywindow.js";
import { partButton, PictureView } from "../inputs/pictureview.js";
import { Plate, PlateSet } from "../plates/plate.js";
import { Versus } from "../plates/versus.js";
import { Regions } from "../tools/regions.js";
import { AnswerChange } from "../workbench/answerchange.js";
import { Unsubmitted } from "../workbench/unsubmitted.js";
import { Workbench } from "../workbench/workbench.js";
import { findingLevel, findingLine, findsPrompts, judgedBy, likenessOf, shareLine } from "../workbench/overview.js";

/**
 * @import { ImageInput, ModelDetails, Sample, Target } from "../core/schemas.js"
 * @import { Wish } from "../core/types.js"
 * @import { PromptWords } from "../plates/promptwords.js"
 * @import { Known } from "../workbench/types.js"
 */

const problems = byId("input-problem");
/** @type {ModelDetails} */
let details = {}; // of the model
/** @type {Known} */
let known = {}; // these, and where it abstains
/** @type {PromptWords | null} */
let words = null; // the plates of the words of the prompts, once they are asked about
/** @type {Pick<Wish, "against" | "read">} */
let targetOptions = {}; // what is asked of every prompt: {against, read}

/**
 * Prompts by how well they fit the picture, the best first.
 * @param {Target[]} targets
 */
const ranked = (targets) => [...targets].sort((a, b) => (b.probability ?? b.logit) - (a.probability ?? a.logit));

const workbench = new Workbench("clip", {
  async load({ side: wanted }) {
    if (wanted !== "text") return;
    const [{ PromptWords }] = await Promise.all([
      import("../plates/promptwords.js"),
      addStyleSheet("workbench/wordrows.css"),
    ]);
    words ??= new PromptWords(byId("plates"), stores);
  },
  changed(model) {
    details = model.details ?? {};
    known = { ...details, calibration: model.calibration };
    const inWords = workbench.side === "text";
    side.select.value = workbench.side;
    workbench.moveTo((inWords && words) || plateSetFor(prompts.all.length), false);
  },
  plateSet({ targets = [], prompts: read }) {
    const plateSet = (read && words) || plateSetFor(targets.length);
    versus.read = targets[0]?.read ?? "logit";
    regions.draw(read ? [] : targets);
    if (read) words?.setPrompts(read, workbench.view.value.grain);
    if (plateSet instanceof Matrix)
      plateSet.setTargets(
        targets,
        targets.map((target) => headLine(target, targets.length)),
        targets.map((target) => !isFound(target)),
      );
    return plateSet;
  },
  giving: (input, model) => picture.await(input, model),
  stored: (id) => picture.fetch(id),
  refused() {
    picture.restore();
    prompts.known();
    side.select.value = workbench.side;
    read.select.value = targetOptions.read ?? "logit";
  },
  exports: () => regions.links(),
  ready() {
    samples.show(workbench.samples);
  },
  example() {
    // prompts are best seen side by side
    const first = workbench.exampleSample((sample) => (sample.prompts ?? []).length > 1);
    if (!first) return prompts.known();
    const wanted = workbench.address.prompts.length ? workbench.address.prompts : (first.prompts ?? []);
    prompts.set(wanted);
    if (workbench.side !== "text") {
      workbench.moveTo(plateSetFor(wanted.length), false);
      regions.draw(wanted.map((label) => ({ label, logit: 0 }))); // its room is kept
    }
    if (workbench.plateSet instanceof Matrix)
      workbench.plateSet.setTargets(
        wanted.map((label) => ({ label })),
        [],
      );
    look(inputOf(first, false));
  },
  carry(input) {
    const { prompts: wanted } = workbench.address;
    if (wanted.length) prompts.set(wanted, "Suggested by the model of the Image page. Write what you like.");
    look(input);
  },
  async started(info, question, isNew) {
    targetOptions = sameKindOfTarget(info.targets[0]);
    read.select.value = targetOptions.read ?? "logit";
    // the words of a prompt are explained for its own logit alone
    read.select.disabled = Boolean(info.prompts || targetOptions.against);
    prompts.show(info.targets);
    answerChange.setClasses(info.prompts ? [] : info.targets);
    answerChange.show(ranked(info.targets), info.output, question.input, question.modelInfo, info.targets);
    if (isNew) {
      workbench.plateSet.clear();
      regions.setBase(null);
    }
    byId("plates").classList.toggle("unfound", !info.targets.some(isFound)); // their maps are about nothing
    unsubmitted.look();
    samples.mark(question.input.sample);
    prompts.offer(workbench.samples.find((sample) => sample.id === question.input.sample)?.sets);
    if (!isNew) return picture.belongsTo(question.id);
    const base = await picture.show(question.id, /** @type {ImageInput} */ (info.input), question.input);
    if (!base) return; // another picture came in between
    workbench.plateSet.setBase(Object.assign(base, { outliers: info.outliers?.patches }));
    regions.setBase(base);
  },
  method(map, job) {
    picture.setGrid(map.grid ?? null);
    workbench.plateSet.receive(map, job.id);
    regions.draw();
  },
});

const stores = {
  focus: workbench.focus,
  view: workbench.view,
  onRead: (/** @type {string} */ text) => say("reading", text),
};
const versus = new Versus(byId("plates"), stores);
// one prompt has the plates of a picture: nothing is there to compare its maps with
const single = new PlateSet(byId("plates"), {
  ...stores,
  makePlate: (variant, stores, target) =>
    new Plate(variant, { ...stores, same: "This method gives the same map for every prompt." }, target),
});
workbench.plateSet = versus;
const picture = new PictureView(byId("picture"), workbench);
const samples = new Samples(byId("samples"), (sample) => look(inputOf(sample), sample.prompts));
acceptPictures(byId("give"), (image) => look(new Input({ image })));
partButton(byId("give"), workbench);
windowFields(byId("give"), workbench);
byId("controls").append(...mapControls(workbench.view));
const answerChange = new AnswerChange(workbench, byId("controls"));
answerChange.show([], undefined, null);

const prompts = new Prompts(byId("prompts"), {
  describe: (target, count) => ({
    says: findingLine(target, known),
    share: shareLine(target, count, output()),
    more: [judgedBy(target, known), `${likenessOf(target, known)}, with the whole picture`].filter(Boolean).join("; "),
    level: findingLevel(target, count, known),
  }),
  onAsk: () => workbench.ask({ targets: targetsOf() }, problems),
});
const unsubmitted = new Unsubmitted(
  byId("prompts"),
  () => Boolean(workbench.id) && String(prompts.all) !== String(workbench.question.targets.prompt ?? ""),
  "These maps are of the prompts before your change. Press “Look for these” for new ones.",
);
const read = readChoice((number) =>
  workbench.ask({ targets: targetsOf(prompts.all, { against: null, read: number }) }),
);
const side = sideChoice((/** @type {string} */ wanted) =>
  workbench.ask({ side: wanted, targets: targetsOf(prompts.all, targetOptions, wanted) }),
);
const [askMore, box] = more(
  "more-asking",
  "Ask more",
  "Ask more",
  el("div", { class: "asking" }, side.node, read.node),
);
askMore.classList.add("ask-more");
prompts.add.after(askMore);
byId("prompts").append(box);
const regions = new Regions(workbench);
byId("plates").before(regions.node);

/**
 * Choose the plates for this number of prompts.
 * @param {number} count
 */
function plateSetFor(count) {
  return count === 1 ? single : versus;
}

/**
 * Make the choice whether patches of the picture or words of the prompts get the scores.
 * @param {(side: string) => void} onTurn
 */
function sideChoice(onTurn) {
  const names = { image: "the picture", text: "the words of the prompts" };
  const select = el(
    "select",
    { id: "side", on: { change: () => onTurn(select.value) } },
    Object.entries(names).map(([value, name]) => el("option", { value }, name)),
  );
  return { select, node: el("div", { class: "pick" }, el("label", { for: "side" }, "Look at"), select) };
}

const output = () => workbench.subject.value.info?.output;

/**
 * Make the line over the maps of a prompt, one of `count`: whether it was found; its share where the model cannot say
 * that.
 * @param {Target} target
 * @param {number} count
 */
const headLine = (target, count) =>
  [findingLine(target, known), findsPrompts(known) ? "" : shareLine(target, count, output())]
    .filter(Boolean)
    .join(" · ");

/** Build the targets for these prompts; their words are explained for the logit alone. */
function targetsOf(prompt = prompts.all, wanted = targetOptions, side = workbench.question.side) {
  prompts.markAsked();
  return { prompt, ...(side === "text" ? {} : wanted) };
}

/**
 * @param {Sample} sample
 * @param {boolean} [isOwn]
 */
const inputOf = (sample, isOwn = true) =>
  new Input({ fetch: () => getBlob(String(sample.image)), sample: sample.id, isOwn });

/**
 * Look for prompts in another picture: for those in the list, unless it has its own.
 * @param {Input} input
 * @param {string[] | undefined} [ownPrompts]
 */
const look = (input, ownPrompts) =>
  workbench.ask({ input, targets: targetsOf(ownPrompts?.length ? ownPrompts : prompts.all) }, problems);

workbench.open();
