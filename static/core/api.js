// The calls of the API. Every failure is a Problem that says what was wrong and what to send instead.

import { addressOf } from "./dom.js";

/**
 * @import { TextInput } from "./schemas.js"
 * @import { ProblemFields } from "./types.js"
 */

/** An error of the API: what was wrong, and what to send instead. */
export class Problem extends Error {
  /**
   * `retryAfter`: seconds after which the same may be asked again, where the server says so.
   * @param {ProblemFields & {retryAfter?: number}} options
   */
  constructor({ type, title, detail, send, status, retryAfter = 0 }) {
    super(detail || title);
    this.retryAfter = retryAfter;
    this.type = type;
    this.title = title;
    this.detail = detail;
    this.send = send;
    this.status = status;
  }

  /**
   * Return whether this is the problem that the server calls `slug`.
   * @param {string} slug
   * @returns {boolean}
   */
  isOf(slug) {
    return this.type === `urn:vitrine:problem:${slug}`;
  }
}

// Offsets into texts: the API counts characters (code points), strings of JavaScript are indexed by UTF-16 code units,
// of which a character beyond U+FFFF, such as most emoji, has two.

const BEYOND = /[\u{10000}-\u{10FFFF}]/u;

/**
 * The index of the first code unit of each character of a text, and of its end.
 * @param {string} text
 */
function indicesOf(text) {
  const indices = [];
  let at = 0;
  for (const character of text) {
    indices.push(at);
    at += character.length;
  }
  return [...indices, at];
}

/**
 * @param {{start: number, end: number}[]} spans
 * @param {number[]} indices
 */
function move(spans, indices) {
  for (const span of spans) Object.assign(span, { start: indices[span.start], end: indices[span.end] });
}

/**
 * Convert the offsets of one input, in place: of its tokens and words, some of which may belong to the second text of a
 * pair, or to what the model wrote.
 * @param {TextInput} input
 */
function moveInput(input) {
  for (const [part, text] of [input.text, input.text_pair, input.answer].entries()) {
    if (!text || !BEYOND.test(text)) continue;
    const indices = indicesOf(text);
    for (const spans of [input.tokens, input.words])
      move(
        spans.filter((span) => !("special" in span && span.special) && (span.part ?? 0) === part),
        indices,
      );
  }
}

/**
 * Convert the offsets into texts in an answer of the API to indices of strings, in place.
 * @template T
 * @param {T} answer
 * @returns {T}
 */
export function inCodeUnits(answer) {
  const { input, prompts = [], first, second, windows = [] } = /** @type {any} */ (answer ?? {});
  if (input?.text && BEYOND.test(input.text) && Array.isArray(windows)) move(windows, indicesOf(input.text));
  const inputs = [input, first?.input, second?.input, ...(Array.isArray(prompts) ? prompts : [])];
  for (const one of inputs) if (one?.words) moveInput(one);
  return answer;
}

/**
 * @param {string} title
 * @param {string} detail
 * @returns {Problem}
 */
export const connectionLost = (title, detail) =>
  new Problem({ type: "urn:vitrine:problem:connection-lost", title, detail, send: "Try again in a moment." });

/**
 * Return whether a request failed because the server went away: the same question has its answer once it is back.
 * @param {any} problem
 * @returns {boolean}
 */
export const isLost = (problem) => {
  const { type } = problem ?? {};
  return type === "urn:vitrine:problem:connection-lost" || type === "urn:vitrine:problem:interrupted";
};

const FIRST_PAUSE = 500; // milliseconds between two looks for the server, at first
const LONGEST_PAUSE = 4000;

/**
 * Resolves once the server answers; rejects with an AbortError.
 * @param {AbortSignal} [signal]
 * @returns {Promise<void>}
 */
export async function serverIsBack(signal) {
  for (let pause = FIRST_PAUSE; ; pause = Math.min(2 * pause, LONGEST_PAUSE)) {
    await new Promise((resolve) => setTimeout(resolve, pause));
    signal?.throwIfAborted();
    try {
      const { ok } = await fetch(addressOf("/healthz"), { signal });
      if (ok) return;
    } catch (error) {
      if (error.name === "AbortError") throw error;
    }
  }
}

