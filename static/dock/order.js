// Which tokens a test takes away first, by the map it tests.

export const FIRST = { most: "most relevant", least: "least relevant" };
