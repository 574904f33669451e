// The first page: it takes a picture, a prompt or a sentence at once, shows two methods on one photo, and three
// findings to look at.

import "./frame.js";
import { createExplanation, explanationPath, follow, getBlob, getJSON, loadImage, modelPath } from "../core/api.js";
import { limits, ramp } from "../core/colour.js";
import { patiently } from "../core/patience.js";
import { addressOf, byId, el, percent, say } from "../core/dom.js";
import { reportProblem, showProblem } from "../core/problems.js";
import { remember } from "../core/historylist.js";
import { acceptPictures } from "../inputs/pictures.js";
import { meaningOf } from "../maps/caption.js";
import { greyBase, paint } from "../maps/heatmap.js";

/**
 * @import { Model, ModelDetail, Sample } from "../core/schemas.js"
 * @import { Explanation, ScoreMap } from "../core/types.js"
 * @import { Drawable } from "../maps/types.js"
 */

const BASELINE = "raw_attention"; // what the recommended method is compared with
const [PHOTOS, REVIEWS] = [9, 3]; // samples on the strip
const SIDE = 672; // pixels of the live plate
const VIEW = { evidence: "both", grid: "smooth", opacity: 85 };
const LAST = ["done", "failed", "cancelled"];

/** @type {Promise<{models: Model[], samples: Sample[]}>} */
const loaded = Promise.all([getJSON("/api/models"), getJSON("/api/samples")]).then(([{ models }, { samples }]) => ({
  models,
  samples,
}));

/**
 * The model that answers the visitor's input: for photos the one made for them.
 * @param {Model[]} models
 * @param {string} kind
 */
const modelFor = (models, kind) => {
  const able = models.filter((model) => model.kind === kind && ["loaded", "loading"].includes(model.state));
  return able.find(({ photos }) => photos) ?? able.find((model) => model.default) ?? able[0];
};

/**
 * The sample that the page shows, as its template has it.
 * @param {Sample[]} samples
 */
const shownSample = (samples) => samples.find(({ id }) => id === byId("stage").dataset.sample);

/** The method that is recommended for the sample on show, as its template has it from the leaderboard's ranking. */
const recommendedMethod = () => String(byId("stage").dataset.method);

/**
 * Ask, and go to the page with the question already asked.
 * @param {string} page
 * @param {string} kind
 * @param {{[name: string]: any}} fields
 */
async function ask(page, kind, fields) {
  showProblem(byId("ask-problem"), null);
  say("status", "asking…");
  try {
    const { models } = await loaded;
    const { id } = await patiently(
      () => createExplanation({ model: modelFor(models, kind)?.name, ...fields }),
      (seconds) => say("status", `the server has many questions: asking again in ${seconds} s`),
    );
    remember(id);
    location.href = addressOf(`${page}?id=${encodeURIComponent(id)}`);
  } catch (problem) {
    say("status", "");
    reportProblem(problem, byId("ask-problem"));
  }
}

acceptPictures(byId("give"), (file) => ask("/image", "image", { image: file }));

/** @type {File | undefined} */
let ownPicture; // the picture for the prompt, where it is not the one on show
byId("prompt-own").addEventListener("click", () => byId("prompt-file").click());
byId("prompt-file").addEventListener("change", (/** @type {any} */ { target }) => {
  [ownPicture] = target.files;
  if (ownPicture) byId("prompt-where").textContent = `in ${ownPicture.name}`;
});
byId("ask-prompt").addEventListener("submit", async (/** @type {Event} */ event) => {
  event.preventDefault();
  const prompt = byId("prompt").value.trim() || byId("prompt").placeholder;
  const { samples } = await loaded;
  const sample = shownSample(samples);
  const image = ownPicture ?? (sample?.image ? await getBlob(sample.image) : null);
  if (!image) return void byId("prompt-file").click(); // there is no picture yet
  await ask("/prompt", "clip", { image, prompt });
});
byId("ask-text").addEventListener("submit", (/** @type {Event} */ event) => {
  event.preventDefault();
  const field = byId("sentence");
  return ask("/text", "text", { text: field.value.trim() || field.placeholder });
});

// before this script the browser would send the form itself, and lose what was written
for (const button of document.querySelectorAll(".way [type=submit]")) button.removeAttribute("disabled");

/**
 * Two maps of one picture, one over the other; the slider says how much of the upper one is seen.
 * @param {Sample} sample
 * @param {Model[]} models
 * @returns {Promise<Explanation>}
 */
