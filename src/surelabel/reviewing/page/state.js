// The state of the page.

const STORAGE_KEY = "surelabel-review";

export const state = { run: null, filter: null, rows: [], numFound: 0, numAhead: 0, order: 0, reached: 0, cursor: 0, view: "single", selected: new Set(), finished: false, progress: null };
export const seen = new Map(); // by id: the last journal entry on a row that this tab knows
export const undoable = []; // ids decided on at once, with their queue; most recent last

export const current = () => state.rows[state.cursor] || null;
export const isOpen = (row) => row.decision === null;
export const isRandom = () => state.filter.queue === "random";

/** Return the rows that the next decision is for: the selected ones, else the current one. */
export function targets() {
  const chosen = state.view === "grid" ? state.rows.filter((row) => state.selected.has(row.id)) : [];
  return chosen.length ? chosen : [current()].filter(Boolean);
}

export function saveView() {
  sessionStorage.setItem(STORAGE_KEY, JSON.stringify({ view: state.view, filter: state.filter }));
}

export function savedView() {
  try {
    return JSON.parse(sessionStorage.getItem(STORAGE_KEY)) || {};
  } catch {
    return {};
  }
}
