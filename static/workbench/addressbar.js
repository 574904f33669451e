// The address of the page is its state: written as that changes, and where a step of the browser's history leads to
// another one, the page is opened again.

import { writeAddress } from "../core/state.js";

const PAUSE = 200; // milliseconds: a browser bears only so many changes of the address

/** The state of the page in the address bar. */
export class AddressBar {
  #written = location.search; // as this page knows it
  #timer = 0;
  isLeaving = false; // for another step of the browser's history

  constructor() {
    addEventListener("popstate", () => {
      if (location.search === this.#written) return; // a link within the page
      this.isLeaving = true;
      location.reload();
    });
  }

  /**
   * Write the state, see `writeAddress`; nothing once the page is left.
   * @param {{[name: string]: any}} ids
   * @param {{[name: string]: any}} view
   * @param {number} focus
   * @param {string[][]} tools
   * @param {boolean} isStep
   */
  write(ids, view, focus, tools, isStep) {
    if (!this.isLeaving) this.#written = writeAddress(ids, view, focus, tools, isStep);
  }

  /**
   * Call `write` once nothing has changed for a moment.
   * @param {() => void} write
   */
  soon(write) {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(write, PAUSE);
  }
}