/**
 * Send a request; resolves to the response and rejects with the Problem where that is refused.
 * @param {string} path
 * @param {RequestInit} options
 * @returns {Promise<Response>}
 */
export async function answer(path, options) {
  let response;
  try {
    response = await fetch(addressOf(path), options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw connectionLost("The server does not answer", "The server may have been stopped, or the connection was lost.");
  }
  if (response.ok) return response;
  const isProblem = (response.headers.get("content-type") || "").includes("problem+json");
  const body = isProblem
    ? await response.json()
    : { title: `The server answered ${response.status}`, detail: response.statusText };
  throw new Problem({ ...body, status: response.status, retryAfter: Number(response.headers.get("retry-after")) });
}

/**
 * Fetch the JSON at `path`.
 * @param {string} path
 * @param {AbortSignal} [signal]
 * @returns {Promise<any>}
 */
export const getJSON = async (path, signal) => inCodeUnits(await (await answer(path, { signal })).json());

/**
 * Fetch the bytes of a picture that the server offers (a sample).
 * @param {string} path
 * @param {AbortSignal} [signal]
 * @returns {Promise<Blob>}
 */
export const getBlob = async (path, signal) => (await answer(path, { signal })).blob();

/**
 * Fetch the bytes at `path`, as they are.
 * @param {string} path
 * @param {AbortSignal} [signal]
 * @returns {Promise<ArrayBuffer>}
 */
export const getBytes = async (path, signal) => (await answer(path, { signal })).arrayBuffer();

/**
 * Fetch the picture at `path`, decoded.
 * @param {string} path
 * @returns {Promise<HTMLImageElement>}
 */
export async function loadImage(path) {
  const image = new Image();
  image.src = addressOf(path);
  await image.decode();
  return image;
}

/**
 * The address of the methods of a model; `side` is that of a CLIP model whose tokens get the scores.
 * @param {string} model
 * @param {string} [side]
 * @returns {string}
 */
export const methodsPath = (model, side = "image") =>
  `/api/methods?model=${encodeURIComponent(model)}${side === "text" ? "&side=text" : ""}`;

/**
 * @param {string} model
 * @returns {string}
 */
export const modelPath = (model) => `/api/models/${encodeURIComponent(model).replaceAll("%2F", "/")}`;

/**
 * The address of an explanation, also for elements.
 * @param {string} id
 * @returns {string}
 */
export const explanationPath = (id) => addressOf(`/api/explanations/${encodeURIComponent(id)}`);

/**
 * @param {string} id
 * @param {string} spec
 * @param {string} target
 * @param {string} suffix
 * @returns {string}
 */
export const mapPath = (id, spec, target, suffix) =>
  `${explanationPath(id)}/maps/${encodeURIComponent(spec)}.${suffix}?target=${encodeURIComponent(target)}`;

/**
 * Ask for an explanation. `fields` is {model, image|text|source, target?, prompt?, against?, read?, methods?}; lists
 * are repeated fields. With `waits` the answer comes once it is finished.
 * @param {{[name: string]: any}} fields
 * @param {AbortSignal} [signal]
 * @param {boolean} [waits]
 * @returns {Promise<{id: string, stored?: boolean}>}
 */
export async function createExplanation(fields, signal, waits = false) {
  const form = new FormData();
  for (const [name, value] of Object.entries(fields)) {
    for (const part of Array.isArray(value) ? value : [value]) {
      if (part === undefined || part === null) continue;
      if (part instanceof Blob) form.append(name, part, (part instanceof File && part.name) || "picture");
      else form.append(name, part);
    }
  }
  return (await answer(`/api/explanations${waits ? "?wait=1" : ""}`, { method: "POST", body: form, signal })).json();
}

/**
 * Send a request whose answer is empty.
 * @param {string} path
 * @param {string} method
 * @returns {Promise<Response>}
 */
export const send = (path, method) => answer(path, { method });

/**
 * Cancel an explanation, or have the server forget it.
 * @param {string} id
 * @returns {Promise<Response>}
 */
export const forgetExplanation = (id) => send(explanationPath(id), "DELETE");

/**
 * Stop an explanation that nobody waits for any more. One that is finished stays: a link may lead to it.
 * @param {string} id
 * @returns {Promise<void>}
 */
export async function abandon(id) {
  try {
    const { state } = await getJSON(explanationPath(id));
    if (state === "queued" || state === "running") await forgetExplanation(id);
  } catch {
    // It is gone, or the server is: either way it is not running for us.
  }
}

/**
 * Ask again what an unfinished explanation was asked.
 * @param {string} id
 * @returns {Promise<{id: string}>}
 */
export const askAgain = async (id) => (await send(`${explanationPath(id)}/again`, "POST")).json();

/**
 * End an explanation with the maps that are there.
 * @param {string} id
 * @returns {Promise<Response>}
 */
export const stopExplanation = (id) => send(`${explanationPath(id)}/stop`, "POST");

/**
 * Have the maps of these methods made before the others.
 * @param {string} id
 * @param {string[]} methods
 * @returns {Promise<Response>}
 */
export const putFirst = (id, methods) =>
  answer(`${explanationPath(id)}/order`, {
    method: "PUT",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ methods }),
  });

