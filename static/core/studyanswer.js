// The answer to a study as it comes.

import { answer, connectionLost, inCodeUnits, Problem } from "./api.js";

/**
 * The server-sent events of a response: {event, data} each, as they come.
 * @param {Response} response
 */
async function* eventsOf(response) {
  const stream = /** @type {ReadableStream<Uint8Array<ArrayBuffer>>} */ (response.body);
  const reader = stream.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const messages = (text + value).split(/\r?\n\r?\n/);
    text = messages.pop() ?? "";
    for (const message of messages) {
      const fields = Object.fromEntries(
        message
          .split(/\r?\n/)
          .map((line) => [line.slice(0, line.indexOf(":")), line.slice(line.indexOf(":") + 1).trim()]),
      );
      if (fields.event) yield { event: fields.event, data: inCodeUnits(JSON.parse(fields.data)) };
    }
  }
}

/**
 * Send a body, a form as it is and anything else as JSON, to a call that says how far it is: `on` has functions of the
 * data of the events `progress` and `expected`. Resolves to the answer; rejects with the Problem.
 * @param {string} path
 * @param {any} body
 * @param {{[event: string]: (data: any) => void}} on
 * @param {AbortSignal} [signal]
 * @returns {Promise<any>}
 */
export async function followJSON(path, body, on, signal) {
  const isForm = body instanceof FormData;
  /** @type {Record<string, string>} */
  const headers = { accept: "text/event-stream" };
  if (!isForm) headers["content-type"] = "application/json";
  const response = await answer(path, { method: "POST", headers, body: isForm ? body : JSON.stringify(body), signal });
  try {
    for await (const { event, data } of eventsOf(response)) {
      if (event === "failed") throw new Problem(data);
      if (event === "done") return data;
      on[event]?.(data);
    }
  } catch (error) {
    if (error.name === "AbortError" || error instanceof Problem) throw error;
  }
  throw connectionLost("The connection to the server is lost", "The rest of the answer did not arrive.");
}
