// Filters by class, pair of classes, kind, probability and state.

import { $, element, name, percent } from "./dom.js";
import { releaseKeys } from "./keys.js";

export const DEFAULTS = {
  given: null, suggested: null, kind: null, low: 0.5, high: 1, state: "open", sort: "suspicion", queue: "suspects",
};

let filter = { ...DEFAULTS };
let changed = () => {};

function fill(select, classes, counts, value, any) {
  const options = [element("option", { value: "", text: any })];
  classes.forEach((one, place) => {
    const option = element("option", { value: String(place), text: `${one} (${counts[one] || 0})` });
    option.selected = one === value;
    options.push(option);
  });
  select.replaceChildren(...options);
}

function fillKinds(select, counts) {
  const offered = filter.kind === null ? counts : { ...counts, [filter.kind]: counts[filter.kind] || 0 };
  const options = Object.entries(offered).map(([kind, count]) => element("option", { value: kind, text: `${kind} (${count})` }));
  select.replaceChildren(element("option", { value: "", text: "any" }), ...options);
  select.value = filter.kind || "";
}

function pairButton([given, suggested, count]) {
  const isOn = filter.given === given && filter.suggested === suggested;
  const made = element("button", { type: "button", "aria-pressed": String(isOn), "data-pair": JSON.stringify([given, suggested]) });
  made.append(name(given, "given"), " → ", name(suggested, "suggested"), element("small", { text: ` ${count}` }));
  made.addEventListener("click", () => set(isOn ? { given: null, suggested: null } : { given, suggested }));
  return made;
}

function set(change, view = null) {
  filter = { ...filter, ...change };
  changed(filter, view);
}

function text() {
  const states = { open: "not decided", decided: "decided", removed: "removed", disputed: "disagreed on", unsure: "unsure", skipped: "skipped", all: "all" };
  if (filter.queue === "random") return `drawn at random · ${states[filter.state]}`;
  const parts = [];
  if (filter.given !== null) parts.push(`given ${filter.given}`);
  if (filter.suggested !== null) parts.push(`suggested ${filter.suggested}`);
  if (filter.kind !== null) parts.push(filter.kind);
  parts.push(filter.high < 1 ? `${percent(filter.low)} to ${percent(filter.high)}` : `from ${percent(filter.low)}`);
  parts.push(states[filter.state]);
  if (filter.sort !== "suspicion") parts.push(`by ${filter.sort} class`);
  return parts.join(" · ");
}

/** Show the choices with their newest counts; a list that is in use stays as it is. */
export function drawMenus(menus, classes) {
  const isFree = (select) => document.activeElement !== select;
  for (const which of ["given", "suggested"]) {
    const select = $(`filter-${which}`);
    if (isFree(select)) fill(select, classes, menus[which], filter[which], "any class");
  }
  if (isFree($("filter-kind"))) fillKinds($("filter-kind"), menus.kinds);
  drawPairs(menus.pairs);
}

function drawPairs(pairs) {
  const focused = document.activeElement?.dataset.pair;
  $("pairs").replaceChildren(...pairs.map(pairButton));
  if (focused) [...$("pairs").children].find((button) => button.dataset.pair === focused)?.focus();
}

export function drawFilters(classes) {
  for (const which of ["given", "suggested"]) $(`filter-${which}`).value = filter[which] === null ? "" : String(classes.indexOf(filter[which]));
  $("filter-kind").value = filter.kind || "";
  $("filter-state").value = filter.state;
  $("filter-sort").value = filter.sort;
  $("filter-sheet").disabled = filter.given === null;
  $("filter-low").value = Number(filter.low.toPrecision(4));
  $("filter-high").value = filter.high;
  $("filter-text").textContent = text();
}

/** Start with this filter; `low` is P(wrong) of the last label that is worth a look. */
export function startFilters(classes, initial, low, onChange) {
  DEFAULTS.low = low;
  filter = { ...DEFAULTS, ...initial };
  for (const which of ["given", "suggested"]) if (!classes.includes(filter[which])) filter[which] = null;
  changed = onChange;
  const byPlace = (value) => (value === "" ? null : classes[Number(value)]);
  $("filter-given").addEventListener("change", (event) => set({ given: byPlace(event.target.value) }));
  $("filter-suggested").addEventListener("change", (event) => set({ suggested: byPlace(event.target.value) }));
  $("filter-kind").addEventListener("change", (event) => {
    const kind = event.target.value || null;
    // Rows of the other kinds mostly look right: show them whatever their P(wrong).
    set({ kind, low: kind === null || kind === "wrong" ? DEFAULTS.low : 0 });
  });
  document.querySelectorAll("#filter-form select").forEach(releaseKeys);
  $("filter-state").addEventListener("change", (event) => set({ state: event.target.value }));
  for (const bound of ["low", "high"]) {
    $(`filter-${bound}`).addEventListener("change", (event) => {
      const value = Number(event.target.value);
      set({ [bound]: event.target.value !== "" && value >= 0 && value <= 1 ? value : DEFAULTS[bound] });
    });
  }
  $("filter-sort").addEventListener("change", (event) => set({ sort: event.target.value }));
  $("filter-sheet").addEventListener("click", () => showSheet(filter.given));
  $("filter-reset").addEventListener("click", () => set(DEFAULTS));
  $("filter-form").addEventListener("submit", (event) => event.preventDefault());
  return filter;
}

/** Return whether all labels of a class are shown at once. */
export const isSheet = () => filter.given !== null && filter.suggested === null && filter.low === 0 && filter.state === "all";

export const showPair = (given, suggested) => set({ given, suggested });
export const showSheet = (given) => set({ ...DEFAULTS, given, low: 0, state: "all" }, "grid");
export const showQueue = (queue) => set({ ...DEFAULTS, queue });
export const showAll = () => set({ ...DEFAULTS, low: 0 });
export const showFrom = (low) => set({ low, kind: null });
export const showState = (state) => set({ ...DEFAULTS, low: 0, state });
