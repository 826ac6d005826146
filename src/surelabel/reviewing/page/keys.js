// Which class a digit key chooses.

const DIGITS = "1234567890";

/** Pairs of key and class: all classes where there are at most ten, else the likeliest ones of this row. */
export function shortcuts(classes, row) {
  if (classes.every((one) => /^[0-9]$/.test(one))) return classes.map((one) => [one, one]);
  const offered = classes.length <= DIGITS.length ? classes : (row?.candidates || []).map(([one]) => one);
  return offered.slice(0, DIGITS.length).map((one, place) => [DIGITS[place], one]);
}

export const isTyping = (target) =>
  // A dialog that was just closed keeps the focus for a moment; keys pressed then are for the page.
  !target.closest?.("dialog:not([open])") && target.closest?.("input, select, textarea, dialog") !== null;
