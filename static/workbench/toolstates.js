// How what can be opened on a page stands (drawers, the deletion test, the words for editing): a store each, kept in
// the address.

import { Store } from "../core/state.js";

const PART = /^([a-z]+)\.([a-z]+)$/; // "mixer.method"

/** The tools that are open on a page, and their states. */
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
    for (const tool of query.getAll("open")) addPart(tool, { open: true });
    for (const [name, value] of query) {
      const [, tool, part] = PART.exec(name) ?? [];
      if (tool) addPart(tool, { [part]: value });
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
   * The parameters of the address for the open tools, [name, value] each.
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
