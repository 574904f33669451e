// Which model answers, and why that one, next to the input.

import { follow, getJSON, loadModel, Problem } from "../core/api.js";
import { byId, el, whole } from "../core/dom.js";
import { showProblem } from "../core/problems.js";
import { ownName, WRITING_TASKS } from "../core/targets.js";

/**
 * @import { LoadProgress, Model, Models, Target } from "../core/schemas.js"
 * @import { ModelInput } from "../core/types.js"
 */

/** @type {{[kind: string]: {path: string, name: string}}} */
const PAGES = {
  image: { path: "/image", name: "Image" },
  clip: { path: "/prompt", name: "Prompt" },
  text: { path: "/text", name: "Text" },
  molecule: { path: "/molecule", name: "Molecule" },
};

/** The input of a page's model in words, by kind; on the Image page it depends on the model. */
/** @type {{[kind: string]: string}} */
const GIVEN = { text: "a text", clip: "a picture and a few English words", molecule: "a molecule" };

const facts = (/** @type {Model} */ { details, device }) =>
  [
    details.grid && `${details.grid.join("×")} patches`,
    details.frames && `${details.frames} frames`,
    !details.grid && details.blocks && `${details.blocks} blocks`,
    device,
  ]
    .filter(Boolean)
    .join(", ");

/**
 * What a model does with its input, from the names of its classes.
 * @param {string[]} labels
 * @param {boolean} isClip whether it is asked with words in place of classes
 * @param {string | null} [task]
 */
function does(labels, isClip, task) {
  if (WRITING_TASKS.includes(task ?? "")) return "writes an answer";
  if (!labels.length) return isClip ? "looks for what you write" : "has its own classes or values for each place";
  const named = labels.map((label) => `“${label}”`).join(" or ");
  return labels.length <= 3 ? `answers ${named}` : `knows ${whole(labels.length)} things`;
}

/**
 * Say why a model answers, and what it does: "It reads a text and answers “negative” or “positive”."
 * @param {string[]} labels
 * @param {boolean} isClip
 * @param {string} given what it reads
 * @param {string} [why] why it answers, where that is to be said: "You chose this model"
 * @param {string | null} [task]
 * @returns {string}
 */
export const modelLine = (labels, isClip, given, why, task) =>
  why ? `${why}: it ${does(labels, isClip, task)}.` : `It reads ${given} and ${does(labels, isClip, task)}.`;

/**
 * How far a model is, with its name: many texts of the server name it.
 * @param {string} name
 * @param {string} text
 * @returns {string}
 */
export const loadingLine = (name, text) => (text.includes(ownName(name)) ? text : `Loading ${ownName(name)}: ${text}`);

/** @param {Model} model */
const isUsable = ({ state }) => state === "loaded" || state === "loading";

