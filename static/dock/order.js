// Which tokens a test takes away first, by the map it tests.

/** @type {{[order: string]: string}} */
export const FIRST = { most: "most relevant", least: "least relevant" };
