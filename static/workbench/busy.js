// What a page says while its server has too many questions to take the newest one. It is fetched once that is so.

import { say } from "../core/dom.js";
import { now } from "../progress/waitingline.js";

/** @import { Answering } from "./answering.js" */

/**
 * Show that the server takes no more questions for this many seconds: it is asked again by itself, unless somebody
 * presses Stop.
 * @param {Answering} answering
 * @param {number} seconds
 */
export function sayBusy({ job, mapProgress, workbench }, seconds) {
  say("status", "the server is busy");
  const until = now() + seconds;
  const left = () => Math.max(1, Math.ceil(until - now()));
  mapProgress.wait(
    null,
    () => `The server has many questions: asking again in ${left()} s`,
    () => {
      job.giveUp();
      mapProgress.regain();
      workbench.revert();
      say("status", "stopped");
    },
  );
}
