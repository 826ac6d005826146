// The input of a row: its image, or a table of its features.

import { getValues, imageAddress, originalAddress } from "./api.js";
import { element, name, number } from "./dom.js";

const THUMB_SIDE = 320;
const view = { asSeen: false, hasOriginals: false }; // whether to show what the network saw

export const startPictures = (hasOriginals) => (view.hasOriginals = hasOriginals);

/** Switch between the original and what the network saw; return whether it is the latter. */
export function toggleSeen() {
  view.asSeen = !view.asSeen;
  return view.asSeen;
}

/** Show the original, or what the network saw where there is none or it cannot be read. */
function setSource(made, row, side) {
  const isOriginal = view.hasOriginals && !view.asSeen;
  made.dataset.shows = isOriginal ? "original" : "seen";
  made.classList.toggle("pixels", view.asSeen);
  made.src = isOriginal ? originalAddress(row, side) : imageAddress(row);
}

function image(row, side = null) {
  const made = element("img", { alt: `Sample ${row.id}`, loading: side === null ? "eager" : "lazy", draggable: "false" });
  made.addEventListener("error", () => {
    if (made.dataset.shows === "original") {
      made.dataset.shows = "seen";
      made.src = imageAddress(row);
    } else made.replaceWith(element("p", { text: "This image cannot be read.", className: "unreadable" }));
  });
  made.show = () => setSource(made, row, side);
  made.show();
  return made;
}

export const thumbnail = (row) => image(row, THUMB_SIDE);

/** Show all pictures on the page anew, after a switch. */
export const redrawPictures = () => document.querySelectorAll("#stage img").forEach((made) => made.show?.());

function nearer(pull, row) {
  if (row.given === row.suggested || Math.abs(pull) < 0.25) return element("td", { className: "pull", text: "–" });
  const side = pull > 0 ? "suggested" : "given";
  const bar = element("i");
  bar.style.width = `${Math.min(100, 20 * Math.abs(pull))}%`;
  return element("td", { className: `pull ${side}` }, bar, side);
}

const numberCell = (value, className) => element("td", { text: number(value), className: `number ${className || ""}` });

export function valueTable(row, values) {
  const same = row.given === row.suggested;
  const head = element("tr", {}, element("th", { text: "feature", scope: "col" }), element("th", { text: "this row", scope: "col" }));
  head.append(element("th", { text: "given mean", scope: "col", className: "given" }));
  if (!same) head.append(element("th", { text: "suggested mean", scope: "col", className: "suggested" }));
  head.append(element("th", { text: "nearer to", scope: "col" }));
  const lines = values.map((one) => {
    const line = element("tr", {}, element("th", { scope: "row" }, name(one.name)), numberCell(one.value, "own"), numberCell(one.given_mean));
    if (!same) line.append(numberCell(one.suggested_mean));
    line.append(nearer(one.pull, row));
    return line;
  });
  return element("table", { className: "values" }, element("thead", {}, head), element("tbody", {}, ...lines));
}

/** Show the input of a row in full; drop a late response for an earlier row. */
export async function showLarge(place, row, isImage) {
  place.dataset.id = row.id;
  if (isImage) {
    place.replaceChildren(image(row));
    return;
  }
  const values = await getValues(row);
  if (place.dataset.id === row.id) place.replaceChildren(element("div", { className: "scroll", tabindex: "0" }, valueTable(row, values)));
}

export function preview(row, isImage) {
  if (isImage) return thumbnail(row);
  const lines = row.preview.map((one) => element("div", {}, element("dt", {}, name(one.name)), element("dd", { text: number(one.value) })));
  return element("dl", { className: "preview" }, ...lines);
}
