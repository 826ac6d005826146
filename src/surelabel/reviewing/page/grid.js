// The grid view, with many suspects.

import { $, element, name, percent } from "./dom.js";
import { preview } from "./picture.js";

const MARKS = { keep: "kept", relabel: "→", remove: "removed", unsure: "unsure", skip: "skipped" };

function mark(decision) {
  const made = element("p", { className: `mark ${decision.action}`, text: MARKS[decision.action] });
  if (decision.action === "relabel") made.append(" ", name(decision.label));
  return made;
}

function card(row, run, handlers) {
  const made = element("div", { className: "card", role: "option", tabindex: "-1" });
  made.append(element("div", { className: "thumb" }, preview(row, run.is_image)));
  const change = element("p", { className: "change" }, name(row.given, "given"));
  if (!row.is_blind && row.suggested !== row.given) change.append(" → ", name(row.suggested, "suggested"));
  made.append(change, element("p", { className: "chance" }));
  made.addEventListener("click", (event) => handlers.click(row.id, event));
  made.addEventListener("dblclick", () => handlers.open(row.id));
  return made;
}

/** Update the cards; existing ones are kept, so that images are not loaded again. */
export function drawGrid(state, handlers) {
  const room = $("cards");
  if (room.drawn !== state.rows) {
    room.replaceChildren();
    room.cards = new Map();
    room.drawn = state.rows;
  }
  state.rows.forEach((row, place) => {
    let one = room.cards.get(row.id);
    if (!one) {
      one = card(row, state.run, handlers);
      room.cards.set(row.id, one);
      room.insertBefore(one, room.children[place] || null);
    }
    drawCard(one, row, place === state.cursor, state.selected.has(row.id));
  });
}

function drawCard(made, row, isCurrent, isSelected) {
  made.classList.toggle("current", isCurrent);
  made.classList.toggle("decided", row.decision !== null);
  made.setAttribute("aria-selected", String(isSelected));
  made.setAttribute("aria-current", String(isCurrent));
  made.tabIndex = isCurrent ? 0 : -1;
  made.querySelector(".chance").textContent = row.is_blind ? "" : percent(row.p_wrong);
  const state = row.decision ? `, ${row.decision.action}` : "";
  const opinion = row.is_blind ? "" : `, suggested ${row.suggested}, ${percent(row.p_wrong)}`;
  made.setAttribute("aria-label", `${row.id}: given ${row.given}${opinion}${state}`);
  const key = row.decision ? `${row.decision.sequence}` : "";
  if (made.dataset.mark === key) return;
  made.dataset.mark = key;
  made.querySelector(".mark")?.remove();
  if (row.decision) made.querySelector(".thumb").append(mark(row.decision));
}

/** Scroll to a card and focus it, unless the focus is in another part of the page. */
export function focusCard(id) {
  const one = $("cards").cards?.get(id);
  const active = document.activeElement;
  if (active === null || active === document.body || $("cards").contains(active)) one?.focus({ preventScroll: true });
  one?.scrollIntoView({ block: "nearest" });
}

/** Return the number of cards in a row of the grid. */
export function numColumns() {
  const tops = [...$("cards").children].map((one) => one.offsetTop);
  const others = tops.findIndex((top) => top !== tops[0]);
  return others < 0 ? Math.max(1, tops.length) : others;
}
