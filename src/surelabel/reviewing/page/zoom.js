// Zoom into the picture and move it, by wheel, mouse, touch and keys.

import { $ } from "./dom.js";

const MOST = 40;
const STEP = 1.25;
const place = { scale: 1, x: 0, y: 0 }; // x and y: from the middle of the frame, in CSS pixels
let drag = null;

const image = () => $("picture").querySelector("img");

function draw() {
  const shown = image();
  if (!shown) return;
  const [width, height] = [shown.offsetWidth, shown.offsetHeight].map((size) => (size * (place.scale - 1)) / 2);
  place.x = Math.max(-width, Math.min(width, place.x));
  place.y = Math.max(-height, Math.min(height, place.y));
  shown.style.transform = place.scale === 1 ? "" : `translate(${place.x}px, ${place.y}px) scale(${place.scale})`;
  $("picture").classList.toggle("zoomed", place.scale > 1);
  $("zoom-level").textContent = place.scale === 1 ? "Fit" : `${Math.round(100 * place.scale)} %`;
}

/** Zoom by a factor; the point (x, y), from the middle of the frame, stays where it is. */
export function zoom(factor, x = 0, y = 0) {
  const scale = Math.max(1, Math.min(MOST, place.scale * factor));
  const change = scale / place.scale;
  Object.assign(place, { scale, x: x - (x - place.x) * change, y: y - (y - place.y) * change });
  draw();
}

export const zoomIn = () => zoom(STEP);
export const zoomOut = () => zoom(1 / STEP);

export function fit() {
  Object.assign(place, { scale: 1, x: 0, y: 0 });
  draw();
}

/** Move the picture by a fraction of the frame; return whether there is anything to move. */
export function pan(right, down) {
  if (place.scale === 1) return false;
  place.x -= right * $("picture").offsetWidth;
  place.y -= down * $("picture").offsetHeight;
  draw();
  return true;
}

function fromMiddle(event) {
  const frame = $("picture").getBoundingClientRect();
  return [event.clientX - frame.left - frame.width / 2, event.clientY - frame.top - frame.height / 2];
}

export function startZoom() {
  const frame = $("picture");
  frame.addEventListener("wheel", (event) => {
    if (!image() || event.ctrlKey) return; // with Ctrl the browser zooms the page
    event.preventDefault();
    zoom(event.deltaY < 0 ? STEP : 1 / STEP, ...fromMiddle(event));
  }, { passive: false });
  frame.addEventListener("dblclick", (event) => (place.scale > 1 ? fit() : zoom(4, ...fromMiddle(event))));
  frame.addEventListener("pointerdown", (event) => {
    if (place.scale === 1 || event.button !== 0) return;
    drag = { x: event.clientX - place.x, y: event.clientY - place.y };
    frame.setPointerCapture(event.pointerId);
  });
  frame.addEventListener("pointermove", (event) => {
    if (!drag) return;
    Object.assign(place, { x: event.clientX - drag.x, y: event.clientY - drag.y });
    draw();
  });
  for (const end of ["pointerup", "pointercancel"]) frame.addEventListener(end, () => (drag = null));
  $("zoom-in").addEventListener("click", zoomIn);
  $("zoom-out").addEventListener("click", zoomOut);
  $("zoom-level").addEventListener("click", fit);
}
