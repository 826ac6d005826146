// The state of the page, its actions, and its keyboard shortcuts.

import { Refused, getProgress, getRows, getRun, postDecisions, postExport, postSample } from "./api.js";
import { choose } from "./chooser.js";
import { $, element, number, percent, setBar, toast } from "./dom.js";
import { drawFilters, showAll, showQueue, showSkipped, startFilters } from "./filters.js";
import { drawGrid, focusCard, numColumns } from "./grid.js";
import { isTyping, shortcuts } from "./keys.js";
import { drawSingle, stateText } from "./single.js";

const STORAGE_KEY = "surelabel-review";
const LOAD_AHEAD = 20;
const NUM_RANDOM = 100;
const ASK_AGAIN = 700; // milliseconds after which to ask for an estimate that is on its way
const MOST_NUMBERS = 200;

const state = { run: null, filter: null, rows: [], numFound: 0, order: 0, reached: 0, cursor: 0, view: "single", selected: new Set(), finished: false };
const seen = new Map(); // by id: the last journal entry on a row that this tab knows
const undoable = []; // lists of ids, most recent last

const current = () => state.rows[state.cursor] || null;
const isOpen = (row) => row.decision === null;
const isRandom = () => state.filter.queue === "random";

/* ---- loading ---- */

async function load() {
  state.order = (await getProgress(state.filter, 0, [])).order;
  const answer = await getRows(state.filter, 0, state.order);
  Object.assign(state, { rows: [], numFound: 0, reached: 0, cursor: 0, finished: false });
  addRows(answer);
  state.selected.clear();
  drawFilters(answer.menus, state.run.classes);
  draw();
  await drawProgress();
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

async function loadMore() {
  if (!state.numAhead) return false;
  addRows(await getRows(state.filter, state.reached, state.order));
  return true;
}

/** Take the newest order; the row that is shown stays where it is. */
async function reorder() {
  const shown = current();
  await load();
  const place = shown ? state.rows.findIndex((row) => row.id === shown.id) : -1;
  const [fresh] = place >= 0 ? state.rows.splice(place, 1) : [];
  if (shown) state.rows.unshift(fresh ?? shown);
  if (shown && !fresh) state.numFound += 1;
  draw();
  await drawProgress();
}

/* ---- deciding ---- */

let queue = Promise.resolve();
let isDeciding = false;

function enqueue(work) {
  queue = queue.then(work).catch(showError);
  return queue;
}

function targets() {
  const chosen = state.view === "grid" ? state.rows.filter((row) => state.selected.has(row.id)) : [];
  return chosen.length ? chosen : [current()].filter(Boolean);
}

/** Ignore keys until the page shows the next row: they would decide on a row not seen yet. */
function unlessBusy(work) {
  if (isDeciding) return;
  isDeciding = true;
  enqueue(work).finally(() => (isDeciding = false));
}

/** Decide on the selected rows; `wanted` returns the action and the label for a row. */
function decide(wanted) {
  const rows = targets();
  if (!rows.length || $("empty").hidden === false) return;
  unlessBusy(async () => {
    const answer = await send(rows.map((row) => ({ id: row.id, seen: seen.get(row.id), ...wanted(row) })));
    if (!answer) return;
    undoable.push(rows.map((row) => row.id));
    state.selected.clear();
    await advance();
    draw();
    drawProgress().catch(showError);
  });
}

async function send(decisions) {
  try {
    const answer = await postDecisions(decisions, isRandom() ? "random" : null);
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

function update(rows) {
  for (const row of rows) {
    seen.set(row.id, row.seen);
    const place = state.rows.findIndex((one) => one.id === row.id);
    if (place >= 0) state.rows[place] = { ...row, rank: state.rows[place].rank };
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

async function undo() {
  const ids = undoable.at(-1);
  if (!ids) return toast("There is nothing to undo.");
  const answer = await send(ids.map((id) => ({ id, action: "undo", seen: seen.get(id) })));
  undoable.pop();
  if (!answer) return undefined;
  answer.rows.forEach(insert);
  state.cursor = state.rows.findIndex((row) => row.id === ids[0]);
  state.finished = false;
  toast(ids.length > 1 ? `${ids.length} decisions undone.` : "Undone.", "plain", 2);
  draw();
  drawProgress().catch(showError);
  return undefined;
}

/** Show a row that did not match the filter when rows were loaded. */
function insert(row) {
  if (state.rows.some((one) => one.id === row.id)) return;
  state.rows.splice(state.cursor, 0, row);
  state.numFound += 1;
}

/* ---- moving ---- */

async function advance() {
  let place = state.rows.findIndex((row, at) => at > state.cursor && isOpen(row));
  while (place < 0 && (await loadMore())) place = state.rows.findIndex((row, at) => at > state.cursor && isOpen(row));
  if (place < 0) place = state.rows.findIndex(isOpen);
  if (place >= 0) state.cursor = place;
  else state.finished = state.filter.state === "open";
  if (state.rows.length - state.cursor < LOAD_AHEAD) loadMore().then(draw).catch(showError);
}

function move(step, extend = false) {
  return enqueue(async () => {
    const place = state.cursor + step;
    if (place >= state.rows.length) await loadMore();
    if (place < 0 || place >= state.rows.length) return;
    state.finished = false;
    if (extend) [current(), state.rows[place]].forEach((row) => state.selected.add(row.id));
    state.cursor = place;
    draw();
  });
}

function show(view) {
  state.view = view;
  state.selected.clear();
  saveView();
  draw();
}

function toggle(id) {
  state.finished = false;
  if (!state.selected.delete(id)) state.selected.add(id);
  draw();
}

const cards = {
  click(id, event) {
    const place = state.rows.findIndex((row) => row.id === id);
    if (event.shiftKey) {
      const [from, to] = [state.cursor, place].sort((a, b) => a - b);
      state.rows.slice(from, to + 1).forEach((row) => state.selected.add(row.id));
      state.cursor = place;
      draw();
    } else {
      state.cursor = place;
      toggle(id);
    }
  },
  open(id) {
    state.cursor = state.rows.findIndex((row) => row.id === id);
    show("single");
  },
};

/* ---- drawing ---- */

function draw() {
  const row = current();
  const isEmpty = row === null || state.finished;
  $("single").hidden = isEmpty || state.view !== "single";
  $("grid").hidden = isEmpty || state.view !== "grid";
  $("empty").hidden = !isEmpty;
  $("to-single").setAttribute("aria-pressed", String(state.view === "single"));
  $("to-grid").setAttribute("aria-pressed", String(state.view === "grid"));
  drawActions(isEmpty);
  if (isEmpty) drawEmpty();
  else if (state.view === "single") drawSingle(row, state.run, positionText(), (label) => decide(() => relabel(label)));
  else drawMany();
}

const positionText = () => `${number(state.cursor + 1)} of ${number(state.numFound)} · rank ${number(current().rank)}`;

function drawMany() {
  drawGrid(state, cards);
  $("more").hidden = !state.numAhead;
  const count = state.selected.size;
  const many = `${number(state.numFound)} suspects. Select some, then decide on all of them at once; without a selection the marked one is meant.`;
  $("grid-help").textContent = count ? `${number(count)} of ${number(state.numFound)} suspects selected.` : many;
  focusCard(current().id);
}

function drawActions(isEmpty) {
  const isSingle = state.view === "single" && !isEmpty;
  const count = state.view === "grid" ? state.selected.size : 0;
  $("keep-label").textContent = isSingle ? current().given : "";
  $("accept-label").textContent = isSingle ? current().suggested : "";
  for (const button of $("actions").children) {
    const isUndo = button.dataset.action === "undo";
    button.disabled = isUndo ? !undoable.length : isEmpty;
  }
  $("actions").dataset.count = count ? `${count} selected` : "";
}

function drawEmpty() {
  const done = state.rows.length > 0;
  if (isRandom() && (done || state.progress?.sampled)) {
    $("empty-title").textContent = "All random labels are checked";
    $("empty-text").textContent = state.progress?.estimate ?? "";
    $("empty-action").textContent = "Back to the suspects";
    $("empty-action").onclick = () => showQueue("suspects");
    return;
  }
  $("empty-title").textContent = done ? "Nothing is left to decide here" : "Nothing to show here";
  $("empty-text").textContent = done
    ? "Press E to write decisions.csv, or choose other suspects."
    : "No label is in this selection: choose another class, a lower probability, or other states.";
  const skipped = done && state.progress?.skip > 0;
  $("empty-action").textContent = skipped ? "Show what was skipped" : "Show all that are not decided";
  $("empty-action").onclick = skipped ? showSkipped : showAll;
}

let asking = 0;

/** Show counts and the newest estimate; P(wrong) of loaded rows changes, their order does not. */
async function drawProgress() {
  const near = state.rows.slice(Math.max(0, state.cursor - MOST_NUMBERS / 2), state.cursor + MOST_NUMBERS / 2);
  const found = await getProgress(state.filter, state.order, near.map((row) => row.number));
  state.progress = found;
  for (const row of state.rows) row.p_wrong = found.p_wrong[row.number] ?? row.p_wrong;
  drawEstimate(found);
  clearTimeout(asking);
  if (found.is_pending) asking = setTimeout(() => drawProgress().then(draw).catch(showError), ASK_AGAIN);
  const done = found.inside_decided + found.inside_skipped;
  setBar($("bar-decided"), found.inside ? found.inside_decided / found.inside : 0);
  setBar($("bar-skipped"), found.inside ? found.inside_skipped / found.inside : 0);
  $("track").setAttribute("aria-valuemax", String(found.inside));
  $("track").setAttribute("aria-valuenow", String(done));
  $("count-inside").textContent = `${number(found.inside_decided)} of ${number(found.inside)}`;
  for (const action of ["keep", "relabel", "skip"]) $(`count-${action}`).textContent = number(found[action]);
  const of = percent(found.rows ? found.wrong_left / found.rows : 0);
  $("count-left").textContent = `≈ ${number(Math.round(found.wrong_left))} of ${number(found.rows)} (${of})`;
  if (!$("empty").hidden) drawEmpty();
}

function drawEstimate(found) {
  $("estimate").textContent = found.estimate;
  const [summary, list] = $("warnings").children;
  const count = found.warnings.length;
  $("warnings").hidden = !count;
  summary.textContent = count === 1 ? "1 warning" : `${count} warnings`;
  list.replaceChildren(...found.warnings.map((text) => element("li", { text })));
  $("reorder").hidden = !found.moved;
  $("reorder").textContent = `Reorder (${number(found.moved)} moved)`;
  $("random").setAttribute("aria-pressed", String(isRandom()));
  const size = number(found.sampled || NUM_RANDOM);
  $("random").textContent = isRandom() ? "Back to the suspects" : `Check ${size} random labels`;
}

/** Switch between the random sample, which is drawn at the first time, and the suspects. */
async function toggleRandom() {
  if (isRandom()) return showQueue("suspects");
  if (!state.progress?.sampled) await postSample(NUM_RANDOM);
  return showQueue("random");
}

function showError(error) {
  if (!(error instanceof Refused)) throw error;
  toast(error.status === 0 || error.status === 403 ? error.message : `Not saved: ${error.message}`, "bad", 15);
}

/* ---- actions and keys ---- */

const relabel = (label) => ({ action: "relabel", label });

async function chooseClass() {
  const rows = targets();
  if (!rows.length) return;
  const title = rows.length > 1 ? `Which class is right for these ${rows.length}?` : "Which class is right?";
  const label = await choose(state.run.classes, rows.length > 1 ? [] : rows[0].candidates, title);
  if (label !== null && label !== undefined) decide(() => relabel(label));
}

async function exportCsv() {
  const made = await postExport();
  toast(`${number(made.rows)} decisions written to ${made.file}`, "good", 10);
}

const ACTIONS = {
  keep: () => decide(() => ({ action: "keep" })),
  accept: () => decide((row) => relabel(row.suggested)),
  skip: () => decide(() => ({ action: "skip" })),
  choose: chooseClass,
  undo: () => unlessBusy(undo),
};

const KEYS = {
  k: ACTIONS.keep,
  a: ACTIONS.accept,
  s: ACTIONS.skip,
  c: chooseClass,
  "/": chooseClass,
  u: ACTIONS.undo,
  g: () => show(state.view === "grid" ? "single" : "grid"),
  e: () => enqueue(exportCsv),
  f: openFilters,
  p: () => document.body.classList.toggle("smooth"),
  "?": () => $("help").showModal(),
  ArrowLeft: (event) => move(-1, event.shiftKey),
  ArrowRight: (event) => move(1, event.shiftKey),
  ArrowUp: (event) => move(state.view === "grid" ? -numColumns() : -1, event.shiftKey),
  ArrowDown: (event) => move(state.view === "grid" ? numColumns() : 1, event.shiftKey),
};

const GRID_KEYS = {
  x: () => toggle(current().id),
  " ": () => toggle(current().id),
  Enter: () => show("single"),
  Escape: () => {
    state.selected.clear();
    draw();
  },
};

function openFilters() {
  $("filters").open = true;
  $("filter-given").focus();
}

function selectAll() {
  state.rows.filter(isOpen).forEach((row) => state.selected.add(row.id));
  draw();
}

function onKey(event) {
  if (event.key === "Escape" && event.target.closest?.("#filter-form")) event.target.blur();
  if (isTyping(event.target) || document.querySelector("dialog[open]")) return;
  const isGrid = state.view === "grid" && !$("grid").hidden;
  if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "a" && state.view === "grid") {
    event.preventDefault();
    if (isGrid) selectAll();
    return;
  }
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const onButton = event.target.closest?.("button, summary") && [" ", "Enter"].includes(event.key);
  const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
  const action = (isGrid && GRID_KEYS[key]) || KEYS[key] || digitAction(key, isGrid);
  if (!action || onButton) return;
  event.preventDefault();
  if (!event.repeat || key.startsWith("Arrow")) action(event);
}

function digitAction(key, isGrid) {
  const isFixed = state.run.classes.length <= 10; // otherwise the digits stand for different classes in each row
  const found = isGrid && !isFixed ? null : shortcuts(state.run.classes, current()).find(([digit]) => digit === key);
  return found ? () => decide(() => relabel(found[1])) : null;
}

/* ---- start ---- */

function saveView() {
  sessionStorage.setItem(STORAGE_KEY, JSON.stringify({ view: state.view, filter: state.filter }));
}

function savedView() {
  try {
    return JSON.parse(sessionStorage.getItem(STORAGE_KEY)) || {};
  } catch {
    return {};
  }
}

function addListeners() {
  document.addEventListener("keydown", onKey);
  $("to-single").addEventListener("click", () => show("single"));
  $("to-grid").addEventListener("click", () => show("grid"));
  $("previous").addEventListener("click", () => move(-1));
  $("next").addEventListener("click", () => move(1));
  $("more").addEventListener("click", () => enqueue(async () => (await loadMore()) && draw()));
  $("export").addEventListener("click", KEYS.e);
  $("random").addEventListener("click", () => enqueue(toggleRandom));
  $("reorder").addEventListener("click", (event) => {
    event.preventDefault(); // it would open the filters
    enqueue(reorder);
  });
  $("open-help").addEventListener("click", KEYS["?"]);
  for (const button of $("actions").children) button.addEventListener("click", ACTIONS[button.dataset.action]);
}

async function start() {
  history.replaceState(null, "", "/"); // the cookie has the token now; remove it from the address and the history
  state.run = await getRun();
  const before = savedView();
  state.view = before.view === "grid" ? "grid" : "single";
  document.title = `Review ${state.run.name} – surelabel`;
  $("run-name").textContent = state.run.name;
  if (!state.run.is_calibrated) {
    document.querySelectorAll(".p-name").forEach((one) => (one.textContent = "1 − quality"));
    $("left-name").textContent = "wrong labels left, roughly";
    $("left-name").title = "The sum of 1 − quality, which is not calibrated";
  }
  for (const { id, seen: last } of state.run.recent) {
    undoable.push([id]);
    seen.set(id, last);
  }
  $("evidence-box").open = window.innerWidth > 900;
  const first = state.run.starts_random && !before.filter ? { queue: "random" } : before.filter;
  state.filter = startFilters(state.run.classes, first, (filter) => {
    state.filter = filter;
    saveView();
    enqueue(load);
  });
  addListeners();
  await enqueue(load);
  document.body.dataset.ready = "yes";
}

start().catch(showError);
