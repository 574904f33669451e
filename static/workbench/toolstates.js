// How what can be opened on a page stands (drawers, the deletion test, the words for editing): a store each, kept in
// the address.

import { Store } from "../core/state.js";

/** What links of before 0.2 call these tools and parts of tools, which is read for one release more. */
const FORMER_NAMES = new Map([
  ["alike", "inputinteraction"],
  ["test", "deletion"],
  ["wordpatches", "promptinteraction"],
  ["edits.gone", "edits.removed"],
  ["mixer.readout", "mixer.method"],
  ["edits.put", "edits.replaced"],
]);
/** @param {string} name */
const currentName = (name) => FORMER_NAMES.get(name) ?? name;

const PART = /^([a-z]+)\.([a-z]+)$/; // "mixer.method"

/** What is open on a page, and how it stands. */
export class ToolStates {
  #fromAddress = new Map();
  #stores = new Map();

  /**
   * `onChange()` is called when any of them changes.
   * @param {() => void} onChange
   * @param {string} [search]
   */
  constructor(onChange, search = location.search) {
    this.onChange = onChange;
    /**
     * @param {string} tool
     * @param {object} part
     */
    const addPart = (tool, part) => this.#fromAddress.set(tool, { ...this.#fromAddress.get(tool), ...part });
    const query = new URLSearchParams(search);
    for (const tool of query.getAll("open")) addPart(currentName(tool), { open: true });
    for (const [name, value] of query) {
      const [, tool, part] = PART.exec(currentName(name)) ?? [];
      if (tool) addPart(currentName(tool), { [part]: value });
    }
  }

  /**
   * The store of a tool: {open: true} where it is open, and texts by name; what is as the tool begins is undefined. It
   * holds at first what the address says, which may be nothing that the tool knows.
   * @param {string} tool
   * @returns {Store<{[name: string]: any}>}
   */
  of(tool) {
    if (!this.#stores.has(tool)) {
      const store = new Store(this.#fromAddress.get(tool) ?? {});
      store.follow(this.onChange);
      this.#stores.set(tool, store);
    }
    return this.#stores.get(tool);
  }

  /**
   * What stands in the address for those that are open, [name, value] each.
   * @returns {string[][]}
   */
  get entries() {
    const open = [...this.#stores].filter(([, { value }]) => value.open);
    /** @param {[string, Store<any>]} entry */
    const parts = ([tool, { value }]) =>
      Object.entries(value)
        .filter(([part, text]) => part !== "open" && text !== undefined)
        .map(([part, text]) => [`${tool}.${part}`, text]);
    return [...open.map(([tool]) => ["open", tool]), ...open.flatMap(parts)];
  }
}
