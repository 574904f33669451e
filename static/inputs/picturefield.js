// The picture that a vision-language model is asked about, with the text of its prompt. Fetched where such a model is
// chosen for the first time.

import { explanationPath } from "../core/api.js";
import { el } from "../core/dom.js";
import { acceptPictures } from "./pictures.js";

/** The field of a picture. */
export class PictureField {
  /** @type {File | null} a picture that was given and not yet asked about */
  file = null;

  /**
   * @param {HTMLElement} root
   * @param {() => void} onGive
   */
  constructor(root, onGive) {
    this.root = root;
    this.image = el("img", { alt: "", hidden: true });
    this.says = el(
      "p",
      { class: "quiet", role: "status" },
      "Give a picture, and write what the model is asked about it.",
    );
    const give = el("div", { class: "give" });
    acceptPictures(give, (given) => {
      const [file] = [given].flat();
      if (root.hidden) return;
      this.file = file;
      this.#render(URL.createObjectURL(file), "The picture that you gave");
      this.says.textContent = "Write what the model is asked about it.";
      onGive();
    });
    root.append(this.image, give, this.says);
  }

  /**
   * Show the picture of explanation `id`.
   * @param {string} id
   */
  show(id) {
    this.file = null;
    this.#render(`${explanationPath(id)}/input.png`, "The picture as the model saw it");
    this.says.textContent = "";
  }

  /**
   * @param {string} src
   * @param {string} alt
   */
  #render(src, alt) {
    if (this.image.src.startsWith("blob:")) URL.revokeObjectURL(this.image.src);
    Object.assign(this.image, { src, alt, hidden: false });
  }
}
