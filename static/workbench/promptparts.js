// What a prompt of the Text page has besides its text: a picture, for models that write about pictures, or a sound,
// where it is all that a model writes from, and a chat template. Fetched where such a model is chosen first.

import { byId, el, addStyleSheet } from "../core/dom.js";
import { Input } from "../inputs/input.js";
import { PictureField } from "../inputs/picturefield.js";
import { namesOf, picturesOf } from "../plates/pictureintext.js";

/**
 * @import { ModelDetails, PicturePart } from "../core/schemas.js"
 * @import { TextBase } from "../maps/types.js"
 */

/** The pictures that are given, and those which stand in the text on show. */
export class PromptParts {
  #isRead = false;
  #isAlone = false; // the picture or sound, with which no text is read
  /** @type {TextBase["picture"]} */
  picture; // those of the text on show, as plates lay them above the words

  /**
   * @param {{id: string | null}} workbench
   * @param {() => void} onGive
   */
  constructor(workbench, onGive) {
    this.workbench = workbench;
    this.styled = addStyleSheet("workbench/pictureintext.css");
    this.chat = el("input", { type: "checkbox", id: "chat-template" });
    this.template = el(
      "p",
      { hidden: true },
      el("label", { for: this.chat.id }, this.chat, " with the model’s chat template around it"),
    );
    byId("text").after(this.template);
    this.field = new PictureField(byId("prompt-picture"), onGive);
  }

  /**
   * Have a field for pictures where the model of these details reads one.
   * @param {ModelDetails | undefined} details
   */
  offer(details) {
    const wasRead = this.#isRead;
    this.#isRead = Boolean(details?.picture_grid);
    if (this.#isRead && !wasRead) this.chat.checked = true; // without it models that chat answer worse
    const reads = details?.reads ?? [];
    this.#isAlone = this.#isRead && !reads.includes("text");
    this.field.alone = !this.#isAlone ? null : reads.includes("sound") ? "sound" : "picture";
    byId("input-panel-title").textContent = !this.#isRead
      ? "Your text"
      : this.#isAlone
        ? `Your ${this.field.alone}`
        : "Your picture and text";
    byId("text").hidden = this.#isAlone;
    this.template.hidden = !details?.chat_template;
    this.field.readsVideos = Boolean(details?.reads_videos);
    byId("prompt-picture").hidden = !this.#isRead;
  }

  /** True where a picture was given and nothing was asked about it yet. */
  get isGiven() {
    return this.#isRead && this.field.files.length > 0;
  }

  /**
   * Return whether an input has a picture.
   * @param {Input} input
   */
  suffices({ image, source }) {
    return Boolean(image || (source && this.picture));
  }

  /**
   * The input to ask about: this text with the pictures that were given, else those on show, where the model reads one,
   * or with the template; null for the text alone.
   * @param {string} text
   */
  given(text) {
    const { files } = this.field;
    const isGiven = files.length > 0;
    const more = this.template.hidden || !this.chat.checked ? {} : { chat: true };
    if (!this.#isRead || !(isGiven || this.picture)) return "chat" in more ? new Input({ text, more }) : null;
    const image = files.length === 1 ? files[0] : [...files];
    return new Input({
      image: isGiven ? image : null,
      source: isGiven ? null : this.workbench.id,
      more: { ...(this.#isAlone ? {} : { text }), ...more, ...(this.field.isVideo ? { video: true } : {}) },
    });
  }

  /**
   * Show the pictures in the text of explanation `id`, whose answer has begun; `isNew`: another input than before.
   * @param {string} id
   * @param {PicturePart[]} pictures
   * @param {boolean} isNew
   */
  async started(id, pictures, isNew) {
    if (!pictures.length) {
      this.picture = undefined;
      if (!this.field.files.length) this.field.show(id, []); // those on show were of the answer before
      return;
    }
    this.field.show(id, namesOf(pictures));
    if (!isNew) return;
    await this.styled;
    const picture = await picturesOf(id, pictures);
    if (this.workbench.id === id) this.picture = picture; // else another came in between
  }
}
