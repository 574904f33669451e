// A map outside the wall: a plate as on the page, that follows the same focus and the same controls.

import { say } from "./dom.js";
import { colourAll, Plate } from "./plate.js";
import { WordPlate } from "./words.js";

export class Figures {
  #plates = [];

  /** Plates in one group share a scale where the page's scale is shared. */
  constructor(bench) {
    this.bench = bench;
    bench.view.follow((now, before) => {
      if (now.grain !== before.grain) this.rebase();
      this.colour();
    });
    bench.focus.follow((value) => this.#plates.forEach((plate) => plate.mark(value)));
  }

  /** A plate with `caption` above it. `variant` is {title, signed, readout, rule} and what else a label shows. */
  make(variant, caption) {
    const stores = { focus: this.bench.focus, view: this.bench.view, onRead: (text) => say("reading", text) };
    const plate = this.bench.kind === "text" ? new WordPlate(variant, stores, caption) : new Plate(variant, stores, caption);
    plate.take.node.remove(); // it is not stored, so there is nothing to fetch
    plate.setBase(this.bench.wall.base);
    return plate;
  }

  /** Show these plates, [plate, map] each, and forget the others. */
  show(pairs) {
    this.#plates = pairs.map(([plate]) => plate);
    for (const [plate, map] of pairs) plate.show(map);
    this.colour();
    for (const plate of this.#plates) plate.mark(this.bench.focus.value);
  }

  /** The input is another, or is cut in another way. */
  rebase() {
    for (const plate of this.#plates) plate.setBase(this.bench.wall.base);
  }

  colour() {
    colourAll(this.#plates, this.bench.view.value.scale);
  }
}
