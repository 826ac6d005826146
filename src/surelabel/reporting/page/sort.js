"use strict";
// Turn the headings of sortable tables into buttons. Without scripts the tables stay in their original order,
// the most suspicious label first.
for (const table of document.querySelectorAll("table.sortable")) {
  const body = table.tBodies[0];
  [...table.tHead.rows[0].cells].forEach((heading, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = heading.textContent;
    heading.replaceChildren(button);
    button.addEventListener("click", () => {
      const down = heading.getAttribute("aria-sort") === "ascending";
      for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
      heading.setAttribute("aria-sort", down ? "descending" : "ascending");
      const value = (row) => row.cells[column].dataset.value ?? row.cells[column].textContent;
      const order = (a, b) => value(a).localeCompare(value(b), undefined, { numeric: true });
      const number = (row) => Number(value(row));
      const rows = [...body.rows];
      const areNumbers = rows.every((row) => row.cells[column].dataset.value !== undefined);
      rows.sort(areNumbers ? (a, b) => number(a) - number(b) : order);
      body.replaceChildren(...(down ? rows.reverse() : rows));
    });
  });
}
