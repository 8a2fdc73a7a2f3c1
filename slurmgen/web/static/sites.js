// Search and sort the list of sites; compare as soon as both are chosen.

const table = document.getElementById("sites");
const search = document.getElementById("search");
const choice = document.getElementById("choice");

// The rows that contain every word of the search stay.
function filter() {
  const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
  const rows = [...table.tBodies[0].rows];
  for (const row of rows) {
    const text = row.textContent.toLowerCase();
    row.hidden = !words.every((word) => text.includes(word));
  }
  const shown = rows.filter((row) => !row.hidden).length;
  document.getElementById("count").textContent = `${shown} of ${rows.length} sites`;
  document.getElementById("none").hidden = shown > 0;
}

// What a row is sorted by in a column: its number if it has one, else its text.
function key(row, column) {
  const cell = row.cells[column];
  return cell?.dataset.sort ?? cell?.textContent.trim().toLowerCase() ?? "";
}

// Numbers by size, texts by the alphabet; what is not known comes last in both directions.
function compare(first, second, sign) {
  if (first === "" || second === "") return (first === "") - (second === "");
  return sign * first.localeCompare(second, "en", { numeric: true });
}

// Sort by the column of a header; again for the other direction.
function sort(header) {
  const sign = header.getAttribute("aria-sort") === "ascending" ? -1 : 1;
  for (const other of header.parentElement.cells) other.removeAttribute("aria-sort");
  header.setAttribute("aria-sort", sign === 1 ? "ascending" : "descending");
  const column = header.cellIndex;
  const rows = [...table.tBodies[0].rows];
  rows.sort((first, second) => compare(key(first, column), key(second, column), sign));
  table.tBodies[0].append(...rows);
}

// A slash outside a field leads to the search.
function slash(event) {
  if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey || event.target.matches("input")) return;
  event.preventDefault();
  search.focus();
}

if (table) {
  search.addEventListener("input", filter);
  table.tHead.addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (button) sort(button.parentElement);
  });
  document.addEventListener("keydown", slash);
  filter(); // the browser may have kept the search
}

choice?.addEventListener("change", (event) => {
  const chosen = new FormData(choice);
  if (event.target.matches("select") && chosen.get("a") && chosen.get("b")) choice.requestSubmit();
});
