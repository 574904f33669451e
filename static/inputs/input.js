// What a question is about: a picture, a text, or the input of an explanation that the server keeps.

/**
 * One of a file, a way to get it, a text and the id of an explanation; and what is known of it.
 * @typedef {object} GivenInput
 * @property {Blob | Blob[] | null} [image]
 * @property {(() => Promise<Blob>) | null} [fetch]
 * @property {string | null} [text]
 * @property {string | null} [second] of two texts that are read together
 * @property {object} [more] sent too
 * @property {string | null} [source]
 * @property {number[] | null} [crop]
 * @property {string} [window]
 * @property {string | null} [sample]
 * @property {boolean} [isOwn]
 */

/** The input of a question. */
export class Input {
  /** @type {Promise<Blob> | undefined} */
  #fetching;

  /**
   * One of `image` (a file, or one for each frame of a clip), `fetch` (gets the file when it is needed), `text` and
   * `source` (the id of an explanation of the same input).
   * crop    the part of the picture that the model is shown, [x0, y0, x1, y1]; null for what it takes by itself,
   *         undefined for what the
   *         explanation of `source` was asked with
   * window  "level,width" of greys of more than 8 bits; "" for that of the file, undefined as for the crop
   * sample  the id of the sample that it is
   * isOwn   whether the person gave it; the example that a page begins with is not
   * @param {GivenInput} options
   */
  constructor({
    image = null,
    fetch = null,
    text = null,
    second = null,
    more = {},
    source = null,
    crop = undefined,
    window = undefined,
    sample = null,
    isOwn = true,
  }) {
    this.image = image;
    this.fetch = fetch;
    this.text = text;
    this.second = second;
    this.more = more;
    this.source = source;
    this.crop = crop;
    this.window = window;
    this.sample = sample;
    this.isOwn = isOwn;
  }

  /**
   * Resolves to the fields to send: the server keeps what it was sent before, bit for bit, and only gets its id again.
   * @returns {Promise<{[name: string]: any}>}
   */
  async fields() {
    const part = {
      ...(this.crop === undefined ? {} : { crop: this.crop?.join(",") ?? "" }),
      ...(this.window === undefined ? {} : { window: this.window }),
    };
    if (this.source) return { source: this.source, ...this.more, ...part };
    return (await this.sent()) ?? {};
  }

  /**
   * Resolves to the input itself; null where this page never had it.
   * @returns {Promise<{text?: string | null, text_pair?: string | null, image?: Blob | Blob[]} | null>}
   */
  async sent() {
    if (this.text !== null) return { text: this.text, text_pair: this.second, ...this.more };
    this.image ??= (await (this.#fetching ??= this.fetch?.())) ?? null;
    return this.image && { image: this.image, ...this.more };
  }
}
