// Why a label was flagged: the evidence and its weight, the course of training, and the nearest neighbours.

import { getWhy } from "./api.js";
import { $, element, name, percent, setBar } from "./dom.js";
import { thumbnail } from "./picture.js";

const SVG = "http://www.w3.org/2000/svg";
const [WIDTH, HEIGHT, LEFT, TOP, BOTTOM] = [300, 110, 30, 6, 18];
const MOST_ODDS = 8;
const cache = new Map();

function svg(tag, attributes, text) {
  const made = document.createElementNS(SVG, tag);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

const kindOf = (label, row) => (label === row.given ? "given" : label === row.suggested ? "suggested" : "other");

/* ---- evidence ---- */

function odds(value) {
  const factor = Math.exp(Math.abs(value));
  const shown = factor >= 1000 ? "> 1000" : factor >= 10 ? Math.round(factor) : factor.toFixed(1);
  return Math.abs(value) < 0.05 ? "says nothing" : `${shown} : 1 for ${value > 0 ? "wrong" : "right"}`;
}

function evidenceLine({ name: source, odds: value, weight, text }) {
  const bar = element("i", { className: value > 0 ? "wrong" : "right" });
  setBar(bar, Math.min(1, Math.abs(value) / MOST_ODDS) / 2);
  const counts = weight === 1 ? "" : `; counted ${weight === 0.5 ? "half" : `× ${weight}`}`;
  return element("div", { className: "source" },
    element("span", { text: source, title: `${text}${counts}` }),
    element("span", { className: "balance" }, bar),
    element("b", { text: odds(value) }),
    element("small", { text: `${text}${counts}` }));
}

/* ---- the course of training ---- */

function path(epochs, values, toX, toY) {
  let isOpen = false;
  return values.map((value, place) => {
    if (value === null) isOpen = false;
    else {
      const step = `${isOpen ? "L" : "M"}${toX(epochs[place]).toFixed(1)} ${toY(value).toFixed(1)}`;
      isOpen = true;
      return step;
    }
    return "";
  }).join("");
}

function chart(course, lines) {
  const [first, last] = [course.epochs[0], course.epochs.at(-1)];
  const toX = (epoch) => LEFT + ((WIDTH - LEFT - 8) * (epoch - first)) / Math.max(1, last - first);
  const toY = (p) => TOP + (HEIGHT - TOP - BOTTOM) * (1 - p);
  const text = lines.map((line) => `${line.name} ${percent(line.p.at(-1))}`).join(", ");
  const made = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": `p of classes from epoch ${first} to ${last}; at the end: ${text}` });
  for (const level of [0, 0.5, 1]) {
    made.append(svg("line", { x1: LEFT, x2: WIDTH - 8, y1: toY(level), y2: toY(level), class: "level" }));
    made.append(svg("text", { x: LEFT - 5, y: toY(level) + 3.5, class: "end" }, String(level)));
  }
  made.append(svg("text", { x: LEFT, y: HEIGHT - 4 }, `epoch ${first}`), svg("text", { x: WIDTH - 8, y: HEIGHT - 4, class: "end" }, String(last)));
  for (const line of [...lines].reverse()) {
    made.append(svg("path", { d: path(course.epochs, line.p, toX, toY), class: `course ${line.kind} ${line.dash}` }));
    line.p.forEach((p, place) => p !== null && made.append(svg("circle", { cx: toX(course.epochs[place]), cy: toY(p), r: 1.8, class: line.kind })));
  }
  return made;
}

function courseOf(course, row) {
  const others = course.classes.filter((line) => line.name !== row.given);
  const lines = [{ name: row.given, p: course.given }, ...others].map((line, place) => ({ ...line, kind: kindOf(line.name, row), dash: `dash${place}` }));
  const legend = lines.map((line) => element("span", { className: line.kind }, name(line.name), ` ${percent(line.p.findLast((p) => p !== null))}`));
  return [element("h3", { text: "p in training, given label and leading classes" }), chart(course, lines), element("p", { className: "legend" }, ...legend)];
}

/* ---- neighbours ---- */

function neighbour(one, row, isImage) {
  const made = element("li", { title: one.id }, ...(isImage ? [thumbnail(one)] : []), name(one.given, kindOf(one.given, row)));
  made.append(element("small", { text: one.p_wrong >= 0.5 ? `${percent(one.p_wrong)} wrong` : "" }));
  return made;
}

/** Show the reasons for a row; a late answer for an earlier row is dropped. */
export async function drawWhy(row, isImage) {
  const place = $("why");
  if (place.dataset.id === row.id) return;
  place.dataset.id = row.id;
  place.replaceChildren();
  if (!cache.has(row.id)) cache.set(row.id, await getWhy(row));
  if (place.dataset.id !== row.id) return;
  const { evidence, course, neighbours } = cache.get(row.id);
  if (evidence.length) place.append(element("h3", { text: "What speaks for a wrong label" }), ...evidence.map(evidenceLine));
  if (course) place.append(...courseOf(course, row));
  if (neighbours.length) {
    place.append(element("h3", { text: "Nearest neighbours and their labels" }));
    place.append(element("ul", { className: isImage ? "neighbours" : "neighbours plain" }, ...neighbours.map((one) => neighbour(one, row, isImage))));
  }
}