/** The models of a page, and which of them answers. */
export class ModelChoice {
  /**
   * @param {string} kind
   * @param {(name: string) => void} onChange
   */
  constructor(kind, onChange) {
    this.kind = kind;
    /** @type {Model[]} */
    this.all = [];
    /** @type {Model[]} */
    this.models = [];
    /** @type {Model | null} */
    this.current = null;
    this.chosen = false; // by the person: then nothing else takes its place
    this.onChange = onChange;
    this.select = byId("model-choice");
    this.get = el("button", {
      type: "button",
      class: "act plain",
      id: "get-model",
      on: { click: () => this.#fetch() },
    });
    this.bar = el("progress", { "aria-label": "Downloading" });
    this.says = el("span", { class: "quiet", id: "get-says", role: "status" });
    this.progress = el("div", { id: "get-progress", hidden: true }, this.bar, this.says);
    this.select.after(this.get, this.progress);
    this.select.addEventListener("change", () => {
      this.chosen = true;
      onChange(this.select.value);
    });
  }

  /**
   * Ask the server which models there are.
   * @returns {Promise<Model[]>}
   */
  async load() {
    /** @type {Models} */
    const { models, may_load } = await getJSON("/api/models");
    this.all = models;
    const known = models.filter((model) => model.kind === this.kind);
    this.models = may_load ? known : known.filter(({ state }) => state !== "available");
    return this.models;
  }

  /**
   * Find the page for a stored explanation: {kind, path, name}.
   * @param {{model: string, input?: ModelInput, top?: Target[]}} options
   * @returns {{kind: string, path: string, name: string}}
   */
  pageOf({ model, input, top = [] }) {
    const read =
      input?.kind === "image" && top.some((answer) => answer.prompt !== undefined && answer.prompt !== null)
        ? "clip"
        : input?.kind === "text" && input.molecule
          ? "molecule"
          : input?.kind;
    const kind = read ?? this.all.find((candidate) => candidate.name === model)?.kind ?? this.kind;
    return { kind, ...PAGES[kind] };
  }

  /**
   * The well-known model of the hub that is worth downloading first, unless it is here already.
   * @returns {Model | undefined}
   */
  get recommended() {
    return this.models.find((model) => model.recommended && (model.state === "available" || model.state === "failed"));
  }

  /**
   * The name of the model that a page begins with: one that is usable, the default first.
   * @returns {string | undefined}
   */
  get preferred() {
    const usable = this.models.filter(isUsable);
    return (
      usable.find((model) => model.default) ??
      usable[0] ??
      this.models.find((model) => model.default) ??
      this.models[0]
    )?.name;
  }

  /**
   * The name of the model for an input: `name` where it is loaded and the person chose no other; else `other`. A model
   * that does not ship with Vitrine is on the page because the person brought or chose it, also where only the link of
   * an explanation says so: it is asked about every input, samples too.
   * @param {string | null} name
   * @param {string | null} other
   * @returns {string | null}
   */
  fitting(name, other) {
    const isBrought = this.all.some((model) => model.name === other && model.embedded === false);
    const suits =
      !this.chosen && !isBrought && this.models.some((model) => model.name === name && model.state === "loaded");
    return suits ? name : other;
  }

  /**
   * `name`, where a model of that name is loaded or about to be; else undefined.
   * @param {string | undefined} name
   * @returns {string | undefined}
   */
  usable(name) {
    return this.models.find((model) => model.name === name && isUsable(model))?.name;
  }

  /**
   * The name of the model that knows everyday photos, for pictures that people bring; undefined where there is none.
   * @returns {string | undefined}
   */
  get forPhotos() {
    return this.models.find((model) => model.photos)?.name;
  }

  /**
   * The name of the first loaded model that takes sounds; undefined where there is none.
   * @returns {string | undefined}
   */
  get forSounds() {
    return this.models.find(({ name, state }) => state === "loaded" && this.takesSounds(name))?.name;
  }

  /**
   * Return whether the model of this name takes clips.
   * @param {string | null | undefined} name
   * @returns {boolean}
   */
  takesClips(name) {
    return this.#has(name, "frames");
  }

  /**
   * Return whether the model of this name takes sounds.
   * @param {string | null | undefined} name
   * @returns {boolean}
   */
  takesSounds(name) {
    return this.#has(name, "sound_rate");
  }

  /**
   * Return whether a fact is known of the model of this name.
   * @param {string | null | undefined} name
   * @param {"frames" | "sound_rate"} fact
   */
  #has(name, fact) {
    return Boolean(this.all.find((model) => model.name === name)?.details[fact]);
  }

  /**
   * The title of the model of this name.
   * @param {string} name
   * @returns {string}
   */
  titleOf(name) {
    return this.models.find((model) => model.name === name)?.title ?? name;
  }

  /**
   * The title of a model where no other has the same, else its name, so that the two can be told apart.
   * @param {string} name
   * @returns {string}
   */
  shownName(name) {
    const title = this.titleOf(name);
    return this.models.filter((model) => model.title === title).length > 1 ? name : title;
  }

