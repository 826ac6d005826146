// Draw what the state of the page says: one suspect, many of them, or none.

import { $, number } from "./dom.js";
import { isSheet, showAll, showQueue, showState } from "./filters.js";
import { drawGrid, focusCard } from "./grid.js";
import { drawSingle } from "./single.js";
import { current, isOpen, isRandom, state, undoable } from "./state.js";

export const MOST_SELECTED = 1000; // decisions in a request
const handlers = { cards: null, onClass: null };

/** Set what happens on a click on a card and on a class. */
export function startView(cards, onClass) {
  Object.assign(handlers, { cards, onClass });
}

export function draw() {
  const row = current();
  const isEmpty = row === null || state.finished;
  document.body.classList.toggle("blind", isRandom());
  $("single").hidden = isEmpty || state.view !== "single";
  $("grid").hidden = isEmpty || state.view !== "grid";
  $("empty").hidden = !isEmpty;
  $("to-single").setAttribute("aria-pressed", String(state.view === "single"));
  $("to-grid").setAttribute("aria-pressed", String(state.view === "grid"));
  drawActions(isEmpty);
  if (isEmpty) drawEmpty();
  else if (state.view === "single") drawSingle(row, state.run, positionText(), handlers.onClass);
  else drawMany();
}

const rankText = () => (isRandom() ? "" : ` · rank ${number(current().rank)}`); // the sample has the order of the draw
const positionText = () => `${number(state.cursor + 1)} of ${number(state.numFound)}${rankText()}`;

function drawMany() {
  $("cards").classList.toggle("sheet", isSheet());
  drawGrid(state, handlers.cards);
  $("more").hidden = !state.numAhead;
  const count = state.selected.size;
  const many = `${number(state.numFound)} labels. Select some, then decide on all of them at once; without a selection the marked one is meant.`;
  const one = `${number(state.numFound)} labels drawn at random, to be checked one by one: decisions are on the marked one.`;
  $("grid-help").textContent = count ? `${number(count)} of ${number(state.numFound)} labels selected.` : isRandom() ? one : many;
  drawSelectAll();
  focusCard(current().id);
}

function drawSelectAll() {
  const open = state.rows.filter(isOpen).length + state.numAhead;
  const size = Math.min(open, MOST_SELECTED);
  $("select-all").textContent = open > size ? `Select the first ${number(size)}` : `Select all ${number(size)}`;
  $("select-all").disabled = !size;
  $("select-none").hidden = !state.selected.size;
}

function drawActions(isEmpty) {
  const isSingle = state.view === "single" && !isEmpty;
  const count = state.view === "grid" ? state.selected.size : 0;
  $("keep-label").textContent = isSingle ? current().given : "";
  $("accept-label").textContent = isSingle && !isRandom() ? current().suggested : "";
  for (const button of $("actions").children) {
    const isUndo = button.dataset.action === "undo";
    button.disabled = isUndo ? !undoable.length : isEmpty;
  }
  $("actions").dataset.count = count ? `${number(count)} selected` : "";
}

export function drawEmpty() {
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
  const [left] = done ? [["skipped", "skip"], ["unsure", "unsure"]].filter(([, action]) => state.progress?.[action] > 0) : [];
  $("empty-action").textContent = left ? `Show what is ${left[0]}` : "Show all that are not decided";
  $("empty-action").onclick = left ? () => showState(left[0]) : showAll;
}
