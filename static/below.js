// A part below the plates that is fetched and computed only once it is opened, and only while it is open.

export class Below {
  /** `make(root)` resolves to the part, which has `update()`; it is called when `node`, a <details>, is opened for the first time. */
  constructor(node, make) {
    Object.assign(this, { node, make, part: null, asked: false });
    node.addEventListener("toggle", () => this.update());
  }

  /** What the part shows has changed. */
  update() {
    if (!this.node.open || this.asked) return;
    this.asked = true; // one update for all changes of a moment
    requestAnimationFrame(async () => {
      this.part ??= await this.make(this.node.querySelector(".part"));
      this.asked = false;
      this.part.update();
      this.node.dataset.ready = "true";
    });
  }
}
