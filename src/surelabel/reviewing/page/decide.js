// Decide on rows, and undo.

import { Refused, postDecisions } from "./api.js";
import { $, element, toast } from "./dom.js";
import { drawProgress } from "./progress.js";
import { showError, unlessBusy } from "./queue.js";
import { insert, loadMore, update } from "./rows.js";
import { stateText } from "./single.js";
import { isOpen, isRandom, seen, state, targets, undoable } from "./state.js";
import { draw } from "./view.js";

const LOAD_AHEAD = 20;

/** Decide on the selected rows; `wanted` returns the action and the label for a row. */
export function decide(wanted) {
  const rows = targets();
  if (!rows.length || $("empty").hidden === false) return;
  unlessBusy(async () => {
    const answer = await send(rows.map((row) => ({ id: row.id, seen: seen.get(row.id), ...wanted(row) })));
    if (!answer) return;
    undoable.push({ ids: rows.map((row) => row.id), queue: queue() });
    state.selected.clear();
    await advance();
    draw();
    drawProgress().catch(showError);
  });
}

const queue = () => (isRandom() ? "random" : null);

async function send(decisions) {
  try {
    const answer = await postDecisions(decisions, queue());
    update(answer.rows);
    return answer;
  } catch (error) {
    if (!(error instanceof Refused) || error.status !== 409) throw error;
    update(error.rows);
    showConflict(error.rows);
    draw();
    drawProgress().catch(showError);
    return null;
  }
}

function showConflict(rows) {
  const [row] = rows;
  const now = row.decision ? stateText(row.decision) : ["The decision was undone"];
  const note = element("div", { className: "toast conflict" });
  note.append("Not saved: somebody else was quicker. ", element("bdi", { text: row.id }), ": ", ...now);
  note.append(rows.length > 1 ? `; and ${rows.length - 1} more. ` : ". ", "Look again; your next key counts.");
  $("toasts").append(note);
  setTimeout(() => note.remove(), 12000);
}

export const undo = () => unlessBusy(undoLast);

async function undoLast() {
  if (!undoable.length) return toast("There is nothing to undo.");
  const last = undoable.at(-1);
  const { ids } = last;
  // An answer of the blind check comes back blind, and so only there.
  if (last.queue !== queue()) return toast(`The last decision was made among the ${last.queue ? "random labels" : "suspects"}; undo it there.`);
  const answer = await send(ids.map((id) => ({ id, action: "undo", seen: seen.get(id) })));
  undoable.pop();
  if (!answer) return undefined;
  [...answer.rows].reverse().forEach(insert);
  state.cursor = state.rows.findIndex((row) => row.id === ids[0]);
  state.finished = false;
  toast(ids.length > 1 ? `${ids.length} decisions undone.` : "Undone.", "plain", 2);
  draw();
  drawProgress().catch(showError);
  return undefined;
}

async function advance() {
  if (!["open", "all"].includes(state.filter.state)) {
    if (state.cursor + 1 >= state.rows.length) await loadMore();
    state.cursor = Math.min(state.cursor + 1, state.rows.length - 1);
    return;
  }
  const next = () => state.rows.findIndex((row, at) => at > state.cursor && isOpen(row));
  let place = next();
  while (place < 0 && (await loadMore())) place = next();
  if (place < 0) place = state.rows.findIndex(isOpen);
  if (place >= 0) state.cursor = place;
  else state.finished = state.filter.state === "open";
  if (state.rows.length - state.cursor < LOAD_AHEAD) loadMore().then(draw).catch(showError);
}
