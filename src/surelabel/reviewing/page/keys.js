// The classes that the digit keys choose, and which keys are shortcuts.

const DIGITS = "1234567890";
const MOVES = ["ArrowUp", "ArrowDown", "ArrowLeft", "ArrowRight", "Home", "End", "PageUp", "PageDown"];
const TYPING = 1000; // milliseconds after which a browser takes the next letter as a new name

/** Return pairs of key and class: all classes if there are at most ten, else the likeliest of this row. */
export function shortcuts(classes, row) {
  if (classes.every((one) => /^[0-9]$/.test(one))) return classes.map((one) => [one, one]);
  const offered = classes.length <= DIGITS.length ? classes : (row?.candidates || []).map(([one]) => one);
  return offered.slice(0, DIGITS.length).map((one, place) => [DIGITS[place], one]);
}

/** Return whether a key belongs to the field or the dialog that has the focus. */
export function isTyping({ target, key }) {
  // A dialog keeps the focus for a moment after closing; keys pressed then are meant for the page.
  if (target.closest?.("dialog:not([open])")) return false;
  if (target.matches?.("select[data-chosen]")) return key.length > 1 || key === " ";
  return target.closest?.("input, select, textarea, dialog") !== null;
}

/** Let a select give back the shortcut keys once its choice is made. */
export function releaseKeys(select) {
  let last = "";
  let leaving = 0;
  const forget = () => delete select.dataset.chosen;
  select.addEventListener("blur", forget);
  select.addEventListener("pointerdown", () => {
    last = "";
    forget();
  });
  select.addEventListener("keydown", (event) => {
    last = event.key;
    if (leaving) clearTimeout(leaving);
    leaving = leaving && setTimeout(() => select.blur(), TYPING);
    if (event.altKey || [" ", "Enter"].includes(last)) forget(); // it opens the list
  });
  select.addEventListener("change", () => {
    if (MOVES.includes(last)) select.dataset.chosen = "yes"; // arrows go on in the list, letters are shortcuts
    else if (last.length !== 1 || last === " ") select.blur();
    else leaving = setTimeout(() => select.blur(), TYPING); // a name is being typed
  });
}
