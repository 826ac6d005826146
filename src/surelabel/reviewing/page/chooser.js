// The dialog for choosing a class by typing part of its name.

import { $, element, name, percent } from "./dom.js";

const MAX_SHOWN = 200;
let resolve = null;
let classes = [];
let probability = new Map();
let marked = 0;

function matches(text) {
  const wanted = text.trim().toLowerCase();
  const found = classes.filter((one) => one.toLowerCase().includes(wanted));
  const rank = (one) => (one.toLowerCase() === wanted ? -2 : wanted && one.toLowerCase().startsWith(wanted) ? -1 : 0);
  return found.sort((a, b) => rank(a) - rank(b) || (probability.get(b) || 0) - (probability.get(a) || 0)).slice(0, MAX_SHOWN);
}

function draw() {
  const found = matches($("chooser-text").value);
  marked = Math.max(0, Math.min(marked, found.length - 1));
  const items = found.map((one, place) => {
    const item = element("li", { role: "option", id: `class-${place}`, "aria-selected": String(place === marked) }, name(one));
    if (probability.has(one)) item.append(element("small", { text: percent(probability.get(one)) }));
    item.addEventListener("click", () => close(one));
    return item;
  });
  $("chooser-list").replaceChildren(...(items.length ? items : [element("li", { text: "No class has this in its name.", className: "none" })]));
  $("chooser-text").setAttribute("aria-activedescendant", items.length ? `class-${marked}` : "");
  items[marked]?.scrollIntoView({ block: "nearest" });
  return found;
}

function close(value) {
  const done = resolve;
  resolve = null;
  $("chooser").close();
  done?.(value);
}

function onKey(event) {
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (step) {
    marked += step;
    draw();
  } else if (event.key === "Enter") {
    const found = matches($("chooser-text").value);
    if (found.length) close(found[marked]);
  } else return;
  event.preventDefault();
}

/** Ask for a class; resolves to its name, or to null if cancelled. */
export function choose(allClasses, candidates, title) {
  resolve?.(null);
  classes = allClasses;
  probability = new Map(candidates);
  marked = 0;
  $("chooser-title").textContent = title;
  $("chooser-text").value = "";
  $("chooser").showModal();
  draw();
  $("chooser-text").focus();
  return new Promise((done) => (resolve = done));
}

$("chooser-text").addEventListener("input", () => {
  marked = 0;
  draw();
});
$("chooser-text").addEventListener("keydown", onKey);
$("chooser-close").addEventListener("click", () => close(null));
$("chooser").addEventListener("close", () => {
  // The event comes a moment after the dialog has closed; by then it may be open for the next row.
  if (!$("chooser").open) close(null);
});
