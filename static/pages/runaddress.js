// What is chosen on the Leaderboard page stands in its address: the run, the column, the examples that are open.

const state = new URLSearchParams(location.search);

/**
 * What the address says, null where it says nothing.
 * @param {string} name
 * @returns {string | null}
 */
export const remembered = (name) => state.get(name);

/**
 * Keep what is chosen in the address; null takes it away.
 * @param {{[name: string]: string | null}} values
 */
export function remember(values) {
  for (const [name, value] of Object.entries(values)) {
    if (value) state.set(name, value);
    else state.delete(name);
  }
  const query = state.toString();
  history.replaceState(history.state, "", query ? `?${query}` : location.pathname);
}
