// The input of a row: its image, its text, or a table of its columns and features.

import { getContent, getPicture, getValues, imageAddress, originalAddress } from "./api.js";
import { element, name, number } from "./dom.js";

const THUMB_SIDE = 320;
const view = { asSeen: false, hasOriginals: false }; // whether to show what the network saw

export const startPictures = (hasOriginals) => (view.hasOriginals = hasOriginals);

/** Switch between the original and what the network saw; return whether it is the latter. */
export function toggleSeen() {
  view.asSeen = !view.asSeen;
  return view.asSeen;
}

const nearby = new IntersectionObserver((entries) => {
  for (const { target, isIntersecting } of entries) {
    if (!isIntersecting) continue;
    nearby.unobserve(target);
    target.show();
  }
}, { rootMargin: "600px", scrollMargin: "600px" });

/** Fetch a picture into an element, which drops what it was loading; return whether it could be read. */
async function load(made, address, isSmall) {
  made.request?.abort();
  const { signal } = (made.request = new AbortController());
  try {
    const picture = await getPicture(address, signal, isSmall);
    if (picture === null) return signal.aborted;
    const link = URL.createObjectURL(picture);
    const isShown = await new Promise((done) => {
      Object.assign(made, { src: link, onload: () => done(true), onerror: () => done(signal.aborted) });
    });
    URL.revokeObjectURL(link);
    return isShown;
  } catch {
    return signal.aborted;
  }
}

/** Show the original, or what the network saw where there is none or it cannot be read. */
async function show(made, row, side) {
  made.classList.toggle("pixels", view.asSeen);
  made.dataset.shows = view.hasOriginals && !view.asSeen ? "original" : "seen";
  if (made.dataset.shows === "original") {
    if (await load(made, originalAddress(row, side), side !== null)) return;
    made.dataset.shows = "seen";
  }
  if (await load(made, imageAddress(row), side !== null)) return;
  made.replaceWith(element("p", { text: "This image cannot be read.", className: "unreadable" }));
}

/** Return an element that loads its picture: at once if it is large, else when it is nearly visible. */
function image(row, side = null) {
  const made = element("img", { alt: `Sample ${row.id}`, draggable: "false" });
  made.show = () => show(made, row, side);
  if (side === null) made.show();
  else nearby.observe(made);
  return made;
}

export const thumbnail = (row) => image(row, THUMB_SIDE);

/** Show the pictures on the page anew, after a switch; those that were never loaded wait. */
export const redrawPictures = () => document.querySelectorAll("#stage img").forEach((made) => made.request && made.show());

function nearer(pull, row) {
  if (row.given === row.suggested || Math.abs(pull) < 0.25) return element("td", { className: "pull", text: "–" });
  const side = pull > 0 ? "suggested" : "given";
  const bar = element("i");
  bar.style.width = `${Math.min(100, 20 * Math.abs(pull))}%`;
  return element("td", { className: `pull ${side}` }, bar, side);
}

const numberCell = (value, className) => element("td", { text: number(value), className: `number ${className || ""}` });

export function valueTable(row, values) {
  const same = row.is_blind || row.given === row.suggested;
  const head = element("tr", {}, element("th", { text: "feature", scope: "col" }), element("th", { text: "this row", scope: "col" }));
  head.append(element("th", { text: "given mean", scope: "col", className: "given" }));
  if (!same) head.append(element("th", { text: "suggested mean", scope: "col", className: "suggested" }));
  if (!row.is_blind) head.append(element("th", { text: "nearer to", scope: "col" }));
  const lines = values.map((one) => {
    const line = element("tr", {}, element("th", { scope: "row" }, name(one.name)), numberCell(one.value, "own"), numberCell(one.given_mean));
    if (!same) line.append(numberCell(one.suggested_mean));
    if (!row.is_blind) line.append(nearer(one.pull, row));
    return line;
  });
  return element("table", { className: "values" }, element("thead", {}, head), element("tbody", {}, ...lines));
}

/** A text in which the words that speak for the given and for the suggested class are marked. */
function markedText(pieces) {
  const parts = pieces.map(([text, side]) => (side ? element("mark", { text, className: side, title: `speaks for the ${side} class` }) : text));
  return element("p", { className: "text", dir: "auto" }, ...parts);
}

function columnTable(columns) {
  const lines = columns.map(([column, cell]) => element("tr", {}, element("th", { scope: "row" }, name(column)), element("td", {}, name(cell))));
  return element("table", { className: "values columns" }, element("tbody", {}, ...lines));
}

async function readDescription(row) {
  if (row.snippet === null) {
    const [{ columns }, values] = await Promise.all([getContent(row), getValues(row)]);
    return [...(columns.length ? [columnTable(columns)] : []), valueTable(row, values)];
  }
  const { text, pieces, columns } = await getContent(row);
  const others = columns.filter(([, cell]) => cell !== text);
  return [markedText(pieces), ...(others.length ? [columnTable(others)] : [])];
}

/** Show the input of a row in full; drop a late response for an earlier row. */
export async function showLarge(place, row, isImage) {
  place.dataset.id = row.id;
  if (isImage) {
    place.querySelector("img")?.request.abort();
    place.replaceChildren(image(row));
    return;
  }
  const parts = await readDescription(row);
  if (place.dataset.id === row.id) place.replaceChildren(element("div", { className: "scroll", tabindex: "0" }, ...parts));
}

export function preview(row, isImage) {
  if (isImage) return thumbnail(row);
  if (row.snippet !== null) return element("p", { className: "snippet", dir: "auto", text: row.snippet });
  const lines = row.preview.map((one) => element("div", {}, element("dt", {}, name(one.name)), element("dd", { text: number(one.value) })));
  return element("dl", { className: "preview" }, ...lines);
}
