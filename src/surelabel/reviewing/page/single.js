// The view of a single suspect.

import { $, element, name, number, percent, setBar } from "./dom.js";
import { shortcuts } from "./keys.js";
import { showLarge } from "./picture.js";
import { showError } from "./queue.js";
import { drawWhy } from "./why.js";
import { fit } from "./zoom.js";

const EVIDENCE_NAMES = {
  prediction: "the network says now",
  given_probability: "its probability of the given label",
  target: "training aimed at",
  tau: "confidence (tau)",
  mean_margin: "mean margin in training",
  margin_of_mean: "margin of the mean probability",
  first_learned: "first learned in epoch",
  forgotten: "times forgotten",
  quality: "quality",
  rival: "second class, as a share of the first",
  isolation: "distance to neighbours, in spreads",
  verdict: "judged by",
};
const FRACTIONS = ["given_probability", "tau", "rival"];
const KIND_TEXTS = {
  outlier: "Outlier: far from its neighbours, no confident class",
  ambiguous: "Ambiguous: a second class fits nearly as well",
};
const NUM_BARS = 5;

export function stateText(decision) {
  const time = new Date(decision.time).toLocaleString();
  const what = { keep: "Kept as ", relabel: "Relabelled ", remove: "Removed, none of these classes,", unsure: "Unsure", skip: "Skipped" }[decision.action];
  return [what, decision.label === null ? "" : name(decision.label), " by ", name(decision.by), ` · ${time}`];
}

function drawState(row) {
  const place = $("state");
  place.hidden = row.decision === null;
  place.className = `state ${row.decision?.action || ""}`;
  place.replaceChildren(...(row.decision ? stateText(row.decision) : []));
}

/** Show what annotators decided, where more than the decision above is known. */
function drawOpinions(row) {
  const others = row.opinions.filter((one) => one.time !== row.decision?.time || one.by !== row.decision?.by);
  $("opinions").hidden = others.length === 0;
  $("opinions").replaceChildren(...others.map((one) => element("li", {}, ...stateText(one))));
}

function drawKinds(row) {
  const lines = row.kinds.filter((kind) => kind in KIND_TEXTS).map((kind) => element("span", { text: KIND_TEXTS[kind] }));
  if (row.partner) {
    const { id, given } = row.partner;
    lines.unshift(element("span", {}, "Copy or near-copy of ", name(id), ", which is given as ", name(given, "given")));
  }
  $("kinds").replaceChildren(...lines);
  $("kinds").hidden = lines.length === 0;
}

function drawNetwork(row) {
  const bars = row.candidates.slice(0, NUM_BARS).map(([one, probability]) => {
    const kind = one === row.given ? "given" : one === row.suggested ? "suggested" : "";
    const bar = element("i");
    setBar(bar, probability);
    return element("div", { className: kind }, name(one), element("span", {}, bar), element("b", { text: percent(probability) }));
  });
  $("network").replaceChildren(...(bars.length ? [element("h3", { text: "The network's classes" }), ...bars] : []));
}

function drawEvidence(row) {
  const known = Object.entries(row.evidence).filter(([, value]) => value !== null);
  const order = Object.keys(EVIDENCE_NAMES);
  const place = (key) => (order.includes(key) ? order.indexOf(key) : order.length);
  known.sort(([a], [b]) => place(a) - place(b));
  const lines = known.map(([key, value]) => {
    const shown = FRACTIONS.includes(key) ? percent(value) : key === "first_learned" && value === 0 ? "never" : number(value);
    return element("div", {}, element("dt", { text: EVIDENCE_NAMES[key] || key.replaceAll("_", " ") }), element("dd", {}, name(shown)));
  });
  $("evidence").replaceChildren(...lines);
}

function drawClasses(row, classes, onClass) {
  const made = shortcuts(classes, row).map(([key, one]) => {
    const kind = row.is_blind ? "" : one === row.given ? "given" : one === row.suggested ? "suggested" : "";
    const button = element("button", { type: "button", className: kind });
    button.append(...(key === one ? [] : [element("kbd", { text: key })]), name(one));
    button.addEventListener("click", () => onClass(one));
    return button;
  });
  $("classes").replaceChildren(...made);
}

export function drawSingle(row, run, where, onClass) {
  if ($("picture").dataset.blind !== String(row.is_blind)) {
    $("picture").dataset.blind = String(row.is_blind);
    $("picture").dataset.id = "";
    $("picture").replaceChildren(); // words that the model marked must not stay
  }
  if ($("picture").dataset.id !== row.id) {
    showLarge($("picture"), row, run.is_image);
    fit();
  }
  $("single").classList.toggle("with-values", !run.is_image);
  $("picture-tools").hidden = !run.is_image;
  $("where").textContent = where;
  $("id").textContent = row.id;
  $("given").textContent = row.given;
  drawState(row);
  drawOpinions(row);
  drawClasses(row, run.classes, onClass);
  if (row.is_blind) clearVerdict();
  else drawVerdict(row, run);
}

/** Leave nothing of another row's verdict on the page, hidden or not. */
function clearVerdict() {
  for (const id of ["suggested", "suggested-p", "p-wrong", "kinds", "why", "network", "evidence"]) $(id).replaceChildren();
  delete $("why").dataset.id;
  setBar($("p-bar"), 0);
}

function drawVerdict(row, run) {
  $("suggested").textContent = row.suggested === row.given ? "the same" : row.suggested;
  $("suggested-p").textContent = row.suggested_probability === null ? "" : ` ${percent(row.suggested_probability)}`;
  $("p-wrong").textContent = percent(row.p_wrong);
  setBar($("p-bar"), row.p_wrong);
  drawKinds(row);
  drawNetwork(row);
  drawEvidence(row);
  if ($("evidence-box").open) drawWhy(row, run.is_image).catch(showError);
}
