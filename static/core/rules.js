// What backward rules are called: learnt from the API before anything is drawn.

const labels = new Map();

/**
 * Learn the names of `rules`, as GET /api/rules and GET /api/methods list them.
 * @param {{name: string, label: string}[]} rules
 */
export function learnRules(rules) {
  for (const { name, label } of rules) labels.set(name, label);
}

/**
 * The title of the rule `name`; null is a method that reads no backward signal.
 * @param {string | null} name
 * @returns {string}
 */
export const ruleName = (name) => (name ? (labels.get(name) ?? name) : "none needed");
