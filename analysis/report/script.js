"use strict";
// Without this script the page is complete; with it, tables can be sorted and filtered.
const runs = document.querySelector("#runs");
const say = (section, shown) => {
  section.querySelector("output").textContent = `${shown.toLocaleString("en")} ${shown === 1 ? "row" : "rows"}`;
};

// Shows the rows of a section's table for which `keep` holds.
const show = (section, keep) => {
  section.querySelector("details.table").open = true;
  let shown = 0;
  for (const row of section.querySelectorAll("tbody tr")) {
    row.hidden = !keep(row);
    shown += !row.hidden;
  }
  say(section, shown);
};

// Rows that hold all words and rest on no other runs than those of `groups`, if there are any.
const filter = (section, text, groups = null) => {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const input = section.querySelector("input");
  if (input.value !== text) input.value = text;
  show(section, (row) => {
    const cells = Array.from(row.cells, (cell) => cell.textContent.toLowerCase()).join(" ");
    return words.every((word) => cells.includes(word)) && (!groups || within(row, groups));
  });
};

const within = (row, groups) => {
  const own = row.querySelector("a.runs").dataset.groups.split(" ");
  return own.every((group) => groups.has(group));
};

const numbers = (link) =>
  link.dataset.groups ? new Set(link.dataset.groups.split(" ")) : null;

const sort = (head) => {
  const table = head.closest("table"), body = table.tBodies[0], at = head.cellIndex;
  const up = head.getAttribute("aria-sort") !== "ascending";
  for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", up ? "ascending" : "descending");
  const numeric = head.classList.contains("number");
  const key = (row) => {
    const cell = row.cells[at];
    if (!numeric) return cell.textContent;
    const text = cell.dataset.v ?? cell.textContent.replaceAll(",", "");
    return text ? Number(text.replace("inf", "Infinity")) : NaN;
  };
  const rows = Array.from(body.rows, (row) => [key(row), row]);
  rows.sort(([a], [b]) => {
    if (!numeric) return (up ? 1 : -1) * a.localeCompare(b, "en", { numeric: true });
    // What is unknown stands last, whichever way the rest is sorted.
    if (Number.isNaN(a) || Number.isNaN(b)) return Number.isNaN(a) - Number.isNaN(b);
    return a === b ? 0 : (up ? 1 : -1) * (a < b ? -1 : 1);
  });
  body.append(...rows.map(([, row]) => row));
};

for (const head of document.querySelectorAll("table.sortable th")) {
  head.querySelector("button")?.addEventListener("click", () => sort(head));
}
for (const input of document.querySelectorAll(".tools input")) {
  input.addEventListener("input", () => filter(input.closest("section"), input.value));
}
for (const button of document.querySelectorAll("button.all")) {
  button.addEventListener("click", () => filter(button.closest("section"), ""));
}

document.addEventListener("click", (event) => {
  const link = event.target.closest("a");
  if (!link) return;
  if (link.classList.contains("runs")) {
    const groups = numbers(link);
    runs.querySelector("input").value = "";
    show(runs, (row) => groups.has(row.dataset.g));
    event.preventDefault();
    history.pushState(null, "", link.hash);
    runs.scrollIntoView();
  } else if (link.classList.contains("rows")) {
    const section = document.querySelector(link.hash);
    if (section.querySelector("input")) filter(section, link.dataset.filter, numbers(link));
  } else if (link.classList.contains("problems")) {
    runs.querySelector("input").value = "";
    show(runs, (row) => row.querySelector(".problem"));
  }
});
