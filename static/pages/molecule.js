// The Molecule page: a molecule, whether it is mutagenic, and one plate a method with its atoms and bonds coloured.

import "./frame.js";
import { wordControls } from "../core/controls.js";
import { byId, count, el, svg } from "../core/dom.js";
import { plateName } from "../core/registry.js";
import { Input } from "../inputs/input.js";
import { outlines, radiusOf } from "../maps/molecules.js";
import { MoleculePlate } from "../plates/molecule.js";
import { ClassPage } from "../workbench/classpage.js";
import { Unsubmitted } from "../workbench/unsubmitted.js";

/**
 * @import { MoleculePart, Sample, TextInput } from "../core/schemas.js"
 * @import { Started } from "../core/types.js"
 * @import { PlateMaker } from "../plates/types.js"
 * @import { ClassSteps } from "../workbench/types.js"
 */

const field = byId("smiles");
const file = byId("file");
/** @type {string | null} */
let submitted = null; // what was sent last: it is asked before the answer begins
let isAsked = false; // a molecule of the person's own, until its answer begins
let isWritten = false; // since a molecule was last filled in or asked about: nothing may take its place
/** @type {Started | null} */
let started = null;

/** @param {Started} started */
function laidOut({ input }) {
  const read = /** @type {TextInput} */ (input);
  return { text: read.text ?? "", units: read.words, molecule: read.molecule };
}

/**
 * Outline the atoms of the drawing at which most maps are strongest: the sentence over the plates speaks of it.
 * @param {number[]} atoms
 */
function outlineAgreed(atoms) {
  const { molecule } = started ? laidOut(started) : {};
  for (const plate of workbench.plateSet.everyPlate) /** @type {any} */ (plate).markPeak?.(atoms);
  const drawing = byId("drawing").querySelector("svg");
  for (const ring of byId("drawing").querySelectorAll(".peak")) ring.remove();
  const places = molecule?.drawing?.places ?? [];
  drawing?.append(
    ...atoms
      .filter((atom) => places[atom])
      .map((atom) =>
        svg("circle", {
          class: "peak",
          cx: places[atom][0],
          cy: places[atom][1],
          r: radiusOf(/** @type {MoleculePart} */ (molecule)),
        }),
      ),
  );
}

/**
 * The drawing alone, and which groups are known to make molecules mutagenic.
 * @param {MoleculePart | undefined} molecule
 */
function showMolecule(molecule) {
  const drawing = molecule?.drawing;
  byId("drawing").replaceChildren(
    drawing
      ? svg(
          "svg",
          { viewBox: `0 0 ${drawing.size.join(" ")}`, role: "img", "aria-label": "The molecule" },
          outlines(drawing),
        )
      : "",
  );
  const groups = molecule?.toxicophores ?? [];
  /** @param {number[]} atoms */
  const outline = (atoms) => () => {
    for (const plate of workbench.plateSet.everyPlate) /** @type {any} */ (plate).outline?.(new Set(atoms));
  };
  byId("groups").replaceChildren(
    el(
      "p",
      { class: "quiet" },
      groups.length
        ? "Its groups known to cause mutations:"
        : "It has none of the eight groups known to cause mutations.",
    ),
    ...groups.map(({ name, atoms }) =>
      el(
        "button",
        {
          type: "button",
          class: "act plain",
          title: "Outline its atoms in every plate",
          on: { pointerenter: outline(atoms), focus: outline(atoms), pointerleave: outline([]), blur: outline([]) },
        },
        `${name} · ${count(atoms.length, "atom")}`,
      ),
    ),
  );
}

/** Say how many methods rank the known causes first, and which miss them. */
function tellCauses() {
  /** @type {any[]} */
  const plates = workbench.plateSet.all.filter(({ variant }) => variant.family !== "control");
  const judged = plates.filter(({ hits }) => hits);
  const missing = judged.filter(({ hits }) => 2 * hits.hits < hits.of);
  const names = missing.map(({ variant }) => plateName(variant)).join("; ");
  byId("causes").textContent = judged.length
    ? `${judged.length - missing.length} of ${judged.length} methods find at least half of these atoms.${names ? ` These miss them: ${names}.` : ""}`
    : "";
}

/**
 * Put a molecule that the page brings into the field, unless the person was faster.
 * @param {string | undefined} text
 */
function fill(text) {
  if (!isWritten) field.value = text ?? "";
}

/**
 * @param {Sample} sample
 * @param {string[] | null} [labels]
 * @param {boolean} [isOwn]
 */
function openSample(sample, labels = null, isOwn = true) {
  fill(sample.text);
  submitted = null;
  page.explain(new Input({ text: sample.text, sample: sample.id, isOwn }), labels, sample.model);
}

/** @param {string} text */
function explain(text) {
  isWritten = false;
  isAsked = true;
  submitted = text;
  page.explain(new Input({ text }), null);
}

/** @type {ClassSteps} */
const pageSteps = {
  reopen(stored) {
    fill(stored.input?.kind === "text" ? (stored.input.text ?? "") : "");
  },
  example() {
    const sample = workbench.exampleSample();
    if (!sample) return;
    workbench.plateSet.setBase({ text: sample.text ?? "", units: [] });
    openSample(sample, workbench.address.targets, false);
  },
  // the answer of the molecule before would stand beside one that has none
  refused: () => byId("main").classList.toggle("refused", isAsked),
  started(info, job, isNew) {
    started = info;
    isAsked = false;
    byId("main").classList.remove("refused");
    const { text, molecule } = /** @type {TextInput} */ (info.input);
    fill(text ?? ""); // of a drawing the SMILES
    if (submitted !== null) submitted = field.value;
    unsubmitted.look();
    showMolecule(molecule);
    if (!isNew) return;
    workbench.plateSet.setBase(laidOut(info));
    page.compare.cut();
    workbench.plateSet.colour();
  },
  openSample(sample) {
    isWritten = false;
    openSample(sample);
  },
};

/** @type {PlateMaker} */
const makePlate = (variant, stores, target) => new MoleculePlate(variant, stores, target);
const page = new ClassPage("molecule", pageSteps, { baseOf: (id, info) => laidOut(info), makePlate, many: false });
const { workbench } = page;
byId("controls").append(...wordControls(workbench.view, false));
field.addEventListener("input", () => (isWritten = true));
byId("writing").addEventListener("submit", (/** @type {Event} */ event) => {
  event.preventDefault();
  explain(field.value);
});
byId("choose-file").addEventListener("click", () => file.click());
file.addEventListener("change", async () => {
  const [chosen] = file.files ?? [];
  if (chosen) explain(await chosen.text());
  file.value = "";
});
const unsubmitted = new Unsubmitted(
  byId("writing"),
  () => started !== null && ![laidOut(started).text, workbench.question.input?.text, submitted].includes(field.value),
  "These maps are of the molecule before your change. Press “Explain this molecule” for new ones.",
);

workbench.agreed.follow(({ patches }) => outlineAgreed(patches));
workbench.subject.follow(({ done }) => (done ? tellCauses() : (byId("causes").textContent = "")));

workbench.open();
