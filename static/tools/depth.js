// Which parts of the model do the work? A form for inputs of one's own, and what a model's parts, heads and methods do
// on them.

import { getJSON, modelPath, Problem } from "../core/api.js";
import { count, el, percent, signedNumber, addStyleSheet, whole, svg } from "../core/dom.js";
import { reportProblem, showProblem } from "../core/problems.js";
import { ownName } from "../core/targets.js";
import { save } from "../export/saving.js";
import { stem } from "../export/titles.js";
import { Waiting } from "../progress/waiting.js";

/** @import { Depth, DepthOfPart, Estimate } from "../core/schemas.js" */

const LEAST = 8; // inputs, for intervals
const MOST = [16, 32, 64];
const MAPS = 8; // inputs whose maps and heads are compared
const ANSWERS_OF_A_MAP = 21; // what these count as
/** @type {{[verdict: string]: string}} */
const VERDICTS = { needed: "", better_without: "better without", idle: "idle", undecided: "not told" };
/** @type {{[verdict: string]: string}} */
const MEANINGS = {
  better_without: "The loss falls measurably without this part, so the model is better without it.",
  idle: "The loss stays the same without this part, also where other parts are replaced.",
  undecided: "These inputs are too few to tell whether the model needs this part.",
};
const WIDTH = 300; // of a bar's drawing, in its own units

/**
 * The fold "Which parts of the model do the work?" for a model.
 * @param {{name: string, kind: string | null}} model
 * @returns {HTMLDetailsElement}
 */
export function depthFold(model) {
  /** @type {DepthTool | null} */
  let tool = null;
  const open = async (/** @type {any} */ { target }) => {
    if (!target.open || tool) return;
    tool = new DepthTool(model);
    await addStyleSheet("tools/depth.css");
    target.append(tool.node);
  };
  return el(
    "details",
    { class: "about depth", on: { toggle: open } },
    el("summary", {}, "Which parts of the model do the work?"),
  );
}

class DepthTool {
  /** @type {File[]} */
  #files = [];
  /** @type {AbortController | null} */
  #asked = null;
  /** @type {number | null} */
  #blocks = null;
  #mostBytes = Infinity;

  /** @param {{name: string, kind: string | null}} model */
  constructor(model) {
    this.model = model;
    this.asking = new Waiting();
    this.problem = el("div");
    this.result = el("div", { class: "depth-result" });
    this.status = el("p", { class: "hidden", role: "status", "aria-live": "polite" });
    this.said = el("p", { class: "quiet said" });
    this.limit = el(
      "select",
      { "aria-label": "At most so many inputs", on: { change: () => this.#say() } },
      MOST.map((most) => el("option", { value: most, selected: most === 32 }, `at most ${most}`)),
    );
    this.go = el("button", { type: "submit", class: "act" }, "Measure");
    this.texts = this.#reads ? this.#area("Your texts, one a line", 5) : null;
    this.prompts = model.kind === "clip" ? this.#area("What they may show, one a line", 3) : null;
    const form = el(
      "form",
      { on: { submit: (event) => this.#submit(event) } },
      this.#reads ? this.texts?.field : this.#pictures(),
      this.prompts?.field,
      el("div", { class: "row" }, this.limit, this.go),
      this.said,
    );
    const lead = `Replace each part by its mean, and see what happens to the answers. On your own ${this.#unit}s, which are not kept.`;
    this.node = el(
      "div",
      {},
      el("p", { class: "quiet" }, lead),
      form,
      this.asking.node,
      this.problem,
      this.status,
      this.result,
    );
    this.#say();
    this.#learn();
  }

  get #reads() {
    return this.model.kind === "text" || this.model.kind === "molecule";
  }

  get #unit() {
    return this.model.kind === "molecule" ? "molecule" : this.#reads ? "text" : "picture";
  }

  /** Learn what the expected time depends on, and how much may be sent. */
  async #learn() {
    try {
      const [model, { limits }] = await Promise.all([getJSON(modelPath(this.model.name)), getJSON("/api/limits")]);
      this.#blocks = model.details?.blocks ?? null;
      this.#mostBytes = limits.upload.most;
      this.#say();
    } catch {
      // the form works without: the time is said once the first answers are there
    }
  }

  #pictures() {
    /** @param {object} more */
    const input = (more) =>
      el("input", {
        type: "file",
        class: "hidden",
        multiple: true,
        on: { change: (event) => this.#take(event.target) },
        ...more,
      });
    return el(
      "div",
      { class: "row" },
      el("label", { class: "act plain" }, "Choose pictures", input({ accept: "image/*" })),
      el("label", { class: "act plain" }, "Choose a folder", input({ webkitdirectory: true })),
    );
  }

  /**
   * @param {string} text
   * @param {number} rows
   */
  #area(text, rows) {
    const area = el("textarea", { rows, spellcheck: false, on: { input: () => this.#say() } });
    return { area, field: el("label", { class: "lines" }, text, area) };
  }

  /** @param {HTMLInputElement} input */
  #take(input) {
    this.#files = [...(input.files ?? [])].filter((file) => !file.type || file.type.startsWith("image/"));
    input.value = "";
    this.#say();
  }

  /** @param {HTMLTextAreaElement | undefined} area */
  #lines(area) {
    return (area?.value ?? "")
      .split("\n")
      .map((line) => line.trim())
      .filter(Boolean);
  }

  get #given() {
    return this.#reads ? this.#lines(this.texts?.area).length : this.#files.length;
  }

