// The Prompt page: a picture and what to look for in words; methods by prompts.

import { getBlob } from "./api.js";
import { Bench } from "./bench.js";
import { likewise, readChoice } from "./classes.js";
import { mapControls } from "./controls.js";
import { byId, el, number, percent, say } from "./dom.js";
import { Panel } from "./panel.js";
import { Prompts } from "./prompts.js";
import { PromptWords } from "./promptwords.js";
import { Samples } from "./samples.js";
import { acceptPictures, Specimen, storedPicture } from "./specimen.js";
import { Versus } from "./versus.js";

const problems = byId("specimen-problem");
let details = {}; // of the model
let asked = {}; // what is asked of every prompt: {against, read}

const bench = new Bench("clip", {
  changed(model) {
    details = model.details ?? {};
    const inWords = bench.side === "text";
    side.select.value = bench.side;
    byId("asking").textContent = inWords ? "Which words counted in" : "Where it found";
    panel.node.hidden = inWords;
    bench.hangOn(inWords ? words : versus, false);
  },
  refused() {
    side.select.value = bench.side;
    read.select.value = asked.read ?? "logit";
  },
  ready(stored) {
    samples.show(bench.samples);
    if (stored) bench.given = storedPicture(stored.id);
    else openExample();
  },
  async started(info, job, isNew) {
    asked = likewise(info.targets[0]);
    read.select.value = asked.read ?? "logit";
    read.select.disabled = Boolean(info.prompts || asked.against); // the words of a prompt are explained for its own logit alone
    prompts.show(info.targets);
    versus.read = asked.read ?? "logit";
    if (info.prompts) words.setPrompts(info.prompts, bench.view.value.grain);
    bench.wall.setTargets(info.targets, info.targets.map(told));
    panel.show(info.prompts ? [] : info.targets);
    if (isNew) bench.wall.clear();
    samples.mark(bench.given?.sample ?? null);
    prompts.offer(bench.samples.find((sample) => sample.id === bench.given?.sample)?.sets);
    if (!isNew) return;
    const base = await specimen.show(job.id, info.input);
    if (!base) return;
    bench.wall.setBase(base);
    panel.setBase(base);
  },
  method(map, job) {
    specimen.setGrid(map.grid ?? null);
    bench.wall.receive(map, job.id);
    panel.draw();
  },
  again(change = {}) {
    explain(bench.given, prompts.all, byId("case-problem"), Boolean(change.model));
  },
});

const hanging = { focus: bench.focus, view: bench.view, onRead: (text) => say("reading", text) };
const versus = new Versus(byId("plates"), hanging);
const words = new PromptWords(byId("plates"), hanging);
bench.wall = bench.side === "text" ? words : versus;
const specimen = new Specimen(byId("picture"), bench);
const samples = new Samples(byId("samples"), (sample) => openSample(sample));
acceptPictures(byId("give"), (file) => explain({ image: file }, prompts.all, problems));
byId("controls").append(...mapControls(bench.view));

const prompts = new Prompts(byId("prompts"), { told, onAsk: () => explain(bench.given, prompts.all, problems, false) });
const read = readChoice((number) => explain(bench.given, prompts.all, byId("case-problem"), false, { against: null, read: number }));
const side = sideChoice((wanted) => bench.turn(wanted));
byId("prompts").append(el("div", { class: "asking" }, side.node, read.node));
const panel = new Panel(bench);
byId("plates").before(panel.node);

/** Whether patches of the picture or words of the prompts get the scores. */
function sideChoice(onTurn) {
  const names = { image: "the picture", text: "the words of the prompts" };
  const select = el("select", { id: "side", on: { change: () => onTurn(select.value) } }, Object.entries(names).map(([value, name]) => el("option", { value }, name)));
  return { select, node: el("div", { class: "pick" }, el("label", { for: "side" }, "Look at"), select) };
}

/** The cosine of image and prompt: as the server gives it, else the logit over the model's scale. */
const cosine = (target) => target.cosine ?? (details.logit_scale ? (target.logit - (details.logit_bias ?? 0)) / details.logit_scale : null);

function told(target) {
  if (target.against) return `logit ${number(target.logit)} above “${target.against}”`;
  const near = cosine(target);
  const likeness = near === null ? `logit ${number(target.logit)}` : `cosine ${number(near)}`;
  return `${likeness} · share ${percent(target.probability)}`;
}

function explain(given, prompt, place, isNew = true, wanted = asked) {
  const able = bench.side === "text" ? {} : wanted;
  return bench.explain(given, { prompt, ...able }, place, isNew);
}

const openSample = (sample, wanted = sample.prompts) => explain({ fetch: () => getBlob(sample.image), sample: sample.id }, wanted?.length ? wanted : prompts.all, problems);

function openExample() {
  const first = bench.samples.find((sample) => sample.model === bench.models.current.name) ?? bench.samples[0];
  if (!first) return;
  const wanted = bench.asked.prompts.length ? bench.asked.prompts : (first.prompts ?? []);
  prompts.set(wanted);
  bench.wall.setTargets(wanted.map((label) => ({ label })), []);
  openSample(first, wanted);
}

bench.open();
