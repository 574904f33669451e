// The three doors show real explanations of the samples: the same ones that the pages open with.

import { createExplanation, explanationPath, follow, getBlob, getJSON, loadImage } from "./api.js";
import { greyBase, paint } from "./canvas/heatmap.js";
import { limits, place } from "./colour.js";
import { byId, el } from "./dom.js";
import { SHOWN } from "./registry.js";
import { tint, unitScore } from "./words.js";

const VIEW = { evidence: "both", grid: "smooth", opacity: 85 };

/** The finished explanation of what a page opens with; null where its model is not at hand. */
async function example(kind, models, samples) {
  const model = models.find((one) => one.kind === kind && one.default && one.state !== "failed");
  const sample = samples.find((one) => one.kind === kind && one.model === model?.name);
  if (!sample) return null;
  const image = sample.image && (await getBlob(sample.image));
  const { id } = await createExplanation({ model: model.name, image, text: sample.text, target: sample.target, prompt: sample.prompts });
  await new Promise((resolve) => follow(`${explanationPath(id)}/events`, { done: resolve, failed: resolve, cancelled: resolve }, ["done", "failed", "cancelled"], resolve));
  const document = await getJSON(explanationPath(id));
  const last = document.targets?.at(-1)?.label;
  const map = document.maps.find((one) => one.method === SHOWN && one.target === last);
  return map ? { id, document, map } : null;
}

async function hangPicture(pane, { id, document, map }) {
  const picture = await loadImage(`${explanationPath(id)}/input.png`);
  const canvas = el("canvas", { width: 672, height: 672, role: "img", "aria-label": `What made the model say ${map.target}, by ${map.title}` });
  paint(canvas, greyBase(picture, 672, 672), map, limits([map.scores], map.signed), VIEW);
  pane.replaceChildren(canvas, el("span", { class: "tag" }, map.target));
}

function hangText(pane, { document, map }) {
  const { text, words } = document.input;
  const scores = words.map((word) => unitScore(map.scores, word, map.signed));
  const ends = limits([scores], map.signed);
  let at = 0;
  const parts = words.flatMap(({ start, end }, i) => {
    const t = place(scores[i], ends, map.signed);
    const span = el("span", { data: { w: i } }, text.slice(start, end));
    tint(span, t, map.signed);
    const before = text.slice(at, start);
    at = end;
    return [before, span];
  });
  pane.replaceChildren(...parts, text.slice(at), el("span", { class: "tag" }, map.target));
}

const [{ models }, { samples }] = await Promise.all([getJSON("/api/models"), getJSON("/api/samples")]);
const hang = async (kind, pane, draw) => {
  const found = await example(kind, models, samples);
  if (found) await draw(pane, found);
};
await Promise.allSettled([hang("image", byId("door-image"), hangPicture), hang("clip", byId("door-prompt"), hangPicture), hang("text", byId("door-text"), hangText)]);
