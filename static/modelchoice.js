// The models of one kind, in the head of the page.

import { follow, getJSON, Problem } from "./api.js";
import { byId, el } from "./dom.js";

const facts = ({ details = {}, device }) =>
  [details.grid && `${details.grid.join("×")} patches`, !details.grid && details.blocks && `${details.blocks} blocks`, device].filter(Boolean).join(" · ");

export class ModelChoice {
  constructor(kind, onChange) {
    Object.assign(this, { kind, models: [], current: null, chosen: false /* by the person: then nothing else takes its place */ });
    this.select = byId("model-choice");
    this.select.addEventListener("change", () => {
      this.chosen = true;
      onChange(this.select.value);
    });
  }

  /** Ask the server which models there are. */
  async load() {
    const { models } = await getJSON("/api/models");
    this.models = models.filter((model) => model.kind === this.kind);
    return this.models;
  }

  get preferred() {
    const usable = this.models.filter((model) => model.state === "loaded" || model.state === "loading");
    return (usable.find((model) => model.default) ?? usable[0] ?? this.models.find((model) => model.default) ?? this.models[0])?.name;
  }

  /** The name of the model for a picture that `name` would suit: that one where it is loaded and the person chose no other. */
  fitting(name) {
    const suits = !this.chosen && this.models.some((model) => model.name === name && model.state === "loaded");
    return suits ? name : this.current.name;
  }

  /** The name of the model that knows everyday photos, for pictures that people bring; undefined where there is none. */
  get forPhotos() {
    return this.models.find((model) => model.photos)?.name;
  }

  /** Make `name` the model of the page, waiting while it is being loaded. Rejects with a Problem where it cannot be had. */
  async use(name) {
    let model = this.models.find((one) => one.name === name);
    if (!model) {
      const known = this.models.map((one) => one.name).join(", ");
      throw new Problem({ title: "Another model is needed", detail: name ? `'${name}' is not a model for this page.` : "There is no model for this page.", send: known ? `Choose one of: ${known}` : "Load one on the Models page" });
    }
    if (model.state === "loading") {
      await this.#loaded(name);
      model = (await this.load()).find((one) => one.name === name);
    }
    if (model.state !== "loaded") {
      throw new Problem({ title: `${name} is not loaded`, detail: model.problem?.detail, send: "Load it on the Models page, or choose another model" });
    }
    this.current = model;
    this.show();
    return model;
  }

  show() {
    const names = this.models.filter((model) => model.state === "loaded").map((model) => model.name);
    this.select.replaceChildren(...names.map((name) => el("option", { value: name, selected: name === this.current?.name }, name)));
    this.select.hidden = names.length === 0;
    byId("model-facts").textContent = this.current ? ` ${facts(this.current)}` : "";
  }

  #loaded(name) {
    byId("model-facts").textContent = ` loading ${name}`;
    return new Promise((resolve, reject) => {
      const path = `/api/models/events?name=${encodeURIComponent(name)}`;
      const progress = ({ text }) => (byId("model-facts").textContent = ` loading ${name}: ${text}`);
      follow(path, { progress, loaded: resolve, failed: (data) => reject(new Problem(data.problem ?? data)) }, ["loaded", "failed"], reject);
    });
  }
}
