// How far to look: what lists of several lengths hold, each with a button that chooses it.

import { $, element, number } from "./dom.js";

const ends = (low, high) => `(${number(Math.round(low))} to ${number(Math.round(high))})`;
const inPercent = (share, low, high) => `${Math.round(100 * share)} % ${ends(100 * low, 100 * high)}`;

function line(plan, isWorth, isChosen, onChoose) {
  const button = element("button", { type: "button", "aria-pressed": String(isChosen) }, number(plan.budget));
  button.addEventListener("click", () => onChoose(plan.p_wrong));
  const first = element("th", { scope: "row" }, button);
  if (isWorth) first.append(element("small", { text: " worth a look" }));
  return element("tr", {}, first,
    element("td", { text: `${number(Math.round(plan.num_wrong))} ${ends(plan.low, plan.high)}` }),
    element("td", { text: inPercent(plan.recall, plan.recall_low, plan.recall_high) }));
}

/** Show the lengths; a choice sets the lowest P(wrong) of the filter to that of the last label. */
export function drawLengths(lengths, worth, low, onChoose) {
  $("lengths").hidden = !lengths.length;
  const chosen = lengths.findLast((plan) => plan.p_wrong >= low);
  const lines = lengths.map((plan) => line(plan, plan.budget === worth, plan === chosen, onChoose));
  const names = ["look at the first", "wrong among them", "of all wrong ones"];
  const head = element("tr", {}, ...names.map((text) => element("th", { text, scope: "col" })));
  if ($("lengths").contains(document.activeElement)) return; // it stays as it is while it is in use
  $("lengths-table").replaceChildren(element("thead", {}, head), element("tbody", {}, ...lines));
}
