// The pictures that a vision-language model is asked about, with the text of its prompt. Fetched where such a model is
// chosen for the first time.

import { explanationPath } from "../core/api.js";
import { el } from "../core/dom.js";
import { most } from "../core/limits.js";
import { seenName } from "../maps/patches.js";
import { acceptPictures } from "./pictures.js";

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
    this.says = el(
      "p",
      { class: "quiet", role: "status" },
      "Give a picture, or several at once. Then write what the model is asked about them.",
    );
    const give = el("div", { class: "give" });
    acceptPictures(
      give,
      (given) => {
        if (root.hidden) return;
        this.#take([...(this.#isAdded ? this.files : []), ...[given].flat()]);
        this.#isAdded = false;
      },
      () => true,
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
    root.append(this.list, give, this.says);
  }

  #isAdded = false; // whether what is chosen next joins those that were given

  /**
   * Take these files as the pictures of the next question.
   * @param {File[]} files
   */
  #take(files) {
    this.files = files;
    this.#render(files.map((file) => URL.createObjectURL(file)));
    const all = files.length > 1 ? "them, in this order" : "it";
    const over = files.length > most("pictures") ? ` At most ${most("pictures")} can be sent.` : "";
    this.says.textContent = files.length ? `Write what the model is asked about ${all}.${over}` : "Give a picture.";
    this.onGive();
  }

  /**
   * Show the pictures of explanation `id`, which has this number of them.
   * @param {string} id
   * @param {number} count
   */
  show(id, count) {
    this.files = [];
    this.#render(Array.from({ length: count }, (_, i) => `${explanationPath(id)}/${seenName(i)}`));
    this.says.textContent = "";
  }

  /** @param {string[]} sources */
  #render(sources) {
    for (const image of this.list.querySelectorAll("img"))
      if (image.src.startsWith("blob:")) URL.revokeObjectURL(image.src);
    const isGiven = this.files.length > 0;
    const whose = isGiven ? "that you gave" : "as the model saw it";
    const several = sources.length > 1;
    this.list.replaceChildren(
      ...sources.map((src, i) => {
        const name = several ? `Picture ${i + 1}` : "The picture";
        const drop = () => this.#take(this.files.filter((_, j) => j !== i));
        return el(
          "li",
          {},
          el("img", { src, alt: `${name} ${whose}` }),
          several ? el("span", { class: "quiet" }, name) : null,
          several && isGiven
            ? el(
                "button",
                { type: "button", class: "act plain", "aria-label": `Leave out picture ${i + 1}`, on: { click: drop } },
                "×",
              )
            : null,
        );
      }),
    );
    this.list.hidden = !sources.length;
    this.list.classList.toggle("several", several);
    this.add.hidden = !isGiven;
  }
}
