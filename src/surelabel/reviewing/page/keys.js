// The classes that the digit keys choose.

const DIGITS = "1234567890";

/** Return pairs of key and class: all classes if there are at most ten, else the likeliest of this row. */
export function shortcuts(classes, row) {
  if (classes.every((one) => /^[0-9]$/.test(one))) return classes.map((one) => [one, one]);
  const offered = classes.length <= DIGITS.length ? classes : (row?.candidates || []).map(([one]) => one);
  return offered.slice(0, DIGITS.length).map((one, place) => [DIGITS[place], one]);
}

export const isTyping = (target) =>
  // A dialog keeps the focus for a moment after closing; keys pressed then are meant for the page.
  !target.closest?.("dialog:not([open])") && target.closest?.("input, select, textarea, dialog") !== null;
