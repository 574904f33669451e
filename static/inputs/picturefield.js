// The pictures that a vision-language model is asked about, with the text of its prompt. Fetched where such a model is
// chosen for the first time.

import { explanationPath } from "../core/api.js";
import { el } from "../core/dom.js";
import { most } from "../core/limits.js";
import { seenName } from "../maps/patches.js";
import { acceptPictures } from "./pictures.js";

const ANIMATIONS = ["image/gif", "image/webp", "image/png", "image/apng"]; // or pictures

/** The field of the pictures of a prompt. */
export class PictureField {
  /** @type {File[]} those that were given and not yet asked about */
  files = [];

  /**
   * @param {HTMLElement} root
   * @param {() => void} onGive
   */
  constructor(root, onGive) {
    this.root = root;
    this.onGive = onGive;
    this.list = el("ol", { class: "given-pictures", hidden: true });
    this.says = el("p", { class: "quiet", role: "status" });
    const give = el("div", { class: "give" });
    this.ways = acceptPictures(
      give,
      (given) => {
        if (root.hidden) return;
        this.#take([...(this.#isAdded ? this.files : []), ...[given].flat()]);
        this.#isAdded = false;
      },
      () => !this.#alone,
    );
    const choose = /** @type {HTMLElement} */ (give.querySelector("button"));
    /** @type {HTMLElement} */
    this.add = el("button", { type: "button", class: "act plain", hidden: true }, "Add another");
    this.add.addEventListener("click", () => {
      choose.click(); // which clears the mark
      this.#isAdded = true;
    });
    choose.addEventListener("click", () => (this.#isAdded = false));
    choose.after(this.add);
    this.video = el("input", { type: "checkbox", id: "is-video" });
    this.video.addEventListener("change", () => this.#render(this.#sources));
    this.videoChoice = el(
      "p",
      { hidden: true },
      el("label", { for: this.video.id }, this.video, " these are the frames of a video"),
    );
    root.append(this.list, this.videoChoice, give, this.says);
  }

  readsVideos = false; // the model
  /** @type {"picture" | "sound" | null} what the model writes from, where it reads no text with it */
  #alone = null;

  /**
   * Say what to give: one picture or sound alone, or (null) pictures with a text.
   * @param {"picture" | "sound" | null} alone
   */
  set alone(alone) {
    if (alone !== this.#alone && this.files.length) this.#take([]);
    this.#alone = alone;
    this.ways.name(alone ?? "picture");
    this.says.textContent = alone
      ? `Give a ${alone}. Then press the button below.`
      : "Give a picture, or several at once. Then write what the model is asked about them.";
  }

  /** @type {string[]} */
  #sources = [];
  #isAdded = false; // whether what is chosen next joins those that were given

  /**
   * Whether the files that were given are a video: several of them, or an animation, and the person says so.
   */
  get isVideo() {
    return this.#mayBeVideo && this.video.checked;
  }

  get #mayBeVideo() {
    const { files } = this;
    return this.readsVideos && (files.length > 1 || (files.length === 1 && ANIMATIONS.includes(files[0].type)));
  }

  /**
   * Take these files as the pictures of the next question.
   * @param {File[]} files
   */
  #take(files) {
    this.files = files;
    if (files.length === 1) this.video.checked = this.readsVideos && files[0].type === "image/gif";
    this.#render(files.map((file) => URL.createObjectURL(file)));
    const all = files.length > 1 ? "them, in this order" : "it";
    const limit = most(this.readsVideos ? "frames_of_video" : "pictures");
    const over = files.length > limit ? ` At most ${limit} can be sent.` : "";
    const next = `Now press the button below.`;
    if (this.#alone) this.says.textContent = files.length ? next : `Give a ${this.#alone}.`;
    else
      this.says.textContent = files.length ? `Write what the model is asked about ${all}.${over}` : "Give a picture.";
    this.onGive();
  }

  /**
   * Show the pictures of explanation `id`, which are called so.
   * @param {string} id
   * @param {string[]} names
   */
  show(id, names) {
    this.files = [];
    this.#render(
      names.map((_, i) => `${explanationPath(id)}/${seenName(i)}`),
      names,
    );
    this.says.textContent = "";
  }

  /**
   * @param {string[]} sources
   * @param {string[]} [names]
   */
  #render(sources, names) {
    for (const src of this.#sources) if (src.startsWith("blob:") && !sources.includes(src)) URL.revokeObjectURL(src);
    this.#sources = sources;
    this.videoChoice.hidden = !this.#mayBeVideo;
    const isGiven = this.files.length > 0;
    const whose = isGiven ? "that you gave" : "as the model saw it";
    const several = sources.length > 1;
    this.list.replaceChildren(
      ...sources.map((src, i) => {
        const name = names?.[i] ?? (several ? `${this.isVideo ? "Frame" : "Picture"} ${i + 1}` : "The picture");
        const drop = () => this.#take(this.files.filter((_, j) => j !== i));
        return el(
          "li",
          {},
          this.#alone === "sound" && isGiven
            ? el("span", {}, this.files[i].name)
            : el("img", { src, alt: `${name} ${whose}` }),
          several ? el("span", { class: "quiet" }, name) : null,
          several && isGiven
            ? el(
                "button",
                {
                  type: "button",
                  class: "act plain",
                  "aria-label": `Leave out ${name.toLowerCase()}`,
                  on: { click: drop },
                },
                "×",
              )
            : null,
        );
      }),
    );
    this.list.hidden = !sources.length;
    this.list.classList.toggle("several", several);
    this.add.hidden = !isGiven || this.#alone !== null;
  }
}
