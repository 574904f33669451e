// The page "Your model": files are brought, looked at and opened, and the report of what they are is shown.

import "./frame.js";
import { follow, getJSON, Problem, send, sendJSON } from "../core/api.js";
import { addressOf, byId, count, el, say } from "../core/dom.js";
import { reportProblem, showProblem } from "../core/problems.js";
import { inPageWords, otherwise } from "../core/pagewords.js";
import { acceptDrops } from "../inputs/dropplace.js";
import { depthFold } from "../tools/depth.js";

/** @import {ModelLook, ModelPlace, Model, OpeningReport, ProblemDocument} from "../core/schemas.d.ts" */

/**
 * A file and its path inside the folder that it is from.
 * @typedef {{file: File, name: string}} Brought
 */

/** @type {{[kind: string]: [string, string]}} */
const ASKS = {
  image: ["/image", "Explain a picture with it"],
  clip: ["/prompt", "Ask it about a picture"],
  text: ["/text", "Explain a text with it"],
  molecule: ["/molecule", "Explain a molecule with it"],
};
/** @type {{[kind: string]: string}} what a table of many inputs answers */
const ASKS_MANY = {
  image: "Ask many pictures: where does it look?",
  text: "Ask several texts: which words does it rely on?",
};
/** @type {[string, string]} of a model that writes about pictures */
const ASKS_OF_PICTURES = ["/text", "Ask it about a picture"];
/** @type {{[part: string]: [string, string]}} of models that read one of these alone */
const ASKS_ALONE = {
  sound: ["/image", "Explain a sound with it"],
  video: ["/image", "Explain a clip with it"],
};
/**
 * The page for a model, and what can be asked there.
 * @param {OpeningReport} answer
 * @returns {[string, string]}
 */
function askOf({ kind, reads, reads_pictures }) {
  const [part] = reads ?? [];
  if (reads_pictures)
    return reads?.includes("text") ? ASKS_OF_PICTURES : ["/text", `Ask it about a ${part ?? "picture"}`];
  return (reads?.length === 1 && ASKS_ALONE[part]) || ASKS[kind ?? "image"];
}
/** @type {{[state: string]: string}} */
const MARKS = { passed: "✓", failed: "✗", "not asked": "–" };
const MOST_FILES = 2000;
/**
 * The stages from files to a model: the words while each goes on, and after it.
 * @type {[string, string][]}
 */
const STAGES = [
  ["Sending", "Received"],
  ["Reading", "Read"],
  ["Finding the architecture", "Architecture found"],
  ["Opening", "Opened"],
  ["Checking", "Checked"],
];
const [RECEIVED, READ, FOUND, OPENED, CHECKED] = STAGES.map((_, i) => i + 1);

/**
 * The place of the model: an upload, or a folder of the server.
 * @type {ModelPlace}
 */
let place = {};
let namesFile = "names.txt";
let namesRead = ""; // the names of classes that the files hold, one a line
/** A counter of starts: a result that an earlier start still waits for is dropped. */
let turn = 0;
let architecture = ""; // of the model, as its files say, its weights fit best or the person named it

/**
 * Show the progress: this many stages are done, and the next one goes on, waits for the person, or has failed.
 * @param {number} done
 * @param {"now" | "waits" | "failed"} [next]
 */
function showStages(done, next = "now") {
  const stages = STAGES.map(([doing, said], i) => {
    const state = i < done ? "done" : i === done ? next : "waits";
    const mark = { done: "✓", now: "…", failed: "✗", waits: "·" }[state];
    const isFound = i + 1 === FOUND && state === "done" && architecture;
    const text = isFound ? `Architecture: ${architecture}` : state === "now" ? doing : said;
    return el("li", { class: state }, el("span", { class: "mark", "aria-hidden": "true" }, mark), text);
  });
  byId("stages").replaceChildren(...stages);
  byId("stages").hidden = false;
  if (next === "now" && done < STAGES.length) say("status", STAGES[done][0]);
}

/**
 * Collect all files in what was dropped, through all folders.
 * @param {DataTransfer} transfer
 * @returns {Promise<Brought[]>}
 */
