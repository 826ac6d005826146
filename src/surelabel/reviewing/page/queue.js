// Requests one after the other, and what to say when one is refused.

import { Refused } from "./api.js";
import { toast } from "./dom.js";

let queue = Promise.resolve();
let isBusy = false;

export function enqueue(work) {
  queue = queue.then(work).catch(showError);
  return queue;
}

/** Ignore keys until the page shows the next row: they would decide on a row not seen yet. */
export function unlessBusy(work) {
  if (isBusy) return;
  isBusy = true;
  enqueue(work).finally(() => (isBusy = false));
}

export function showError(error) {
  if (!(error instanceof Refused)) throw error;
  toast(error.status === 0 || error.status === 403 ? error.message : `Not saved: ${error.message}`, "bad", 15);
}
