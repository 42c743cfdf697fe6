"use strict";
document.documentElement.classList.add("scripted");
const PAGE = 20;
const all = (where, what) => Array.from(where.querySelectorAll(what));

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
// #examples/length-2 opens the section and shows the sentences of a bucket.
// On a page of several languages it is that of the link's own: where-de leads to examples-de.
function reveal(link) {
  const [name, tag] = decodeURIComponent(location.hash.slice(1)).split("/");
  const from = link && link.closest("details.section");
  const suffix = from ? from.id.replace(/^[^-]*/, "") : "";
  const part = document.getElementById(name) || document.getElementById(name + suffix);
  if (!part || !part.matches("details")) return;
  part.open = true;
  part.scrollIntoView();
  if (tag) part.dispatchEvent(new CustomEvent("bucket", { detail: tag }));
}
window.addEventListener("hashchange", () => reveal());
all(document, "a").forEach(link => link.addEventListener("click", () => setTimeout(reveal, 0, link)));
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
  const bucket = bar.querySelector(".bucket");
  const more = bar.parentElement.querySelector(".more");
  const section = bar.closest("details.section");
  const items = all(bar.parentElement, "article");
  const bare = text => text.toLowerCase().replace(/\s+/g, "");  // n-grams are cut into tokens
  let most = PAGE, tag = "";
  function choose() {
    const found = items.filter(item =>
      (tag ? item.dataset.tags.split(" ").includes(tag)
        : kind.value ? item.dataset.kinds.includes("|" + kind.value + "|")
          : item.dataset.kinds !== "||" || words.value) &&
      bare(item.textContent).includes(bare(words.value)));
    items.forEach(item => { item.hidden = true; });
    found.slice(0, most).forEach(item => { item.hidden = false; });
    more.hidden = found.length <= most;
    bucket.hidden = !tag;
    shown.textContent = Math.min(most, found.length) + " of " + found.length;
  }
  function anew() { most = PAGE; choose(); }
  words.addEventListener("input", anew);
  kind.addEventListener("change", () => { tag = ""; anew(); });
  more.addEventListener("click", () => { most += PAGE; choose(); });
  bucket.addEventListener("click", () => { tag = ""; anew(); });
  section.addEventListener("bucket", event => {
    tag = event.detail;
    const link = all(document, "td a").find(a => a.getAttribute("href").endsWith("/" + tag));
    const of = link && link.closest("table").querySelector("th").textContent.trim();
    bucket.textContent = (link ? of + " " + link.textContent : tag) + " \u00d7";
    anew();
  });
  choose();
});
reveal();

// Tables: what to copy, and a hint where columns are out of sight.
function grid(table) {
  const text = cell => cell.textContent.trim().replace(/\s+/g, " ");
  return Array.from(table.rows).map(row => Array.from(row.cells).map(text));
}
const kinds = {
  tsv: rows => rows.map(row => row.join("\t")).join("\n"),
  markdown: rows => rows.map((row, n) => "| " + row.map(c => c.replace(/[\\|]/g, "\\$&")).join(" | ") +
    " |" + (n ? "" : "\n|" + row.map((_, i) => i ? "---:|" : ":---|").join(""))).join("\n"),
  latex: rows => "\\begin{tabular}{l" + "r".repeat(rows[0].length - 1) + "}\n" + rows.map(row =>
    row.map(c => c.replace(/\\/g, "\\textbackslash ").replace(/[&%$#_{}]/g, "\\$&")
      .replace(/±/g, "$\\pm$").replace(/‡/g, "\\ddag").replace(/†/g, "\\dag")
      .replace(/[<>]/g, "$$$&$$")).join(" & ")).join(" \\\\\n") + " \\\\\n\\end{tabular}",
};
all(document, ".tools").forEach(tools => {
  const scroll = tools.previousElementSibling;
  const measure = () => tools.classList.toggle("cut", scroll.scrollWidth > scroll.clientWidth + 1);
  new ResizeObserver(measure).observe(scroll);
  tools.addEventListener("click", event => {
    const kind = event.target.dataset.copy;
    if (!kind) return;
    const area = document.createElement("textarea");  // a file has no navigator.clipboard everywhere
    area.value = kinds[kind](grid(scroll.querySelector("table")));
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
    event.target.textContent = "copied";
    setTimeout(() => { event.target.textContent = kind === "latex" ? "LaTeX" : kind === "tsv" ? "TSV" : kind; }, 1500);
  });
});
