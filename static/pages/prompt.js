// The Prompt page: a picture and what to look for in words; methods by prompts.

import { likewise, readChoice } from "../choice/asking.js";
import { getBlob } from "../core/api.js";
import { mapControls, more } from "../core/controls.js";
import { byId, el, number, percent, say } from "../core/dom.js";
import { Input } from "../inputs/input.js";
import { acceptPictures } from "../inputs/pictures.js";
import { Prompts } from "../inputs/prompts.js";
import { Samples } from "../inputs/samples.js";
import { partButton, Specimen } from "../inputs/specimen.js";
import { PromptWords } from "../plates/promptwords.js";
import { Versus } from "../plates/versus.js";
import { Panel } from "../tools/panel.js";
import { Bench } from "../workbench/bench.js";
import { cosineOf } from "../workbench/overview.js";

const problems = byId("specimen-problem");
let details = {}; // of the model
let asked = {}; // what is asked of every prompt: {against, read}

const bench = new Bench("clip", {
  changed(model) {
    details = model.details ?? {};
    const inWords = bench.side === "text";
    side.select.value = bench.side;
    panel.node.hidden = inWords;
    bench.hangOn(inWords ? words : versus, false);
  },
  giving: (input, model) => specimen.await(input, model),
  refused() {
    specimen.restore();
    prompts.known();
    side.select.value = bench.side;
    read.select.value = asked.read ?? "logit";
  },
  ready() {
    samples.show(bench.samples);
  },
  example() {
    const own = bench.samples.filter((sample) => sample.model === bench.models.current.name);
    // prompts are best seen side by side
    const first =
      bench.samples.find(({ id }) => id === bench.asked.sample) ??
      own.find(({ prompts: several }) => several?.length > 1) ??
      own[0] ??
      bench.samples[0];
    if (!first) return prompts.known();
    const wanted = bench.asked.prompts.length ? bench.asked.prompts : (first.prompts ?? []);
    prompts.set(wanted);
    bench.wall.setTargets(
      wanted.map((label) => ({ label })),
      [],
    );
    look(inputOf(first, false));
  },
  carry(input) {
    const { prompts: wanted } = bench.asked;
    if (wanted.length)
      prompts.set(wanted, "The first classes that the model of the Image page named. Write what you like.");
    look(input);
  },
  async started(info, question, isNew) {
    asked = likewise(info.targets[0]);
    read.select.value = asked.read ?? "logit";
    // the words of a prompt are explained for its own logit alone
    read.select.disabled = Boolean(info.prompts || asked.against);
    prompts.show(info.targets);
    versus.read = asked.read ?? "logit";
    if (info.prompts) words.setPrompts(info.prompts, bench.view.value.grain);
    bench.wall.setTargets(
      info.targets,
      info.targets.map((target) => told(target, info.targets.length)),
    );
    if (isNew) {
      bench.wall.clear();
      panel.setBase(null);
    }
    panel.show(info.prompts ? [] : info.targets);
    samples.mark(question.input.sample);
    prompts.offer(bench.samples.find((sample) => sample.id === question.input.sample)?.sets);
    if (!isNew) return specimen.belongsTo(question.id);
    const base = await specimen.show(question.id, info.input, question.input);
    if (!base) return; // another picture came in between
    bench.wall.setBase(base);
    panel.setBase(base);
  },
  method(map, job) {
    specimen.setGrid(map.grid ?? null);
    bench.wall.receive(map, job.id);
    panel.draw();
  },
});

const hanging = { focus: bench.focus, view: bench.view, onRead: (text) => say("reading", text) };
const versus = new Versus(byId("plates"), hanging);
const words = new PromptWords(byId("plates"), hanging);
bench.wall = bench.side === "text" ? words : versus;
const specimen = new Specimen(byId("picture"), bench);
const samples = new Samples(byId("samples"), (sample) => look(inputOf(sample), sample.prompts));
acceptPictures(byId("give"), (image) => look(new Input({ image })));
partButton(byId("give"), bench);
byId("controls").append(...mapControls(bench.view));

const prompts = new Prompts(byId("prompts"), { told, onAsk: () => bench.ask({ targets: targetsOf() }, problems) });
const read = readChoice((number) => bench.ask({ targets: targetsOf(prompts.all, { against: null, read: number }) }));
const side = sideChoice((wanted) => bench.ask({ side: wanted, targets: targetsOf(prompts.all, asked, wanted) }));
const [askMore, box] = more(
  "more-asking",
  "Ask more",
  "Ask more",
  el("div", { class: "asking" }, side.node, read.node),
);
askMore.classList.add("ask-more");
prompts.add.after(askMore);
byId("prompts").append(box);
const panel = new Panel(bench);
byId("plates").before(panel.node);

/** Whether patches of the picture or words of the prompts get the scores. */
function sideChoice(onTurn) {
  const names = { image: "the picture", text: "the words of the prompts" };
  const select = el(
    "select",
    { id: "side", on: { change: () => onTurn(select.value) } },
    Object.entries(names).map(([value, name]) => el("option", { value }, name)),
  );
  return { select, node: el("div", { class: "pick" }, el("label", { for: "side" }, "Look at"), select) };
}

/**
 * What the model says of a prompt, one of `count`: the shares of all prompts are 100 %, so that of a single one says
 * nothing.
 */
function told(target, count) {
  if (target.against) return `logit ${number(target.logit)} above “${target.against}”`;
  const near = cosineOf(target, details);
  const likeness = near === null ? `logit ${number(target.logit)}` : `cosine ${number(near)}`;
  const found = `${likeness} · ${count > 1 ? `share ${percent(target.probability)}` : "shares need two prompts"}`;
  return target.abstention ? `${target.abstention.says} · ${found}` : found;
}

/** What is asked of these prompts; their words are explained for the logit alone. */
function targetsOf(prompt = prompts.all, wanted = asked, side = bench.question.side) {
  prompts.asked();
  return { prompt, ...(side === "text" ? {} : wanted) };
}

const inputOf = (sample, isOwn = true) => new Input({ fetch: () => getBlob(sample.image), sample: sample.id, isOwn });

/** Look for prompts in another picture: for those in the list, unless it has its own. */
const look = (input, own) => bench.ask({ input, targets: targetsOf(own?.length ? own : prompts.all) }, problems);

bench.open();
