"""Style and script of the HTML report: constants, in which no text of a user ever stands."""

from __future__ import annotations

import base64
import hashlib

STYLE = """\
:root { color-scheme: light; --ink: #1c2024; --soft: #5b6470; --paper: #ffffff; --card: #f5f6f8;
  --line: #d5d9df; --mark: #0b62b8; --good: #11703c; --bad: #a8322a; --first: #fde9c8;
  --second: #d3e9fb; --dot: #0072b2; }
@media (prefers-color-scheme: dark) { :root:not([data-theme="light"]) { color-scheme: dark;
  --ink: #e6e8eb; --soft: #a3abb6; --paper: #15181c; --card: #1f242a; --line: #3a424c;
  --mark: #6cb2f5; --good: #6fcf97; --bad: #ff8f85; --first: #584215; --second: #163f60;
  --dot: #56b4e9; } }
:root[data-theme="dark"] { color-scheme: dark;
  --ink: #e6e8eb; --soft: #a3abb6; --paper: #15181c; --card: #1f242a; --line: #3a424c;
  --mark: #6cb2f5; --good: #6fcf97; --bad: #ff8f85; --first: #584215; --second: #163f60;
  --dot: #56b4e9; }
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink);
  font: 16px/1.5 system-ui, sans-serif; }
body > * { max-width: 64rem; margin-left: auto; margin-right: auto; padding: 0 1rem; }
header { display: flex; flex-wrap: wrap; gap: .5rem 1rem; align-items: baseline;
  padding-top: 1rem; }
header h1 { font-size: 1.5rem; line-height: 1.25; margin: 0; flex: 1 1 16rem;
  overflow-wrap: anywhere; }
header p { flex: 1 0 100%; margin: 0; color: var(--soft); }
button, input, select { font: inherit; color: var(--ink); background: var(--card);
  border: 1px solid var(--line); border-radius: .35rem; padding: .2rem .6rem; }
button { cursor: pointer; }
.js { display: none; } .scripted .js { display: initial; }
.answer { margin-top: 1rem; } .answer div { border-left: .3rem solid var(--mark);
  background: var(--card); border-radius: .35rem; padding: .75rem 1rem; }
.answer p { margin: .25rem 0; overflow-wrap: anywhere; }
.answer p:first-child { font-size: 1.3rem; line-height: 1.35; font-weight: 600; }
p.warning { color: var(--bad); }
nav { margin-top: 1rem; } nav ul { display: flex; flex-wrap: wrap; gap: .25rem 1rem; margin: 0;
  padding: 0; list-style: none; }
a { color: var(--mark); }
details.section { border-top: 1px solid var(--line); margin-top: 1rem; padding-top: .5rem; }
details.section > summary { cursor: pointer; list-style: none; position: relative;
  padding: .25rem 0 .25rem 1.4rem; }
details.section > summary::-webkit-details-marker { display: none; }
details.section > summary::before { content: ""; position: absolute; left: .15rem; top: .85rem;
  border: .35rem solid transparent; border-left: .5rem solid var(--mark); }
details.section[open] > summary::before { transform: rotate(90deg); left: 0; top: .95rem; }
summary h2 { font-size: 1.2rem; margin: 0; } summary p { margin: 0; color: var(--soft); }
details:not(.section) > summary { cursor: pointer; color: var(--mark); }
h3 { font-size: 1rem; margin: 1.25rem 0 .25rem; }
.scroll { overflow-x: auto; margin: .75rem 0; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: .93rem; }
caption { text-align: left; color: var(--soft); padding-bottom: .25rem; }
th, td { padding: .25rem .7rem; text-align: right; white-space: nowrap;
  border-bottom: 1px solid var(--line); }
th { border-bottom: 2px solid var(--line); vertical-align: bottom; }
th:first-child, td:first-child { text-align: left; padding-left: .25rem; }
td:first-child { white-space: normal; overflow-wrap: anywhere; min-width: 7rem; }
th.text, td.text { text-align: left; }
td.text { white-space: normal; overflow-wrap: anywhere; min-width: 10rem; }
tr.part td { color: var(--soft); border-bottom-style: dotted; }
tr.part td:first-child { padding-left: 1.5rem; }
td.good { color: var(--good); } td.bad { color: var(--bad); }
th button { all: unset; cursor: pointer; }
th button:focus-visible { outline: 2px solid var(--mark); }
th button::after { content: "\\2195"; color: var(--soft); margin-left: .25rem; font-size: .8em; }
th[aria-sort="ascending"] button::after { content: "\\2191"; }
th[aria-sort="descending"] button::after { content: "\\2193"; }
figure { margin: .75rem 0; } figure > div { overflow-x: auto; }
figcaption { color: var(--soft); font-size: .9rem; }
figure svg { color: var(--ink); height: auto; width: var(--width); max-width: 100%;
  min-width: min(30rem, var(--width)); display: block; stroke-linejoin: round; }
svg.chart text { fill: currentColor; font: 13px system-ui, sans-serif; }
svg.chart .grid { stroke: var(--line); } svg.chart .bar { stroke: var(--dot); stroke-width: 2; }
svg.chart .dot { fill: var(--dot); } svg.chart .seed { fill: none; stroke: var(--dot); }
ul.notes { color: var(--soft); font-size: .9rem; padding-left: 1.2rem; overflow-wrap: anywhere; }
pre, code { font: .88rem/1.45 ui-monospace, monospace; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; background: var(--card); padding: .6rem .8rem;
  border-radius: .35rem; }
.filter { gap: .5rem; margin: .75rem 0; flex-wrap: wrap; align-items: center; }
.scripted .filter.js { display: flex; }
.filter input[type="search"] { flex: 1 1 12rem; min-width: 0; }
article { border: 1px solid var(--line); border-radius: .5rem; padding: .6rem .9rem;
  margin: .6rem 0; break-inside: avoid; }
article[hidden] { display: none; }
article h4 { margin: 0 0 .25rem; font-size: .9rem; color: var(--soft); font-weight: 600; }
article dl { display: grid; grid-template-columns: minmax(5rem, max-content) 1fr; gap: .2rem .9rem;
  margin: 0; } article dt { color: var(--soft); overflow-wrap: anywhere; max-width: 10rem; }
article dd { margin: 0; overflow-wrap: anywhere; }
article .scores { color: var(--soft); font-size: .85rem; white-space: nowrap; }
mark { color: inherit; border-radius: .2rem; padding: 0 .1rem; }
mark.first { background: var(--first); } mark.second { background: var(--second); }
footer { color: var(--soft); font-size: .85rem; padding-top: 1.5rem; padding-bottom: 2rem; }
@media (max-width: 40rem) { body { font-size: 15px; } th, td { padding: .2rem .45rem; }
  article dl { grid-template-columns: 1fr; gap: 0; } article dd { margin-bottom: .35rem; } }
@media print { :root, :root[data-theme="dark"] { color-scheme: light; --ink: #000; --soft: #444;
    --paper: #fff; --card: #f4f4f4; --line: #bbb; --mark: #000; --good: #11703c; --bad: #a8322a;
    --first: #fde9c8; --second: #d3e9fb; --dot: #0072b2; }
  body { font-size: 10pt; } body > * { max-width: none; padding: 0; }
  .js, .scripted .js, .scripted .filter.js, nav { display: none; }
  details::details-content { content-visibility: visible; display: block; }
  .scroll, figure > div { overflow: visible; } table { font-size: 8.5pt; }
  th, td { padding: .1rem .4rem; white-space: normal; } tr, figure { break-inside: avoid; }
  th button::after { content: ""; } h2, h3, summary { break-after: avoid; } }
"""

SCRIPT = """\
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
"""


def content_policy(script: str) -> str:
    """What a browser may do on a page: apply its styles, run this one script, load nothing.

    The script is to stand between <script>, a line break and </script>, as it is.
    """
    digest = base64.b64encode(hashlib.sha256(f"\n{script}".encode()).digest()).decode()
    return f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"
