// The table of given and suggested classes, from which pairs and contact sheets are opened.

import { getOverview } from "./api.js";
import { $, element, name, number } from "./dom.js";

function button(text, label, onClick) {
  const made = element("button", { type: "button", "aria-label": label }, text);
  made.addEventListener("click", () => {
    $("overview").close();
    onClick();
  });
  return made;
}

function cell(count, most, given, suggested, onPair) {
  const made = element("td");
  if (!count || given === suggested) return made;
  made.append(button(number(count), `${count} given ${given}, suggested ${suggested}`, () => onPair(given, suggested)));
  made.style.setProperty("--share", String(Math.round(70 * (count / most))));
  return made;
}

/** Show how many labels of each class look like another; a count opens its pair, a class its contact sheet. */
export async function showOverview(filter, onPair, onClass) {
  const { classes, counts, sizes, num_left } = await getOverview(filter);
  const most = Math.max(1, ...counts.flat());
  const heads = classes.map((one) => element("th", { scope: "col" }, name(one, "suggested")));
  const head = element("tr", {}, element("th", { text: "given ↓ suggested →", scope: "col" }), ...heads);
  const lines = classes.map((given, place) => {
    const sheet = button(name(given, "given"), `Contact sheet of ${given}`, () => onClass(given));
    sheet.append(element("small", { text: ` ${number(sizes[place])}` }));
    const cells = counts[place].map((count, other) => cell(count, most, given, classes[other], onPair));
    return element("tr", {}, element("th", { scope: "row" }, sheet), ...cells);
  });
  $("overview-table").replaceChildren(element("thead", {}, head), element("tbody", {}, ...lines));
  $("overview-more").textContent = num_left ? `${number(num_left)} classes with fewer suspects are not shown; the filter has them all.` : "";
  $("overview").showModal();
}