/**
 * Send a body as JSON.
 * @param {string} path
 * @param {any} body
 * @param {AbortSignal} [signal]
 * @param {string} [method]
 * @returns {Promise<any>}
 */
export async function sendJSON(path, body, signal, method = "POST") {
  const options = { method, headers: { "content-type": "application/json" }, body: JSON.stringify(body), signal };
  return inCodeUnits(await (await answer(path, options)).json());
}

/**
 * Send the bytes of a file.
 * @param {string} path
 * @param {Blob} file
 * @param {AbortSignal} [signal]
 * @returns {Promise<any>}
 */
export const sendBytes = async (path, file, signal) =>
  (await answer(path, { method: "POST", body: file, signal })).json();

/**
 * Have the server load a model.
 * @param {string} name
 * @returns {Promise<{name: string, state: string, events: string}>}
 */
export const loadModel = (name) => sendJSON("/api/models", { name });

/**
 * Follow server-sent events until one of `last` arrives. `handlers` maps event names to functions of the event's data;
 * `lost` and `back` among them are called when the connection breaks and when it is there again. Returns a function that
 * stops following. A lost connection is taken up again from where it stopped, by the browser or, where that gives up,
 * here; `onLost` is called where the server is there and does not know of it any more.
 * @param {string} path
 * @param {{[event: string]: (data?: any) => void}} handlers
 * @param {string[]} last
 * @param {(problem: Problem) => void} onLost
 * @returns {() => void}
 */
export function follow(path, { lost = () => {}, back = () => {}, ...handlers }, last, onLost) {
  const stopped = new AbortController();
  let isGone = false;
  let newest = -1; // id of the last event that came
  /** @type {EventSource} */
  let source;
  /** @param {number} known */
  const open = (known) => {
    let wasOpen = false;
    source = new EventSource(addressOf(path));
    for (const name of new Set([...Object.keys(handlers), ...last])) {
      source.addEventListener(name, (event) => {
        const number = Number(event.lastEventId || -1);
        if (last.includes(name)) source.close();
        else if (number >= 0 && number <= known) return; // it came before the connection broke
        newest = Math.max(newest, number);
        handlers[name]?.(event.data ? inCodeUnits(JSON.parse(event.data)) : {});
      });
    }
    source.addEventListener("open", () => {
      wasOpen = true;
      if (isGone) back();
      isGone = false;
    });
    source.addEventListener("error", async () => {
      const { readyState } = source;
      const isUnknown = readyState === EventSource.CLOSED && !wasOpen && isGone;
      if (isUnknown)
        return onLost(connectionLost("The connection to the server is lost", "The rest of the answer did not arrive."));
      if (!isGone) lost();
      isGone = true;
      if (readyState !== EventSource.CLOSED) return; // the browser tries again
      await serverIsBack(stopped.signal).then(
        () => open(newest),
        () => {},
      );
    });
  };
  open(-1);
  return () => {
    stopped.abort();
    source.close();
  };
}
