// The question that a stored explanation answered.

import { sampleOf } from "../core/historylist.js";
import { classOf } from "../core/targets.js";
import { Input } from "../inputs/input.js";
import { isExample, keyOf } from "./tabmemory.js";

/** @import { Explanation, Wish } from "../core/types.js" */

/**
 * The parts of the question that a stored explanation answered, but for the model and whose tokens get the scores: a
 * picture that was only ever the example of a page is not the person's own.
 * @param {Pick<Explanation, "id" | "input" | "targets" | "at"> & {methods?: string[]}} stored
 * @param {string} kind
 * @returns {{input: Input, targets: Wish, at: string | null, reference: null, methods: string[]}}
 */
export function questionOf(stored, kind) {
  const [first] = stored.targets ?? [];
  const field = kind === "clip" ? "prompt" : "target";
  return {
    input: new Input({
      source: stored.id,
      sample: sampleOf(stored.id),
      isOwn: !isExample(keyOf(stored.input, stored.id)),
    }),
    targets: { [field]: stored.targets?.map(classOf) ?? null, against: first?.against, read: first?.read },
    at: stored.at ?? null,
    reference: null, // the server keeps it with the input
    methods: stored.methods ?? [],
  };
}