async function showMap(sample, models) {
  const model = models.find(({ name }) => name === sample.model) ?? modelFor(models, "image");
  const fields = {
    model: model.name,
    image: await getBlob(String(sample.image)),
    methods: [BASELINE, recommendedMethod()],
  };
  const { id } = await createExplanation(fields);
  await new Promise((resolve) =>
    follow(`${explanationPath(id)}/events`, { done: resolve, failed: resolve, cancelled: resolve }, LAST, resolve),
  );
  /** @type {Explanation} */
  const explanation = await getJSON(explanationPath(id));
  const picture = await loadImage(`${explanationPath(id)}/input.png`);
  const base = greyBase(picture, SIDE, SIDE);
  const sheets = [recommendedMethod(), BASELINE].map((spec) => {
    const map = /** @type {ScoreMap & Drawable} */ (explanation.maps.find(({ method }) => method === spec));
    const canvas = el("canvas", {
      width: SIDE,
      height: SIDE,
      role: "img",
      "aria-label": `What made the model say ${map.target}, by ${map.title}`,
    });
    paint(canvas, base, map, limits([map.scores], map.signed), VIEW);
    return { canvas, map };
  });
  const [under, over] = sheets;
  const edge = el("div", { class: "edge", "aria-hidden": "true" });
  byId("stage").replaceChildren(under.canvas, over.canvas, edge);
  for (const { side, map } of [
    { side: "left", map: over.map },
    { side: "right", map: under.map },
  ]) {
    byId(`${side}-name`).textContent = map.title;
    const [colours, low, high] = byId(`${side}-legend`).children;
    [low.textContent, high.textContent] = meaningOf(map);
    const stops = ramp(map.signed).map((colour) => `rgb(${colour.join(" ")})`);
    colours.style.background = `linear-gradient(to right, ${stops.join(", ")})`;
  }
  const sweep = byId("sweep");
  const show = () => {
    over.canvas.style.clipPath = `inset(0 ${100 - sweep.value}% 0 0)`;
    edge.style.left = `${sweep.value}%`;
  };
  sweep.disabled = false;
  sweep.addEventListener("input", show);
  show();
  const [first] = explanation.top;
  byId("live-says").replaceChildren(
    `“${sample.title}”: ${model.title} says `,
    el("q", {}, first.label),
    `, ${percent(first.probability ?? 0)}. What made it? `,
    el("a", { href: `/image?sample=${encodeURIComponent(sample.id)}` }, "All methods"),
  );
  return explanation;
}

/**
 * The next class of an answer that is another kind of thing: the maps of two sorts of cat hardly differ. Else the next
 * class.
 * @param {Explanation} explanation
 */
async function otherClass({ model, top, targets }) {
  /** @type {ModelDetail} */
  const { classes = [] } = await getJSON(modelPath(String(model)));
  const groups = new Map(classes.map(({ label, group }) => [label, group]));
  const others = top.filter(({ label }) => label !== targets[0].label);
  return others.find(({ label }) => groups.get(label) !== groups.get(targets[0].label)) ?? others[0];
}

/**
 * Have the first finding name two classes, and lead to their maps side by side.
 * @param {Sample} sample
 * @param {Explanation} explanation
 */
async function nameClasses(sample, explanation) {
  const [{ label }] = explanation.targets;
  const other = await otherClass(explanation);
  byId("finding-classes").textContent = `“${label}” and for “${other.label}”`;
  const question = [["sample", sample.id], ...[label, other.label].map((target) => ["target", target])];
  const methods = [BASELINE, recommendedMethod()].map((spec) => ["methods", spec]);
  const query = new URLSearchParams([...question, ...methods, ["first", BASELINE]]);
  byId("findings").querySelector("a").href = addressOf(`/image?${query}`);
}

/**
 * A strip of samples, each with its question already there: photos first, then reviews.
 * @param {Sample[]} samples
 */
function layStrip(samples) {
  /** @param {Sample} sample */
  const linkOf = ({ id, kind, title, thumbnail }) =>
    el(
      "a",
      { href: `${kind === "text" ? "/text" : "/image"}?sample=${encodeURIComponent(id)}`, title },
      thumbnail ? el("img", { src: thumbnail, alt: title, width: 56, height: 56 }) : title,
    );
  /**
   * @param {string} kind
   * @param {number} most
   */
  const of = (kind, most) => samples.filter((sample) => sample.kind === kind).slice(0, most);
  byId("strip").append(...[...of("image", PHOTOS), ...of("text", REVIEWS)].map(linkOf));
}

async function begin() {
  try {
    const { models, samples } = await loaded;
    layStrip(samples);
    const sample = shownSample(samples);
    if (sample) await nameClasses(sample, await showMap(sample, models));
  } catch (problem) {
    showProblem(
      byId("live-says"),
      problem.detail ? problem : { title: "The example is missing", detail: String(problem) },
    );
  } finally {
    byId("live").setAttribute("aria-busy", "false");
  }
}

void begin();
