// The rows that are loaded, in the order of the server.

import { getProgress, getRows } from "./api.js";
import { seen, state } from "./state.js";

/** Load the first rows of the newest order. */
export async function loadFirst() {
  state.order = (await getProgress(state.filter, 0, [])).order;
  const answer = await getRows(state.filter, 0, state.order);
  Object.assign(state, { rows: [], numFound: 0, reached: 0, cursor: 0, finished: false });
  addRows(answer);
  state.selected.clear();
}

export async function loadMore(count = null) {
  if (!state.numAhead) return false;
  addRows(await getRows(state.filter, state.reached, state.order, count));
  return true;
}

function addRows(answer) {
  const known = new Set(state.rows.map((row) => row.id)); // undone rows were inserted already
  const fresh = answer.rows.filter((row) => !known.has(row.id));
  fresh.forEach((row) => seen.set(row.id, row.seen));
  state.rows.push(...fresh);
  state.reached = answer.rows.at(-1)?.rank ?? state.reached;
  state.numAhead = answer.num_found - answer.rows.length;
  state.numFound = state.rows.length + state.numAhead;
}

/** Replace rows by what the server says of them now; they keep their rank. */
export function update(rows) {
  for (const row of rows) {
    seen.set(row.id, row.seen);
    const place = state.rows.findIndex((one) => one.id === row.id);
    if (place >= 0) state.rows[place] = { ...row, rank: state.rows[place].rank };
  }
}

/** Show a row that did not match the filter when rows were loaded. */
export function insert(row) {
  if (state.rows.some((one) => one.id === row.id)) return;
  state.rows.splice(state.cursor, 0, row);
  state.numFound += 1;
}