async function dropped(transfer) {
  const entries = [...transfer.items].map((item) => item.webkitGetAsEntry?.()).filter(Boolean);
  /** @type {Brought[]} */
  const found = [];
  /**
   * @param {any} entry a file or a folder; the types of the browser do not tell them apart
   * @param {string} path
   * @returns {Promise<void>}
   */
  const walk = async (entry, path) => {
    if (found.length > MOST_FILES) return;
    if (entry.isFile) {
      const file = await new Promise((resolve, reject) => entry.file(resolve, reject));
      found.push({ file, name: path + entry.name });
      return;
    }
    const reader = entry.createReader();
    for (;;) {
      const inside = await new Promise((resolve, reject) => reader.readEntries(resolve, reject));
      if (!inside.length) return;
      for (const child of inside) await walk(child, `${path}${entry.name}/`);
    }
  };
  for (const entry of entries) await walk(entry, "");
  return found;
}

/**
 * Send one file; `tell` hears how many bytes have gone.
 * @param {string} upload
 * @param {Brought} brought
 * @param {(bytes: number) => void} tell
 * @returns {Promise<void>}
 */
const sendFile = (upload, { file, name }, tell) =>
  new Promise((resolve, reject) => {
    const request = new XMLHttpRequest(); // fetch says nothing of how far it is
    request.open("PUT", addressOf(`/api/opening/${upload}/file?name=${encodeURIComponent(name)}`));
    request.upload.addEventListener("progress", (event) => tell(event.loaded));
    request.addEventListener("error", () =>
      reject(new Problem({ title: "The connection was lost", send: "Try again in a moment." })),
    );
    request.addEventListener("load", () => {
      if (request.status < 300) resolve();
      else reject(new Problem({ ...JSON.parse(request.responseText), status: request.status }));
    });
    request.send(file);
  });

/** @param {Brought[]} files */
async function bring(files) {
  const mine = startAnew();
  const total = files.reduce((sum, { file }) => sum + file.size, 0);
  if (!files.length) return;
  const bar = el("progress", { max: total || 1, value: 0, "aria-label": "Sending files" });
  byId("progress").replaceChildren(bar, el("span", { class: "quiet" }, `sending ${count(files.length, "file")}`));
  showStages(0);
  try {
    const { id } = await sendJSON("/api/opening", {});
    let gone = 0;
    for (const brought of files) {
      await sendFile(id, brought, (bytes) => {
        bar.value = gone + bytes;
      });
      gone += brought.file.size;
      if (mine !== turn) {
        await send(`/api/opening/${id}`, "DELETE");
        return;
      }
    }
    await look({ upload: id }, mine);
  } catch (problem) {
    if (mine === turn) failBringing(problem);
  }
}

/**
 * Say what went wrong before the model was opened.
 * @param {any} problem
 */
function failBringing(problem) {
  byId("stages").hidden = true;
  reportProblem(problem, byId("progress"));
}

/** Forget what was shown of an earlier model. */
function startAnew() {
  showProblem(byId("progress"), null);
  byId("progress").replaceChildren();
  byId("how").hidden = byId("result").hidden = byId("stages").hidden = true;
  return ++turn;
}

/**
 * Have the server read the files, and show what the model is.
 * @param {ModelPlace} where
 * @param {number} mine
 */
async function look(where, mine) {
  byId("progress").replaceChildren();
  showStages(RECEIVED);
  /** @type {ModelLook} */
  const seen = await sendJSON("/api/opening/look", where);
  if (mine !== turn) return;
  place = where;
  architecture = seen.architecture ?? "";
  showStages(seen.needs_architecture ? READ : FOUND, "waits");
  const classes = seen.classes ? `, ${count(seen.classes, "class", "classes")}` : "";
  const left = seen.left_out.length ? ` Ignored, as they hold no weights: ${seen.left_out.join(", ")}.` : "";
  byId("seen").textContent = `It is ${seen.what}${classes}.${seen.guess ? ` ${seen.guess}.` : ""}${left}`;
  byId("name").value = seen.name;
  const isFile = seen.architectures.length > 0 || seen.needs_architecture;
  byId("architecture-field").hidden = !isFile;
  byId("architecture").value = seen.architectures[0] ?? "";
  byId("architecture").required = seen.needs_architecture;
  byId("architectures").replaceChildren(
    ...[...seen.architectures, ...seen.suggestions].map((value) => el("option", { value })),
  );
  namesRead = seen.labels.join("\n");
  byId("labels").value = namesRead;
  byId("labels-note").hidden = !namesRead;
  byId("architecture-note").textContent = seen.needs_architecture
    ? "Its weights match no known architecture. Type its name: timm/<name>, hf/<organisation>/<name> or openclip/<model>."
    : seen.architectures.length > 1
      ? `Guessed from names and shapes. ${seen.architectures.slice(1, 4).join(", ")} have the same, but may prepare pictures differently.`
      : "Guessed from the names and shapes of the weights, or named in the file.";
  byId("how").hidden = false;
  byId("how").scrollIntoView({ block: "nearest" });
  say("status", "Read. Check the fields, then press Open it.");
}

