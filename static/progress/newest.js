// One question at a time: a newer one ends the one before, whose answer nobody waits for any more.

/** What is asked last, of all that was asked through this object. */
export class Newest {
  /** @type {AbortController | null} */
  #asking = null;

  /**
   * End what was asked before, and ask. The answer is undefined, and no problem is told, where a newer question came
   * meanwhile.
   * @template T
   * @param {(signal: AbortSignal) => Promise<T>} ask
   * @returns {Promise<T | undefined>}
   */
  async ask(ask) {
    this.#asking?.abort();
    const { signal } = (this.#asking = new AbortController());
    try {
      const answer = await ask(signal);
      return signal.aborted ? undefined : answer;
    } catch (problem) {
      if (!signal.aborted) throw problem;
      return undefined;
    }
  }
}