  /** The pictures that are sent: evenly taken, and no more than fit into one upload. */
  #chosen() {
    const most = Math.min(Number(this.limit.value), this.#files.length);
    const taken = Array.from(
      { length: most },
      (_, i) => this.#files[most < 2 ? 0 : Math.floor((i * (this.#files.length - 1)) / (most - 1))],
    );
    let bytes = 0;
    return taken.filter(({ size }) => (bytes += size) <= this.#mostBytes);
  }

  /** Say what was chosen, and what it will cost. */
  #say() {
    const given = this.#given;
    const taken = this.#reads ? Math.min(given, Number(this.limit.value)) : this.#chosen().length;
    const lacks = taken < LEAST;
    this.go.disabled = lacks;
    if (!given) this.said.textContent = `At least ${LEAST} ${this.#unit}s, of several classes.`;
    else if (lacks && given >= LEAST)
      this.said.textContent = `Only ${count(taken, this.#unit)} fit into one upload of ${whole(Math.round(this.#mostBytes / 1e6))} MB. Choose smaller ones, at least ${LEAST}.`;
    else if (lacks) this.said.textContent = `${count(given, this.#unit)}: choose at least ${LEAST}.`;
    else {
      const answers = this.#blocks && (2 * this.#blocks + 5) * taken + Math.min(MAPS, taken) * ANSWERS_OF_A_MAP;
      const cost = answers ? ` The model is asked about ${whole(round(answers))} times.` : "";
      this.said.textContent = `${taken < given ? `${taken} of ${count(given, this.#unit)}.` : `${count(given, this.#unit)}.`}${cost} The time left is said once it runs; you can stop it.`;
    }
  }

  /** @param {Event} event */
  async #submit(event) {
    event.preventDefault();
    this.#asked?.abort();
    const asked = new AbortController();
    this.#asked = asked;
    showProblem(this.problem, null);
    this.result.replaceChildren();
    this.status.textContent = "Measuring";
    this.node.setAttribute("aria-busy", "true");
    try {
      const found = await this.asking.ask("/api/depth", this.#form(), asked.signal);
      await this.#show(found);
    } catch (problem) {
      if (this.#asked === asked) this.status.textContent = "";
      if (problem instanceof Problem || problem.name !== "AbortError") reportProblem(problem, this.problem);
    } finally {
      if (this.#asked === asked) this.node.setAttribute("aria-busy", "false");
    }
  }

  #form() {
    const form = new FormData();
    form.append("model", this.model.name);
    form.append("limit", this.limit.value);
    for (const prompt of this.#lines(this.prompts?.area)) form.append("prompt", prompt);
    if (this.#reads) form.append("text", this.#lines(this.texts?.area).join("\n"));
    else for (const file of this.#chosen()) form.append("image", file, file.name);
    return form;
  }

  /** @param {Depth} found */
  async #show(found) {
    const json = new Blob([JSON.stringify(found, null, 1)], { type: "application/json" });
    const press = () => save(json, `${stem(ownName(found.model), "depth")}.json`);
    this.result.replaceChildren(
      ...drawn(found),
      el("button", { type: "button", class: "act plain", on: { click: press } }, "Save the numbers"),
    );
    this.status.textContent = `Measured on ${count(found.inputs, this.#unit)}`;
  }
}

/**
 * Two leading digits: no more exact than it is known.
 * @param {number} value
 */
const round = (value) => Number(value.toPrecision(2));

/**
 * What was found: sentences, then bars.
 * @param {Depth} found
 * @returns {Node[]}
 */
function drawn({ parts, heads, reading, agreement, notes, inputs }) {
  /** @type {[string, string, Node | null][]} */
  const sections = [
    ["Parts", parts.says, parts.parts.length ? partsTable(parts) : null],
    ["Heads", heads.says, headsTable(heads)],
    ["Reading each other", reading.says, reading.stay && shareBar("answers that stay", reading.stay, reading.chance)],
    ["Methods", agreement.says, agreement.correlation && shareBar("rank correlation", agreement.correlation, null)],
  ];
  return [
    el("p", { class: "quiet" }, [`On ${inputs} inputs. Lines are 95 % intervals.`, ...notes].join(" ")),
    ...sections.map(([title, says, figure]) => el("section", {}, el("h3", {}, title), el("p", {}, says), figure)),
  ];
}

/** @param {Depth["parts"]} parts */
function partsTable({ parts, attention, mlps, together }) {
  /** @type {[string, Estimate, DepthOfPart["verdict"] | null][]} */
  const rows = parts.map(({ name, rise, verdict }) => [name, rise, verdict]);
  /** @type {[string, Estimate | null][]} */
  const sums = [
    ["all attention", attention],
    ["all MLPs", mlps],
    ["all parts", together],
  ];
  for (const [name, rise] of sums) if (rise) rows.push([name, rise, null]);
  const ends = rangeOf(rows.map(([, rise]) => rise));
  const caption = "How much the loss rises without a part. At 0.7 the probability of the answer is halved.";
  return figureTable(
    caption,
    rows.map(([name, rise, verdict]) => ({
      name,
      estimate: rise,
      ends,
      value: signedNumber(rise.value, 2),
      mark: verdict ? VERDICTS[verdict] : "",
      title: verdict ? (MEANINGS[verdict] ?? "") : "",
      kind: verdict ?? "sum",
    })),
  );
}

/** @param {Depth["heads"]} heads */
function headsTable({ blocks }) {
  const rows = blocks.flatMap(({ block, similarity }) =>
    similarity
      ? [
          {
            name: `block ${block + 1}`,
            estimate: similarity,
            ends: rangeOf([similarity], 1),
            value: signedNumber(similarity.value, 2),
            mark: "",
            title: "",
            kind: "head",
          },
        ]
      : [],
  );
  return rows.length ? figureTable("How alike two heads of a block look. 1: at the same places.", rows) : null;
}

/**
 * @param {string} name
 * @param {Estimate} estimate
 * @param {number | null | undefined} chance
 */
function shareBar(name, estimate, chance) {
  const isShare = chance !== null && chance !== undefined;
  const value = isShare ? percent(estimate.value) : signedNumber(estimate.value, 2);
  return figureTable(null, [
    { name, estimate, ends: rangeOf([estimate], 1), value, mark: "", title: "", kind: "head", chance },
  ]);
}

/**
 * The ends of a scale that holds 0 and all intervals.
 * @param {Estimate[]} estimates
 * @param {number} [most]
 * @returns {[number, number]}
 */
const rangeOf = (estimates, most = 0) => [
  Math.min(0, ...estimates.map(({ low }) => low)),
  Math.max(most, ...estimates.map(({ high }) => high)) || 1,
];

/**
 * @typedef {{name: string, estimate: Estimate, ends: [number, number], value: string, mark: string, title: string,
 *   kind: string, chance?: number | null}} BarRow
 */

/**
 * @param {string | null} caption
 * @param {BarRow[]} rows
 */
const figureTable = (caption, rows) =>
  el(
    "table",
    { class: "depth-bars" },
    caption && el("caption", {}, caption),
    el(
      "tbody",
      {},
      rows.map((row) =>
        el(
          "tr",
          { class: row.kind },
          el("th", { scope: "row" }, row.name),
          el("td", {}, bar(row)),
          el("td", { class: "num", title: intervalOf(row.estimate) }, row.value),
          el("td", { class: "quiet", title: row.title }, row.mark),
        ),
      ),
    ),
  );

/** @param {Estimate} estimate */
const intervalOf = ({ low, high }) => `${signedNumber(low, 2)} to ${signedNumber(high, 2)}`;

/** @param {BarRow} row */
function bar({ estimate, ends: [least, most], chance }) {
  /** @param {number} value */
  const x = (value) => (WIDTH * (value - least)) / (most - least);
  const [zero, end] = [x(0), x(estimate.value)];
  return svg(
    "svg",
    { viewBox: `0 0 ${WIDTH} 14`, preserveAspectRatio: "none", role: "img", "aria-label": intervalOf(estimate) },
    svg("rect", { class: "bar", x: Math.min(zero, end), y: 3, width: Math.max(0.5, Math.abs(end - zero)), height: 8 }),
    svg("line", { class: "zero", x1: zero, x2: zero, y1: 0, y2: 14 }),
    svg("line", { class: "interval", x1: x(estimate.low), x2: x(estimate.high), y1: 7, y2: 7 }),
    chance === null || chance === undefined
      ? null
      : svg("line", { class: "chance", x1: x(chance), x2: x(chance), y1: 0, y2: 14 }),
  );
}
