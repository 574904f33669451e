// How a page begins: with the explanation that the address names, with the picture of another page, or with an example.

import { getJSON } from "../core/api.js";
import { byId, say } from "../core/dom.js";
import { loadLimits } from "../core/limits.js";
import { showProblem } from "../core/problems.js";
import { endsOf } from "../core/targets.js";
import { linkedSample } from "../inputs/firstsample.js";
import { Input } from "../inputs/input.js";
import { questionOf } from "./storedquestion.js";

/**
 * @import { Samples } from "../core/schemas.js"
 * @import { Explanation } from "../core/types.js"
 * @import { TakenQuestion } from "./types.js"
 * @import { Workbench } from "./workbench.js"
 */

/**
 * Fetch what the page needs, then reopen the explanation of the address, or let the page begin with an example.
 * @param {Workbench} workbench
 * @returns {Promise<void>}
 */
export async function openPage(workbench) {
  const { address, models, page } = workbench;
  try {
    /** @type {[unknown, Samples, unknown]} */
    const [, { samples }] = await Promise.all([models.load(), getJSON("/api/samples"), loadLimits()]);
    workbench.samples = samples.filter((sample) => sample.kind === workbench.kind);
    const stored = address.id
      ? await (await import("./stored.js")).findStored(address.id, workbench.kind, models)
      : null;
    // before samples are offered: they ask a model that was brought
    if (stored) workbench.question.model = stored.model;
    page.ready();
    if (address.id && !stored) workbench.headline.clear(); // nothing is asked
    models.chosen = Boolean(address.model);
    if (stored) await page.prepare?.(stored);
    const first = address.sample
      ? linkedSample(workbench.samples, address)
      : workbench.samples.find(({ model }) => model === models.forPhotos);
    await use(workbench, stored?.model ?? address.model ?? models.usable(first?.model) ?? models.preferred, stored);
    if (workbench.question.input) return; // the person was faster
    if (stored) {
      reopen(workbench, stored);
      page.reopen?.(stored);
    } else if (address.source) page.carry?.(new Input({ source: address.source }));
    else if (!address.id) page.example();
    else {
      workbench.plateSet.close();
      page.refused?.();
      say("status", "nothing to show");
    }
  } catch (problem) {
    workbench.report(problem, byId("results-problem"));
  } finally {
    if (!workbench.question.input) workbench.headline.clear();
  }
}

/**
 * Take `name` as the model of the page. A stored explanation, and a page that nobody asked for a model, are shown even
 * where that model cannot be had: with another, and a word on why.
 * @param {Workbench} workbench
 * @param {string | undefined} name
 * @param {Explanation | null} stored
 */
async function use(workbench, name, stored) {
  const { models } = workbench;
  if (stored) workbench.question.side = stored.prompts ? "text" : "image";
  await workbench.page.load?.({ count: stored?.targets?.length ?? 0, side: workbench.question.side });
  const model = await models.ready(String(name ?? "")).catch((problem) => {
    if (!stored && workbench.address.model) throw problem;
    workbench.modelProblem = problem;
    showProblem(byId("results-problem"), problem);
    return models.ready(String(models.preferred ?? ""));
  });
  const specs = stored?.methods ?? workbench.question.methods;
  const modelInfo = await workbench.modelInfoOf(model.name, workbench.question.side, specs);
  workbench.question.model = model.name;
  workbench.adopt(modelInfo);
  workbench.isContrast = Boolean(stored?.targets?.some(({ against }) => against));
  workbench.meaning = endsOf(stored?.targets ?? []);
  if (stored) workbench.suit(stored);
  workbench.expect(stored?.methods ?? workbench.question.methods);
}

/**
 * @param {Workbench} workbench
 * @param {Explanation} stored
 */
function reopen(workbench, stored) {
  const { model, side } = workbench.question;
  const { modelInfo } = workbench;
  const { id, state } = stored;
  workbench.sharedId = stored.shared ? id : null;
  const parts = { ...questionOf(stored, workbench.kind), model, side, modelInfo, id, state };
  workbench.question = workbench.taken = /** @type {TakenQuestion} */ (parts);
  workbench.answering.job.follow(workbench.taken);
}
