// Asking again a server that has too many questions. It is fetched once one says so.

const TOO_MANY = 429; // the status of a question that the server takes later
const MOST_PATIENCE = 600; // seconds for which one is asked again and again

/**
 * Call `ask()` and resolve to its result, trying again while the server is busy. Where the server has too many
 * questions, or too many of this visitor, it is asked again after as long as it says, for ten minutes at most;
 * `onPause(seconds)` hears of each wait. With a `refusal` it was asked once already. Rejects with the Problem, and with
 * an AbortError where `signal` says so.
 * @template T
 * @param {() => Promise<T>} ask
 * @param {(seconds: number) => void | Promise<void>} onPause
 * @param {AbortSignal} [signal]
 * @param {unknown} [refusal]
 * @returns {Promise<T>}
 */
export async function patiently(ask, onPause, signal, refusal = null) {
  let waited = 0;
  for (let problem = refusal; ;) {
    if (problem) waited += await pauseFor(problem, waited, onPause, signal);
    try {
      return await ask();
    } catch (error) {
      problem = error;
    }
  }
}

/**
 * Wait for as long as a problem says; resolves to those seconds. Rejects with it where it says nothing, or too long.
 * @param {any} problem
 * @param {number} waited
 * @param {(seconds: number) => void | Promise<void>} onPause
 * @param {AbortSignal} [signal]
 */
async function pauseFor(problem, waited, onPause, signal) {
  const { status, retryAfter } = problem;
  if (status !== TOO_MANY || !(retryAfter > 0) || waited + retryAfter > MOST_PATIENCE) throw problem;
  await onPause(retryAfter);
  await pause(retryAfter, signal);
  return retryAfter;
}

/**
 * @param {number} seconds
 * @param {AbortSignal} [signal]
 * @returns {Promise<void>}
 */
const pause = (seconds, signal) =>
  new Promise((resolve, reject) => {
    const stop = () => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", stop);
      resolve();
    }, seconds * 1000);
    if (signal?.aborted) stop();
    signal?.addEventListener("abort", stop, { once: true });
  });
