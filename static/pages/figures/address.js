// What is chosen on the Leaderboard page stands in its address: the run, the column, the examples that are open.

const state = new URLSearchParams(location.search);

/**
 * The value of a parameter in the address, null where it has none.
 * @param {string} name
 * @returns {string | null}
 */
export const remembered = (name) => state.get(name);

/**
 * Store the choices in the address; null removes one.
 * @param {{[name: string]: string | null}} values
 */
export function remember(values) {
  for (const [name, value] of Object.entries(values)) {
    if (value) state.set(name, value);
    else state.delete(name);
  }
  const query = state.toString();
  history.replaceState(history.state, "", `${location.pathname}${query && `?${query}`}${location.hash}`);
}