  /**
   * Resolves to the model called `name`, once it is loaded. Rejects with a Problem where it cannot be had.
   * @param {string} name
   * @returns {Promise<Model>}
   */
  async ready(name) {
    if (this.all.some((candidate) => candidate.name === name && candidate.state === "loading")) {
      await this.#loaded(name);
      await this.load(); // only now it is known what kind a folder's model is
    }
    const model = this.models.find((candidate) => candidate.name === name);
    if (!model) {
      const known = this.models.map((candidate) => ownName(candidate.name)).join(", ");
      throw new Problem({
        title: "Another model is needed",
        detail: name ? `“${ownName(name)}” is not a model for this page.` : "There is no model for this page.",
        send: known ? `Choose one of: ${known}` : "Load one on the Models page",
      });
    }
    if (model.state === "not-installed") {
      throw new Problem({
        title: `${ownName(name)} is not installed`,
        detail: model.problem?.detail,
        send: model.problem?.send,
      });
    }
    if (model.state !== "loaded") {
      throw new Problem({
        title: `${ownName(name)} is not loaded`,
        detail: model.problem?.detail,
        send: "Load it on the Models page, or choose another model",
      });
    }
    return model;
  }

  /**
   * Show which model answers.
   * @param {Model | null} [model]
   */
  show(model = this.current) {
    this.current = model;
    const loaded = this.models.filter((model) => model.state === "loaded");
    this.select.replaceChildren(
      ...loaded.map((model) =>
        el("option", { value: model.name, selected: model.name === this.current?.name }, this.shownName(model.name)),
      ),
    );
    if (this.current) this.select.title = `${this.current.name}: ${facts(this.current)}`;
    const { recommended } = this;
    this.get.hidden = !recommended;
    if (recommended) {
      const { title, name, description, megabytes, revision, downloaded } = recommended;
      const size = megabytes && !downloaded ? ` · ${megabytes}\u2009MB` : "";
      const source = `${name}${revision ? `, commit ${revision.slice(0, 7)}` : ""}`;
      const once = downloaded ? "It is on this server already." : "It is downloaded once and stays on this server.";
      this.get.textContent = `${downloaded ? "Load" : "Get"} ${title}${size}`;
      this.get.title = `${description} ${once} (${source})`;
    }
  }

  /**
   * Download the recommended model and explain the same input with it; where that cannot be, say why and leave all as
   * it is.
   */
  async #fetch() {
    const { name } = /** @type {Model} */ (this.recommended);
    const place = byId("results-problem");
    this.get.disabled = true;
    this.#tell({ text: "asking the hub" });
    this.progress.hidden = false;
    showProblem(place, null);
    try {
      await loadModel(name);
      await this.#loaded(name, (told) => this.#tell(told));
      await this.load();
      this.chosen = true;
      this.onChange(name);
    } catch (problem) {
      await this.load();
      this.show();
      showProblem(
        place,
        problem instanceof Problem ? problem : { title: `${name} could not be loaded`, detail: String(problem) },
      );
    } finally {
      this.get.disabled = false;
      this.progress.hidden = true;
    }
  }

  /**
   * Show how far the download is.
   * @param {LoadProgress} told
   */
  #tell({ text, fraction }) {
    this.says.textContent = text;
    if (fraction === undefined) this.bar.removeAttribute("value");
    else this.bar.value = fraction;
  }

  /**
   * Say why this model answers: what it was given, in words, and the names of its classes.
   * @param {boolean} isSample whether it was given a sample
   * @param {string[]} labels
   */
  explain(isSample, labels) {
    const { name, kind, embedded, photos, description, details } = /** @type {Model} */ (this.current);
    const ofPage = this.takesSounds(name) ? "a sound" : GIVEN[this.kind];
    const given = ofPage ?? (photos ? "a photo" : "a picture");
    const isOfSample = isSample && !ofPage && !photos;
    const why = this.chosen ? "You chose this model" : isOfSample ? "The model of this sample" : "";
    const purpose = kind === "image" && embedded && !photos ? ` ${description}` : ""; // what it is for, where that is not photos
    byId("model-why").textContent = modelLine(labels, this.kind === "clip", given, why, details?.task) + purpose;
  }

  /**
   * Resolves once a model is loaded; `tell` hears how far that is.
   * @param {string} name
   * @param {(told: LoadProgress) => void} [tell]
   */
  #loaded(name, tell = ({ text }) => (byId("model-why").textContent = loadingLine(name, text))) {
    return new Promise((resolve, reject) => {
      const path = `/api/models/events?name=${encodeURIComponent(name)}`;
      follow(
        path,
        { progress: tell, loaded: resolve, failed: (data) => reject(new Problem(data.problem ?? data)) },
        ["loaded", "failed"],
        reject,
      );
    });
  }
}
