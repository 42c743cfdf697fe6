"use strict";
const root = document.documentElement;
root.classList.add("scripted");
const all = (where, what) => Array.from(where.querySelectorAll(what));

const theme = document.getElementById("theme");
const themes = ["auto", "light", "dark"];
function paint(name) {
  if (name === "auto") root.removeAttribute("data-theme"); else root.dataset.theme = name;
  theme.textContent = "Colours: " + name;
  theme.value = name;
}
let wanted = "auto";
try { wanted = localStorage.getItem("simile-report-theme") || "auto"; } catch (error) { }
paint(themes.includes(wanted) ? wanted : "auto");
theme.addEventListener("click", () => {
  paint(themes[(themes.indexOf(theme.value) + 1) % themes.length]);
  try { localStorage.setItem("simile-report-theme", theme.value); } catch (error) { }
});

const sections = all(document, "details.section");
const fold = document.getElementById("fold");
function label() {
  fold.textContent = sections.every(part => part.open) ? "Close all" : "Open all";
}
fold.addEventListener("click", () => {
  const open = !sections.every(part => part.open);
  sections.forEach(part => { part.open = open; });
});
sections.forEach(part => part.addEventListener("toggle", label));
label();
function reveal() {
  const part = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (part && part.matches("details")) { part.open = true; part.scrollIntoView(); }
}
window.addEventListener("hashchange", reveal);
all(document, "nav a").forEach(link => link.addEventListener("click", () => setTimeout(reveal, 0)));
reveal();
let folded = [];
window.addEventListener("beforeprint", () => {
  folded = all(document, "details:not([open])");
  folded.forEach(part => { part.open = true; });
});
window.addEventListener("afterprint", () => folded.forEach(part => { part.open = false; }));

// A group is a row with the rows that belong to it: they stay together when a table is sorted.
function key(group, column) {
  const cell = group.rows[0].cells[column];
  if (!cell) return "";
  const number = parseFloat(cell.dataset.sort ?? cell.textContent.replace(/,/g, ""));
  return Number.isNaN(number) ? cell.textContent.trim().toLowerCase() : number;
}
function compare(a, b) {
  if (typeof a === typeof b) return a < b ? -1 : a > b ? 1 : 0;
  return typeof a === "number" ? -1 : 1;
}
all(document, "table.sortable").forEach(table => {
  const heads = all(table, "thead th");
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.title = "sort";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const before = head.getAttribute("aria-sort");
      const numeric = Array.from(table.tBodies).some(g => typeof key(g, column) === "number");
      const down = before ? before === "ascending" : numeric;
      heads.forEach(other => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      Array.from(table.tBodies)
        .map(group => [key(group, column), group])
        .sort((a, b) => compare(a[0], b[0]) * (down ? -1 : 1))
        .forEach(pair => table.append(pair[1]));
    });
  });
});

all(document, ".filter").forEach(bar => {
  const words = bar.querySelector("input");
  const kind = bar.querySelector("select");
  const shown = bar.querySelector("output");
  const items = all(bar.parentElement, "article");
  function choose() {
    const text = words.value.trim().toLowerCase();
    items.forEach(item => {
      item.hidden = !((kind.value === "" || item.dataset.kind === kind.value) &&
        item.textContent.toLowerCase().includes(text));
    });
    shown.textContent = items.filter(item => !item.hidden).length + " of " + items.length;
  }
  words.addEventListener("input", choose);
  kind.addEventListener("change", choose);
  choose();
});
