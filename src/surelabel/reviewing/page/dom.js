// Create elements and format numbers. Text is never parsed as HTML: names and ids may contain it.

export const $ = (id) => document.getElementById(id);

export function element(tag, { text, className, ...attributes } = {}, ...children) {
  const made = document.createElement(tag);
  if (text !== undefined) made.textContent = text;
  if (className) made.className = className;
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== undefined && value !== null && value !== false) made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children);
  return made;
}

/** Show a name from the data, isolated so that right-to-left marks do not affect other text. */
export const name = (text, className) => element("bdi", { text, className });

/** Format a fraction, with a decimal near 0 and 1, and never rounded to 0 % or 100 %. */
export function percent(fraction) {
  if (fraction === null || fraction === undefined) return "–";
  const value = 100 * fraction;
  if (value > 0 && value < 0.1) return "< 0.1 %";
  if (value < 100 && value > 99.9) return "> 99.9 %";
  return `${(value > 0 && value < 1) || (value > 99 && value < 100) ? value.toFixed(1) : Math.round(value)} %`;
}

export function number(value) {
  if (value === null || value === undefined) return "–";
  if (typeof value !== "number") return String(value);
  if (Number.isInteger(value)) return value.toLocaleString("en");
  return Math.abs(value) >= 1e5 || Math.abs(value) < 1e-3 ? value.toExponential(2) : String(Number(value.toPrecision(4)));
}

export function setBar(bar, value) {
  bar.style.width = `${100 * Math.max(0, Math.min(1, value || 0))}%`;
}

export function toast(text, kind = "plain", seconds = 5) {
  const note = element("div", { text, className: `toast ${kind}` });
  const room = $("toasts");
  room.append(note);
  while (room.children.length > 3) room.firstChild.remove();
  setTimeout(() => note.remove(), 1000 * seconds);
}
