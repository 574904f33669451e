// The walls of Image and Text: one plate a method where one class is explained, a row a method where there are several.

import { number, percent, say } from "./dom.js";
import { Wall } from "./plate.js";
import { Versus } from "./versus.js";

/** What the model says of a class, under its name. */
const told = ({ logit, probability, against }) =>
  against ? `logit ${number(logit)} above “${against}”` : `logit ${number(logit)}${probability === undefined ? "" : ` · ${percent(probability)}`}`;

export function wallsOf(bench, makePlate) {
  const options = { focus: bench.focus, view: bench.view, onRead: (text) => say("reading", text), ...(makePlate ? { makePlate } : {}) };
  const root = document.getElementById("plates");
  return { options, single: new Wall(root, options), versus: new Versus(root, { ...options, same: "The same map for every class." }) };
}

/** The wall for an explanation: `info` has its {targets, input}; `compare` is what may set another model beside it. */
export function wallFor({ targets = [], input }, { single, versus }, compare) {
  if (targets.length < 2) return compare.isOn ? compare.wall : single;
  versus.content = input?.tokens ? input.tokens.map((token) => !token.special) : null;
  versus.read = targets[0].read ?? "logit";
  versus.setTargets(targets, targets.map(told));
  return versus;
}
