// The ways to give a picture, or the frames of a clip: choose, drop or paste them, or take one with a phone.

import { el } from "../core/dom.js";

/**
 * Choose, take, drop or paste a picture, anywhere on the page; the buttons go to `root`. `onFiles(image)` gets the first
 * one; where `several` are taken and sent, all in the order of their names.
 * @param {HTMLElement} root
 * @param {(image: File | File[]) => void} onFiles
 * @param {() => boolean} [several]
 * @returns {{name: (what: "picture" | "clip" | "sound") => void}} what the way to choose one is called
 */
export function acceptPictures(root, onFiles, several = () => false) {
  const order = new Intl.Collator(undefined, { numeric: true });
  /** @param {FileList | null} files */
  const take = (files) => {
    if (!files?.length) return;
    const sent = [...files].sort((a, b) => order.compare(a.name, b.name));
    onFiles(several() && sent.length > 1 ? sent : files[0]);
  };
  /**
   * @param {string} text
   * @param {string} label
   * @param {{capture?: string}} [more]
   * @param {string} [className]
   */
  const way = (text, label, more = {}, className = "act") => {
    const field = el("input", {
      type: "file",
      accept: "image/*,.heic,.heif,.avif,.dcm,.wav",
      class: "hidden",
      tabIndex: -1,
      "aria-label": label,
    });
    for (const [name, value] of Object.entries(more)) field.setAttribute(name, value);
    field.addEventListener("change", () => {
      take(field.files);
      field.value = "";
    });
    const choose = () => {
      field.multiple = several();
      field.click();
    };
    return [el("button", { type: "button", class: className, on: { click: choose } }, text), field];
  };
  const camera = way("Take a photo", "Photo from the camera", { capture: "environment" }, "act plain camera");
  const [button, field] = way("Choose a picture", "Picture file");
  root.append(button, field, ...camera, el("span", { class: "quiet keyboard" }, "drop or paste one"));
  /** @param {DragEvent} event */
  const carriesFiles = (event) => event.dataTransfer?.types.includes("Files");
  let depth = 0;
  /** @param {boolean} on */
  const shade = (on) => document.body.classList.toggle("dropping", on);
  document.addEventListener("dragenter", (event) => carriesFiles(event) && shade(++depth > 0));
  document.addEventListener("dragleave", (event) => carriesFiles(event) && shade(--depth > 0));
  document.addEventListener("dragover", (event) => carriesFiles(event) && event.preventDefault());
  document.addEventListener("drop", (event) => {
    if (!carriesFiles(event)) return;
    event.preventDefault();
    shade(((depth = 0), false));
    take(/** @type {DataTransfer} */ (event.dataTransfer).files);
  });
  document.addEventListener("paste", (event) => {
    if (!event.clipboardData?.files.length) return;
    event.preventDefault();
    take(event.clipboardData.files);
  });
  return {
    name(what) {
      button.textContent = `Choose a ${what}`;
      field.setAttribute("aria-label", { picture: "Picture file", clip: "Files of a clip", sound: "Sound file" }[what]);
      camera[0].hidden = what === "sound";
    },
  };
}
