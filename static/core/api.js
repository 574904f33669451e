// The calls of the API. Every failure is a Problem that says what was wrong and what to send instead.

/**
 * A problem as the API says it.
 * @typedef {object} ProblemBody
 * @property {string} [type] "urn:vitrine:problem:" and its name
 * @property {string} title
 * @property {string} [detail] what was wrong
 * @property {string} [send] what to send instead
 * @property {number} [status]
 */

/** What was wrong, and what to send instead. */
export class Problem extends Error {
  /** @param {ProblemBody} options */
  constructor({ type, title, detail, send, status }) {
    super(detail || title);
    this.type = type;
    this.title = title;
    this.detail = detail;
    this.send = send;
    this.status = status;
  }

  /**
   * Whether it is the problem that the server calls `slug`.
   * @param {string} slug
   * @returns {boolean}
   */
  isOf(slug) {
    return this.type === `urn:vitrine:problem:${slug}`;
  }
}

async function answer(path, options) {
  let response;
  try {
    response = await fetch(path, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem({
      title: "The server does not answer",
      detail: "It may have been stopped, or the connection is gone.",
      send: "Try again in a moment.",
    });
  }
  if (response.ok) return response;
  const isProblem = (response.headers.get("content-type") || "").includes("problem+json");
  const body = isProblem
    ? await response.json()
    : { title: `The server answered ${response.status}`, detail: response.statusText };
  throw new Problem({ ...body, status: response.status });
}

/**
 * The JSON at `path`.
 * @param {string} path
 * @param {AbortSignal} [signal]
 * @returns {Promise<any>}
 */
export const getJSON = async (path, signal) => (await answer(path, { signal })).json();

/**
 * The bytes of a picture that the server offers (a sample).
 * @param {string} path
 * @param {AbortSignal} [signal]
 * @returns {Promise<Blob>}
 */
export const getBlob = async (path, signal) => (await answer(path, { signal })).blob();

/**
 * The bytes at `path`, as they are.
 * @param {string} path
 * @param {AbortSignal} [signal]
 * @returns {Promise<ArrayBuffer>}
 */
export const getBytes = async (path, signal) => (await answer(path, { signal })).arrayBuffer();

/**
 * The picture at `path`, decoded.
 * @param {string} path
 * @returns {Promise<HTMLImageElement>}
 */
export async function loadImage(path) {
  const image = new Image();
  image.src = path;
  await image.decode();
  return image;
}

/**
 * The methods of a model; `side` is that of a CLIP model whose tokens get the scores.
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
 * @param {string} id
 * @returns {string}
 */
export const explanationPath = (id) => `/api/explanations/${encodeURIComponent(id)}`;

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
 * @returns {Promise<{id: string, state: string}>}
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
 * A call that answers nothing.
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
 * Send a body as JSON.
 * @param {string} path
 * @param {any} body
 * @param {AbortSignal} [signal]
 * @param {string} [method]
 * @returns {Promise<any>}
 */
export async function sendJSON(path, body, signal, method = "POST") {
  const options = { method, headers: { "content-type": "application/json" }, body: JSON.stringify(body), signal };
  return (await answer(path, options)).json();
}

/** The server-sent events of a response: {event, data} each, as they come. */
async function* eventsOf(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const messages = (text + value).split(/\r?\n\r?\n/);
    text = messages.pop();
    for (const message of messages) {
      const fields = Object.fromEntries(
        message
          .split(/\r?\n/)
          .map((line) => [line.slice(0, line.indexOf(":")), line.slice(line.indexOf(":") + 1).trim()]),
      );
      if (fields.event) yield { event: fields.event, data: JSON.parse(fields.data) };
    }
  }
}

/**
 * Send a body as JSON to a call that says how far it is: `onProgress` is given the data of each event `progress`.
 * Resolves to the answer; rejects with the Problem.
 * @param {string} path
 * @param {any} body
 * @param {(data: any) => void} onProgress
 * @param {AbortSignal} [signal]
 * @returns {Promise<any>}
 */
export async function followJSON(path, body, onProgress, signal) {
  const headers = { "content-type": "application/json", accept: "text/event-stream" };
  const response = await answer(path, { method: "POST", headers, body: JSON.stringify(body), signal });
  try {
    for await (const { event, data } of eventsOf(response)) {
      if (event === "progress") onProgress(data);
      if (event === "failed") throw new Problem(data);
      if (event === "done") return data;
    }
  } catch (error) {
    if (error.name === "AbortError" || error instanceof Problem) throw error;
  }
  throw new Problem({
    title: "The connection to the server is lost",
    detail: "The rest of the answer did not arrive.",
    send: "Reload the page to ask again.",
  });
}

/**
 * Have the server load a model.
 * @param {string} name
 * @returns {Promise<{name: string, state: string, events: string}>}
 */
export const loadModel = (name) => sendJSON("/api/models", { name });

/**
 * Follow server-sent events until one of `last` arrives. `handlers` maps event names to functions of the event's data.
 * Returns a function that stops following. A lost connection is taken up again by the browser, from where it stopped.
 * @param {string} path
 * @param {{[event: string]: (data: any) => void}} handlers
 * @param {string[]} last
 * @param {(problem: Problem) => void} onLost
 * @returns {() => void}
 */
export function follow(path, handlers, last, onLost) {
  const source = new EventSource(path);
  for (const name of new Set([...Object.keys(handlers), ...last])) {
    source.addEventListener(name, (event) => {
      if (last.includes(name)) source.close();
      handlers[name]?.(event.data ? JSON.parse(event.data) : {});
    });
  }
  source.addEventListener("error", () => {
    if (source.readyState === EventSource.CLOSED) {
      onLost(
        new Problem({
          title: "The connection to the server is lost",
          detail: "The rest of the answer did not arrive.",
          send: "Reload the page to see what is there.",
        }),
      );
    }
  });
  return () => source.close();
}