/** The fields that hold something; names of classes are sent only where they were changed. */
const filled = () =>
  Object.fromEntries(
    ["name", "architecture", "labels", "base", "tokenizer", "output"]
      .map((id) => [id, byId(id).value.trim()])
      .filter(([id, value]) => value && !(id === "architecture" && byId("architecture-field").hidden))
      .filter(([id, value]) => id !== "labels" || value !== namesRead.trim()),
  );

async function openIt() {
  const mine = turn;
  byId("result").hidden = true;
  byId("report").replaceChildren();
  if (!byId("architecture-field").hidden) architecture = byId("architecture").value.trim();
  showStages(FOUND);
  byId("stages").scrollIntoView({ block: "nearest" });
  let done = FOUND;
  try {
    const { name, events } = await sendJSON("/api/opening/open", { ...place, ...filled(), labels_name: namesFile });
    /** @param {any} data of the event that ended it */
    const end = async (data) => {
      if (mine !== turn) return;
      /** @type {OpeningReport} */
      const answer = await getJSON(`/api/opening/report?name=${encodeURIComponent(name)}`);
      byId("result").hidden = false;
      showStages(answer.report ? CHECKED : done, "failed");
      if (answer.report) showReport(answer);
      else showFailure(answer, data.problem ?? data);
    };
    /** @param {any} problem */
    const broken = (problem) => {
      byId("result").hidden = false;
      showStages(done, "failed");
      reportProblem(problem, byId("report"));
    };
    /** @param {any} data */
    const ended = (data) => end(data).catch(broken);
    /** @param {{stage?: "opened" | "checked"}} data */
    const progress = ({ stage }) => {
      if (mine !== turn || !stage) return;
      done = { opened: OPENED, checked: CHECKED }[stage];
      showStages(done);
    };
    follow(events, { progress, loaded: ended, failed: ended }, ["loaded", "failed"], ended);
  } catch (problem) {
    byId("result").hidden = false;
    showStages(FOUND, "failed");
    reportProblem(problem, byId("report"));
  }
}

/** @param {OpeningReport} answer */
function showReport(answer) {
  const { name, kind, report } = answer;
  if (!report) return;
  const [page, text] = askOf(answer);
  const many = text === ASKS[kind ?? "image"][1] && ASKS_MANY[kind ?? "image"];
  const failed = report.checks.filter(({ state }) => state === "failed").length;
  const facts = report.facts.flatMap((fact) => [el("dt", {}, fact.name), el("dd", {}, fact.value)]);
  byId("report").replaceChildren(
    el("p", {}, el("strong", { class: "num" }, name), ` is open: ${report.opened}.`),
    el("dl", { class: "found" }, facts),
    el("p", {}, `Its output: ${report.reading}.`),
    ...report.notes.map((note) => el("p", {}, inPageWords(note))),
    el("h3", {}, failed ? "A check failed; its maps carry a warning" : "Checked on a sample"),
    el(
      "ul",
      { class: "checks" },
      report.checks.map((check) =>
        el(
          "li",
          { class: check.state === "failed" ? "failed" : "" },
          el("span", { class: "mark", role: "img", "aria-label": check.state }, MARKS[check.state]),
          el("span", {}, `${check.title} `, el("span", { class: "quiet" }, inPageWords(check.detail))),
        ),
      ),
    ),
    ...(report.guesses.length
      ? [
          el("h3", {}, "Guessed"),
          el(
            "ul",
            { class: "guesses" },
            report.guesses.map((guess) =>
              el(
                "li",
                {},
                `${guess.what}: `,
                el("span", { class: "quiet" }, [guess.why, otherwise(guess.argument)].filter(Boolean).join(". ")),
              ),
            ),
          ),
        ]
      : []),
    el(
      "p",
      { class: "go" },
      el("a", { class: "act", href: `${page}?model=${encodeURIComponent(name)}` }, text),
      many && el("a", { class: "act plain", href: `/collection?model=${encodeURIComponent(name)}` }, many),
    ),
    depthFold({ name, kind: kind ?? null }),
  );
  say("status", failed ? `${name} is open, and a check failed` : `${name} is open and passed its check`);
  byId("result").scrollIntoView({ block: "nearest" });
}

