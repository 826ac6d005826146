// Counts, the newest estimate, and the choices of the filters.

import { getProgress } from "./api.js";
import { $, element, name, number, percent, setBar } from "./dom.js";
import { drawMenus, showFrom } from "./filters.js";
import { drawLengths } from "./lengths.js";
import { showError } from "./queue.js";
import { isRandom, state } from "./state.js";
import { draw, drawEmpty } from "./view.js";

export const NUM_RANDOM = 100;
const ASK_AGAIN = 700; // milliseconds after which to ask for an estimate that is on its way
const MOST_NUMBERS = 200;

let asking = 0;
let asked = 0; // requests so far

/** Show counts and the newest estimate; P(wrong) of loaded rows changes, their order does not. */
export async function drawProgress() {
  const near = state.rows.slice(Math.max(0, state.cursor - MOST_NUMBERS / 2), state.cursor + MOST_NUMBERS / 2);
  const turn = ++asked;
  const found = await getProgress(state.filter, state.order, isRandom() ? [] : near.map((row) => row.number));
  if (turn !== asked) return; // a later request knows more, and its answer may have come first
  state.progress = found;
  for (const row of state.rows) row.p_wrong = found.p_wrong[row.number] ?? row.p_wrong;
  if (found.menus) drawMenus(found.menus, state.run.classes);
  drawEstimate(found);
  drawLengths(found.lengths, found.worth_a_look, state.filter.low, showFrom);
  drawCounts(found);
  drawAnnotators(found.annotators);
  clearTimeout(asking);
  if (found.is_pending) asking = setTimeout(() => drawProgress().then(draw).catch(showError), ASK_AGAIN);
  if (!$("empty").hidden) drawEmpty();
}

function drawCounts(found) {
  const done = found.inside_decided + found.inside_skipped;
  setBar($("bar-decided"), found.inside ? found.inside_decided / found.inside : 0);
  setBar($("bar-skipped"), found.inside ? found.inside_skipped / found.inside : 0);
  $("track").setAttribute("aria-valuemax", String(found.inside));
  $("track").setAttribute("aria-valuenow", String(done));
  $("count-inside").textContent = `${number(found.inside_decided)} of ${number(found.inside)}`;
  for (const action of ["keep", "relabel", "remove", "unsure", "skip"]) $(`count-${action}`).textContent = number(found[action]);
  drawLeft(found);
}

function drawLeft(found) {
  if (found.wrong_left === null) { // the blind check does not say it
    $("count-left").textContent = "";
    return;
  }
  const of = percent(found.rows ? found.wrong_left / found.rows : 0);
  const isKnown = found.can_tell || !state.run.is_calibrated; // what is not calibrated is called rough
  $("count-left").textContent = isKnown ? `≈ ${number(Math.round(found.wrong_left))} of ${number(found.rows)} (${of})` : "not known";
}

/** Say how far annotators agree, and offer the rows on which they do not. */
function drawAnnotators({ agreement, disputed }) {
  const [text, button] = $("annotators").children;
  $("annotators").hidden = !agreement.length;
  text.replaceChildren(...agreement.flatMap((pair, place) => {
    const kappa = pair.kappa === null ? "not defined" : pair.kappa.toFixed(2);
    const ends = ` agree on ${number(pair.num_agreed)} of ${number(pair.num_rows)} (Cohen's kappa ${kappa}).`;
    return [place ? " " : "", name(pair.one), " and ", name(pair.other), ends];
  }));
  button.hidden = !disputed;
  button.textContent = disputed === 1 ? "Show 1 disagreement" : `Show ${number(disputed)} disagreements`;
}

function drawEstimate(found) {
  $("estimate").textContent = found.estimate;
  const [summary, list] = $("warnings").children;
  const count = found.warnings.length;
  $("warnings").hidden = !count;
  summary.textContent = count === 1 ? "1 warning" : `${count} warnings`;
  list.replaceChildren(...found.warnings.map((text) => element("li", { text })));
  $("reorder").hidden = !found.moved;
  $("reorder").textContent = `Reorder (${number(found.moved)} moved)`;
  $("random").setAttribute("aria-pressed", String(isRandom()));
  const size = number(found.sampled || NUM_RANDOM);
  $("random").textContent = isRandom() ? "Back to the suspects" : `Check ${size} random labels`;
}
