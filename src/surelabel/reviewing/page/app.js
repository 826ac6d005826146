// The actions of the page, and its keyboard shortcuts.

import { getRun, postExport, postSample, takeKey } from "./api.js";
import { choose } from "./chooser.js";
import { decide, undo } from "./decide.js";
import { $, number, toast } from "./dom.js";
import { drawFilters, isSheet, showPair, showQueue, showSheet, showState, startFilters } from "./filters.js";
import { numColumns } from "./grid.js";
import { isTyping, shortcuts } from "./keys.js";
import { NUM_RANDOM, drawProgress } from "./progress.js";
import { showOverview } from "./overview.js";
import { redrawPictures, startPictures, toggleSeen } from "./picture.js";
import { enqueue, showError, unlessBusy } from "./queue.js";
import { loadFirst, loadMore } from "./rows.js";
import { current, isOpen, isRandom, saveView, savedView, seen, state, targets, undoable } from "./state.js";
import { MOST_SELECTED, draw, startView } from "./view.js";
import { fit, pan, startZoom, zoomIn, zoomOut } from "./zoom.js";

const PAN = 0.2; // of the frame, for each key

/* ---- loading and moving ---- */

async function load() {
  await loadFirst();
  if (isSheet() && state.view === "grid") await loadMore(MOST_SELECTED);
  drawFilters(state.run.classes);
  draw();
  await drawProgress();
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

function move(step, extend = false) {
  return enqueue(async () => {
    const place = state.cursor + step;
    if (place >= state.rows.length) await loadMore();
    if (place < 0 || place >= state.rows.length) return;
    state.finished = false;
    if (extend && !isRandom()) [current(), state.rows[place]].forEach((row) => state.selected.add(row.id));
    state.cursor = place;
    draw();
  });
}

/** Move to another row; with Shift, select in the grid and move the picture that is zoomed into. */
function arrow(event, right, down) {
  const isGrid = state.view === "grid";
  if (event.shiftKey && !isGrid && pan(right * PAN, down * PAN)) return;
  move(right + down * (isGrid ? numColumns() : 1), event.shiftKey && isGrid);
}

function show(view) {
  state.view = view;
  state.selected.clear();
  saveView();
  draw();
}

function toggle(id) {
  state.finished = false;
  if (isRandom()) state.cursor = state.rows.findIndex((row) => row.id === id); // one by one
  else if (!state.selected.delete(id)) state.selected.add(id);
  draw();
}

const cards = {
  click(id, event) {
    const place = state.rows.findIndex((row) => row.id === id);
    if (event.shiftKey && !isRandom()) {
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

/** Switch between the random sample, which is drawn at the first time, and the suspects. */
async function toggleRandom() {
  if (isRandom()) return showQueue("suspects");
  if (!state.progress?.sampled) await postSample(NUM_RANDOM);
  return showQueue("random");
}

/* ---- actions and keys ---- */

const relabel = (label) => ({ action: "relabel", label });

async function chooseClass() {
  const rows = targets();
  if (!rows.length) return;
  const title = rows.length > 1 ? `Which class is right for these ${rows.length}?` : "Which class is right?";
  const label = await choose(state.run.classes, rows.length > 1 ? [] : rows[0].candidates || [], title);
  if (label !== null && label !== undefined) decide(() => relabel(label));
}

async function exportCsv() {
  const made = await postExport();
  toast(`${number(made.rows)} decisions written to ${made.file}`, "good", 10);
}

const ACTIONS = {
  keep: () => decide(() => ({ action: "keep" })),
  accept: () => isRandom() || decide((row) => relabel(row.suggested)), // the random check is blind
  remove: () => decide(() => ({ action: "remove" })),
  unsure: () => decide(() => ({ action: "unsure" })),
  skip: () => decide(() => ({ action: "skip" })),
  choose: chooseClass,
  undo,
};

const KEYS = {
  k: ACTIONS.keep,
  a: ACTIONS.accept,
  r: ACTIONS.remove,
  q: ACTIONS.unsure,
  s: ACTIONS.skip,
  c: chooseClass,
  "/": chooseClass,
  u: ACTIONS.undo,
  g: () => show(state.view === "grid" ? "single" : "grid"),
  e: () => enqueue(exportCsv),
  f: openFilters,
  p: switchPictures,
  "+": zoomIn,
  "=": zoomIn,
  "-": zoomOut,
  z: fit,
  o: openOverview,
  "?": () => $("help").showModal(),
  ArrowLeft: (event) => arrow(event, -1, 0),
  ArrowRight: (event) => arrow(event, 1, 0),
  ArrowUp: (event) => arrow(event, 0, -1),
  ArrowDown: (event) => arrow(event, 0, 1),
};

const GRID_KEYS = {
  x: () => toggle(current().id),
  " ": () => toggle(current().id),
  Enter: () => show("single"),
  Escape: clearSelection,
};

function openOverview() {
  if (!isRandom()) enqueue(() => showOverview(state.filter, showPair, showSheet));
}

function openFilters() {
  $("filters").open = true;
  $("filter-given").focus();
}

/** Select all open rows of the filter, loaded or not, up to the most that a request can hold. */
function selectAll() {
  if (isRandom()) return;
  if (!state.numAhead || state.rows.length >= MOST_SELECTED) selectLoaded();
  else unlessBusy(async () => {
    while (state.rows.length < MOST_SELECTED && (await loadMore(MOST_SELECTED)));
    selectLoaded();
  });
}

function selectLoaded() {
  state.rows.filter(isOpen).slice(0, MOST_SELECTED).forEach((row) => state.selected.add(row.id));
  draw();
}

function clearSelection() {
  state.selected.clear();
  draw();
}

function switchPictures() {
  $("as-seen").setAttribute("aria-pressed", String(toggleSeen()));
  redrawPictures();
}

function onKey(event) {
  const isDone = event.key === "Escape" || (event.key === "Enter" && event.target.matches?.("input"));
  if (isDone && event.target.closest?.("#filter-form")) event.target.blur(); // the next key decides
  if (isTyping(event) || document.querySelector("dialog[open]")) return;
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

function addListeners() {
  document.addEventListener("keydown", onKey);
  $("to-single").addEventListener("click", () => show("single"));
  $("to-grid").addEventListener("click", () => show("grid"));
  $("previous").addEventListener("click", () => move(-1));
  $("next").addEventListener("click", () => move(1));
  $("more").addEventListener("click", () => enqueue(async () => (await loadMore()) && draw()));
  $("select-all").addEventListener("click", selectAll);
  $("select-none").addEventListener("click", clearSelection);
  $("as-seen").addEventListener("click", switchPictures);
  startZoom();
  $("export").addEventListener("click", KEYS.e);
  $("random").addEventListener("click", () => enqueue(toggleRandom));
  $("reorder").addEventListener("click", (event) => {
    event.preventDefault(); // it would open the filters
    enqueue(reorder);
  });
  $("show-disputed").addEventListener("click", () => showState("disputed"));
  $("open-overview").addEventListener("click", openOverview);
  $("evidence-box").addEventListener("toggle", () => state.rows.length && draw());
  $("open-help").addEventListener("click", KEYS["?"]);
  for (const button of $("actions").children) button.addEventListener("click", ACTIONS[button.dataset.action]);
}

async function start() {
  takeKey();
  state.run = await getRun();
  const before = savedView();
  state.view = before.view === "grid" ? "grid" : "single";
  document.title = `Review ${state.run.name} – surelabel`;
  $("run-name").textContent = state.run.name;
  $("annotator").hidden = state.run.annotator === null;
  $("annotator").firstElementChild.textContent = state.run.annotator;
  if (!state.run.is_calibrated) {
    document.querySelectorAll(".p-name").forEach((one) => (one.textContent = "1 − quality"));
    $("left-name").textContent = "wrong labels left, roughly";
    $("left-name").title = "The sum of 1 − quality, which is not calibrated";
  }
  for (const bulk of state.run.recent) {
    undoable.push({ ids: bulk.map(({ id }) => id), queue: bulk[0].queue });
    bulk.forEach(({ id, seen: last }) => seen.set(id, last));
  }
  $("evidence-box").open = window.innerWidth > 900;
  const first = state.run.starts_random && !before.filter ? { queue: "random" } : before.filter;
  state.filter = startFilters(state.run.classes, first, state.run.low, (filter, view) => {
    state.filter = filter;
    state.view = view ?? state.view;
    saveView();
    enqueue(load);
  });
  startPictures(state.run.has_originals);
  startView(cards, (label) => decide(() => relabel(label)));
  addListeners();
  await enqueue(load);
  document.body.dataset.ready = "yes";
}

start().catch(showError);
