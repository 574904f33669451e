// The calls of the API. Every failure is a Problem that says what was wrong and what to send instead.

export class Problem extends Error {
  constructor({ title, detail, send, status }) {
    super(detail || title);
    Object.assign(this, { title, detail, send, status });
  }
}

async function answer(path, options) {
  let response;
  try {
    response = await fetch(path, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem({ title: "The server does not answer", detail: "It may have been stopped, or the connection is gone.", send: "Try again in a moment." });
  }
  if (response.ok) return response;
  const isProblem = (response.headers.get("content-type") || "").includes("problem+json");
  const body = isProblem ? await response.json() : { title: `The server answered ${response.status}`, detail: response.statusText };
  throw new Problem({ ...body, status: response.status });
}

export const getJSON = async (path, signal) => (await answer(path, { signal })).json();

/** The bytes of a picture that the server offers (a sample). */
export const getBlob = async (path, signal) => (await answer(path, { signal })).blob();

/** The picture at `path`, decoded. */
export async function loadImage(path) {
  const image = new Image();
  image.src = path;
  await image.decode();
  return image;
}

/** The methods of a model; `side` is that of a CLIP model whose tokens get the scores. */
export const methodsPath = (model, side = "image") => `/api/methods?model=${encodeURIComponent(model)}${side === "text" ? "&side=text" : ""}`;

export const modelPath = (model) => `/api/models/${encodeURIComponent(model).replaceAll("%2F", "/")}`;

export const explanationPath = (id) => `/api/explanations/${encodeURIComponent(id)}`;

export const mapPath = (id, spec, target, suffix) =>
  `${explanationPath(id)}/maps/${encodeURIComponent(spec)}.${suffix}?target=${encodeURIComponent(target)}`;

/** Ask for an explanation. `fields` is {model, image|text, target?, prompt?, against?, read?, methods?}; lists are repeated fields. */
export async function createExplanation(fields, signal) {
  const form = new FormData();
  for (const [name, value] of Object.entries(fields)) {
    for (const one of Array.isArray(value) ? value : [value]) {
      if (one === undefined || one === null) continue;
      if (one instanceof Blob) form.append(name, one, one.name || "picture");
      else form.append(name, one);
    }
  }
  return (await answer("/api/explanations", { method: "POST", body: form, signal })).json();
}

/** Cancel an explanation, or have the server forget it. */
export const forgetExplanation = (id) => answer(explanationPath(id), { method: "DELETE" });

/** Stop an explanation that nobody waits for any more. One that is finished stays: a link may lead to it. */
export async function abandon(id) {
  try {
    const { state } = await getJSON(explanationPath(id));
    if (state === "queued" || state === "running") await forgetExplanation(id);
  } catch {
    // It is gone, or the server is: either way it is not running for us.
  }
}

/** POST a body as JSON. */
export async function sendJSON(path, body, signal) {
  const options = { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body), signal };
  return (await answer(path, options)).json();
}

export const loadModel = (name) => sendJSON("/api/models", { name });

/**
 * Follow server-sent events until one of `last` arrives. `handlers` maps event names to functions of the event's data.
 * Returns a function that stops following. A lost connection is taken up again by the browser, from where it stopped.
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
      onLost(new Problem({ title: "The connection to the server is lost", detail: "The rest of the answer did not arrive.", send: "Reload the page to see what is there." }));
    }
  });
  return () => source.close();
}
