// The methods of a model: read-outs with every rule, what each pair is called, and why one cannot run.

/** What is shown where there is room for one map. */
export const SHOWN = "fullgrad_plus:libra";

/** A spec without its options. */
export const bare = (spec) => spec.split("?")[0];

export class Registry {
  /** As GET /api/methods gives it. */
  constructor({ methods = [], variants = [] } = {}) {
    this.methods = methods;
    this.usual = variants.filter((variant) => variant.default && !variant.reason).map((variant) => variant.spec);
    this.pairs = new Map(); // spec -> what a plate says of it, in the fixed order
    for (const method of methods) {
      for (const pair of method.pairs) this.pairs.set(pair.spec, { ...method, ...pair, readout: method.name, place: this.pairs.size });
    }
  }

  /** How many pairs can run. */
  get size() {
    return [...this.pairs.values()].filter((pair) => !pair.reason).length;
  }

  runs(spec) {
    return this.pairs.get(bare(spec))?.reason === null;
  }

  /** What a plate shows of a spec, with or without options; null for one that is not known. */
  plate(spec) {
    const pair = this.pairs.get(bare(spec));
    return pair ? { ...pair, spec, title: spec === pair.spec ? pair.title : `${pair.title} (${spec.slice(pair.spec.length + 1)})` } : null;
  }

  /** These specs as plates, in the fixed order. */
  plates(specs) {
    const known = specs.map((spec) => this.plate(spec)).filter(Boolean);
    return known.sort((a, b) => a.place - b.place || specs.indexOf(a.spec) - specs.indexOf(b.spec));
  }
}
