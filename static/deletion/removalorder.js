// Which tokens a test removes first, by the map it tests.

/** @type {{[order: string]: string}} */
export const ORDER_NAMES = { most: "most relevant", least: "least relevant" };