/**
 * @param {OpeningReport} answer
 * @param {ProblemDocument} problem
 */
function showFailure({ name, failure }, problem) {
  const copied = el("span", { class: "quiet", role: "status" });
  const copy = async () => {
    await navigator.clipboard.writeText(failure ?? "");
    copied.textContent = " copied";
  };
  byId("report").replaceChildren();
  showProblem(byId("report"), problem);
  if (failure)
    byId("report").append(
      el(
        "details",
        { class: "about" },
        el("summary", {}, "A report for somebody who can help"),
        el(
          "p",
          { class: "quiet" },
          "It holds versions, names and shapes of the weights, the question and the error. It holds no weights, paths or pictures.",
        ),
        el("pre", { tabIndex: 0 }, failure),
        el("button", { type: "button", class: "act plain", on: { click: copy } }, "Copy"),
        copied,
      ),
    );
  say("status", `${name} could not be opened`);
}

/** @param {any} input of files */
const chosen = (input) =>
  [...input.files].map((/** @type {File} */ file) => ({ file, name: file.webkitRelativePath || file.name }));

for (const id of ["files", "folder"])
  byId(id).addEventListener("change", (/** @type {any} */ event) => {
    const files = chosen(event.target);
    event.target.value = "";
    bring(files);
  });
acceptDrops(byId("drop"), (data) => dropped(data).then(bring));
byId("by-path").addEventListener("submit", (/** @type {any} */ event) => {
  event.preventDefault();
  const mine = startAnew();
  look({ path: byId("path").value.trim() }, mine).catch((problem) => mine === turn && failBringing(problem));
});
byId("labels-file").addEventListener("change", async (/** @type {any} */ event) => {
  const [file] = event.target.files;
  if (!file) return;
  byId("labels").value = await file.text();
  namesFile = file.name;
});
byId("labels").addEventListener("input", () => {
  byId("labels-note").hidden = true;
  if (!byId("labels").value.trim()) namesFile = "names.txt";
});
byId("how").addEventListener("submit", (/** @type {any} */ event) => {
  event.preventDefault();
  openIt();
});

/** List the models that were brought before and are open still, each with its report. */
async function listOpened() {
  const { models } = await getJSON("/api/models");
  const opened = models.filter((/** @type {Model} */ { name, state }) => name.startsWith("own/") && state === "loaded");
  byId("opened").hidden = !opened.length;
  byId("opened-list").replaceChildren(
    ...opened.map((/** @type {Model} */ { name, kind, details }) => {
      const { reads, picture_grid: grid } = details ?? {};
      const [page, text] = askOf({ name, state: "loaded", kind, reads, reads_pictures: Boolean(grid) });
      const show = async () => {
        /** @type {OpeningReport} */
        const answer = await getJSON(`/api/opening/report?name=${encodeURIComponent(name)}`);
        byId("result").hidden = false;
        showReport(answer);
      };
      const click = () => void show().catch((problem) => reportProblem(problem, byId("progress")));
      return el(
        "li",
        {},
        el("strong", { class: "num" }, name),
        " ",
        el("a", { class: "act plain", href: addressOf(`${page}?model=${encodeURIComponent(name)}`) }, text),
        " ",
        el("button", { type: "button", class: "act plain", on: { click } }, "Its report"),
      );
    }),
  );
}

listOpened().catch((problem) => reportProblem(problem, byId("progress")));
getJSON("/api/opening").then(
  ({ uploads, paths, why }) => {
    byId("bring").hidden = !uploads;
    byId("by-path").hidden = !paths;
    byId("refused").hidden = uploads;
    byId("refused").textContent = why ?? "";
  },
  (problem) => reportProblem(problem, byId("progress")),
);
