// What a prompt of the Text page has besides its text: a picture, for models that write about pictures, and a chat
// template. Fetched where such a model is chosen for the first time.

import { byId, el, addStyleSheet } from "../core/dom.js";
import { Store } from "../core/state.js";
import { Input } from "../inputs/input.js";
import { PictureField } from "../inputs/picturefield.js";
import { pictureOf } from "../plates/pictureintext.js";

/**
 * @import { ModelDetails, PicturePart } from "../core/schemas.js"
 * @import { TextBase } from "../maps/types.js"
 */

/** The picture that is given, and that which stands in the text on show. */
export class PromptParts {
  #isRead = false;
  /** @type {TextBase["picture"]} */
  picture; // of the text on show, as plates lay it above the words

  /**
   * @param {{id: string | null}} workbench
   * @param {() => void} onGive
   */
  constructor(workbench, onGive) {
    this.workbench = workbench;
    this.focus = new Store({ at: -1, locked: false }); // of patches
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
   * Have a field for the picture where the model of these details reads one.
   * @param {ModelDetails | undefined} details
   */
  offer(details) {
    this.#isRead = Boolean(details?.picture_grid);
    this.template.hidden = !details?.chat_template;
    byId("prompt-picture").hidden = !this.#isRead;
  }

  /** True where a picture was given and nothing was asked about it yet. */
  get isGiven() {
    return this.#isRead && this.field.file !== null;
  }

  /**
   * Return whether an input has a picture.
   * @param {Input} input
   */
  suffices({ image, source }) {
    return Boolean(image || (source && this.picture));
  }

  /**
   * The input to ask about: this text with the picture that was given, else that on show, where the model reads one, or
   * with the template; null for the text alone.
   * @param {string} text
   */
  given(text) {
    const { file } = this.field;
    const more = this.template.hidden || !this.chat.checked ? {} : { chat: true };
    if (!this.#isRead || !(file || this.picture)) return "chat" in more ? new Input({ text, more }) : null;
    return new Input({ image: file, source: file ? null : this.workbench.id, more: { text, ...more } });
  }

  /**
   * Show the picture in the text of explanation `id`, whose answer has begun; `isNew`: another input than before.
   * @param {string} id
   * @param {PicturePart | undefined} part
   * @param {boolean} isNew
   */
  async started(id, part, isNew) {
    if (!part) return void (this.picture = undefined);
    this.field.show(id);
    if (!isNew) return;
    await this.styled;
    const picture = await pictureOf(id, part, this.focus);
    if (this.workbench.id !== id) return; // another came in between
    this.picture = picture;
    this.focus.set({ at: -1, locked: false });
  }
}
