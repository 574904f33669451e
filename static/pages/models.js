// The Models page: what is there, what can be had, and how loading goes.

import "./frame.js";
import { follow, getJSON, loadModel } from "../core/api.js";
import { byId, el, say } from "../core/dom.js";
import { reportProblem, showProblem } from "../core/problems.js";
import { ownName } from "../core/targets.js";
import { openModel } from "./openmodel.js";

/**
 * @import { Problem } from "../core/api.js"
 * @import { LoadProgress, Model, Models } from "../core/schemas.js"
 */

/** @type {{[name: string]: string}} */
const KINDS = {
  image: "image classifier",
  clip: "image and prompt",
  text: "text classifier",
  molecule: "molecule classifier",
};
/**
 * The kind of a model in words.
 * @param {Model} model
 */
function kindOf({ kind, details }) {
  if (details.sound_rate && !details.picture_grid) return "sound classifier";
  if (details.frames) return "video classifier";
  if (details.picture_grid && !details.reads?.includes("text"))
    return `writes from ${details.reads?.includes("sound") ? "sounds" : "pictures"}`;
  if (details.picture_grid) return "writes about pictures";
  if (details.task) return details.task.replaceAll("-", " ");
  return KINDS[String(kind)];
}

/** @type {{[name: string]: string}} */
const STATES = {
  loaded: "loaded",
  loading: "loading",
  available: "not loaded",
  failed: "could not be loaded",
  "not-installed": "not installed",
};
const ON_DISK = "on this server, not loaded";
/** The type of the problem of a model that needs an optional package. */
const NOT_INSTALLED = "urn:vitrine:problem:not-installed";
const following = new Set();
let mayLoad = true; // whether models of the hub can be had

/**
 * The size of a model in words, as far as it is known.
 * @param {Model} model
 */
function sizeOf({ details, megabytes }) {
  if (details.parameters)
    return `${(details.parameters / 1e6).toFixed(1)} million parameters, ${details.blocks} blocks`;
  return megabytes ? `a download of ${megabytes}\u2009MB` : "size known after loading";
}

/**
 * Where the weights of a loaded model are, in words.
 * @param {Model} model
 */
function placeOf({ resident }) {
  if (!resident) return null;
  const size = `${(resident.bytes / 1e6).toFixed(resident.bytes < 1e7 ? 1 : 0)}\u2009MB`;
  return resident.place === "device"
    ? `loaded, ${size} on ${resident.device}`
    : `${size} in the memory of the machine; moves to ${resident.device} when asked`;
}

/** @param {Model} model */
function card(model) {
  const { name, title, state, origin, revision, downloaded, megabytes } = model;
  const size = megabytes && !downloaded ? ` · ${megabytes}\u2009MB` : "";
  const ask = state !== "available" ? "Try again" : origin === "hub" && !downloaded ? `Get${size}` : "Load";
  const load =
    mayLoad &&
    ["available", "failed", "not-installed"].includes(state) &&
    el("button", { type: "button", class: "act plain", on: { click: () => load_(name, place) } }, ask);
  const place = el("div", { class: "loading" });
  const about = state === "loaded" && el("a", { class: "about-model", href: `/models/${name}` }, "About it");
  const node = el(
    "article",
    { class: "card", data: { name, state } },
    el("h3", {}, title || name),
    el(
      "p",
      { class: "name num", title: revision ? `commit ${revision}` : "" },
      revision ? `${name} @ ${revision.slice(0, 7)}` : name,
    ),
    el(
      "p",
      { class: "kind" },
      [kindOf(model), placeOf(model) ?? (downloaded && state === "available" ? ON_DISK : STATES[state])]
        .filter(Boolean)
        .join(" · "),
    ),
    el("p", { class: "size num" }, sizeOf(model)),
    el("p", {}, model.description),
    model.good_for ? el("p", { class: "good-for" }, el("strong", {}, "Good for "), `${model.good_for}.`) : null,
    place,
    el("div", { class: "give" }, openModel(model), load, about),
  );
  if (state === "not-installed") place.append(el("p", { class: "quiet" }, String(model.problem?.detail)));
  else if (model.problem) showProblem(place, model.problem);
  if (state === "loading") watch(name, place);
  return node;
}

/**
 * The card of a model on the page; undefined while there is none.
 * @param {string} name
 */
const cardOf = (name) =>
  [...document.querySelectorAll(".card")].find((node) => node.getAttribute("data-name") === name);

/**
 * Follow the loading of a model until it ends, then show the list again.
 * @param {string} name
 * @param {HTMLElement} place
 */
function watch(name, place) {
  if (following.has(name)) return;
  following.add(name);
  const bar = el("progress", { "aria-label": `Loading ${ownName(name)}` });
  const text = el("span", { class: "quiet" }, "waiting for its turn");
  place.replaceChildren(bar, text);
  const progress = (/** @type {LoadProgress} */ data) => {
    text.textContent = data.text;
    if (data.fraction === undefined || data.fraction === null) bar.removeAttribute("value");
    else bar.value = data.fraction;
  };
  /**
   * @param {string} message
   * @param {Problem} [problem]
   */
  const end = (message, problem) => () => {
    following.delete(name);
    say("status", message);
    place.replaceChildren();
    refresh().then(() => problem && showProblem(cardOf(name)?.querySelector(".loading") ?? byId("loading"), problem));
  };
  follow(
    `/api/models/events?name=${encodeURIComponent(name)}`,
    {
      progress,
      loaded: end(`${ownName(name)} is loaded`),
      failed: (data) =>
        data.problem?.type === NOT_INSTALLED
          ? end(`${ownName(name)} is not installed`)()
          : end(`${ownName(name)} could not be loaded`, data.problem ?? data)(),
    },
    ["loaded", "failed"],
    (problem) => end("the connection was lost", problem)(),
  );
}

/**
 * @param {string} name
 * @param {HTMLElement} place
 */
async function load_(name, place) {
  showProblem(place, null);
  showProblem(byId("loading"), null);
  say("status", `loading ${ownName(name)}`);
  try {
    const { name: taken } = await loadModel(name);
    await refresh();
    cardOf(taken)?.scrollIntoView({ block: "nearest" });
  } catch (problem) {
    say("status", "");
    reportProblem(problem, place);
  }
}

async function refresh() {
  /** @type {Models} */
  const { models, may_load } = await getJSON("/api/models");
  mayLoad = may_load;
  byId("load").hidden = !mayLoad;
  const kept = new Map([...document.querySelectorAll(".card")].map((node) => [node.getAttribute("data-name"), node]));
  for (const origin of ["inside", "hub", "yours"]) {
    const group = models.filter((model) => model.origin === origin);
    // a card whose loading is being followed stays, so that its progress goes on
    byId(origin).replaceChildren(
      ...group.map((model) => (following.has(model.name) && kept.get(model.name)) || card(model)),
    );
  }
  byId("known").replaceChildren(
    ...models.filter((model) => !model.embedded).map((model) => el("option", { value: model.name })),
  );
}

byId("load").addEventListener("submit", (/** @type {Event} */ event) => {
  event.preventDefault();
  const name = byId("name").value.trim();
  if (name) load_(name, byId("loading"));
  else
    showProblem(byId("loading"), {
      title: "No name",
      detail: "The field is empty.",
      send: "Type the name of a model, such as timm/vit_tiny_patch16_224",
    });
});
refresh().catch((problem) => showProblem(byId("loading"), problem));
