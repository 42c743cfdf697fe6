"""What annotators fill in: one sheet each, as TSV for a spreadsheet and as an HTML form.

The form is one file that works without a network. Sentences stand in it as escaped text only; its
script reads nothing but the names and states of radio buttons.
"""

from __future__ import annotations

import csv
import io
import os
from html import escape
from pathlib import Path

from simile_plugin.files import atomic_write
from simile_plugin.report.human import SCALE, Item, Study
from simile_plugin.report.page_style import content_policy

RATING = "rating"
ITEM = "item"
# A cell that begins so is a formula to a spreadsheet.
FORMULA_STARTS = ("=", "+", "-", "@")

STYLE = """\
:root { color-scheme: light dark; --ink: #1c2024; --soft: #5b6470; --paper: #ffffff;
  --card: #f5f6f8; --line: #d5d9df; --mark: #0b62b8; --onmark: #ffffff; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e8eb; --soft: #a3abb6; --paper: #15181c;
  --card: #1f242a; --line: #3a424c; --mark: #6cb2f5; --onmark: #10151a; } }
body { margin: 0; background: var(--paper); color: var(--ink);
  font: 16px/1.5 system-ui, sans-serif; }
main, header { max-width: 46rem; margin: 0 auto; padding: 1rem; }
.bar { position: sticky; top: 0; z-index: 1; background: var(--paper);
  border-bottom: 1px solid var(--line); }
.bar div { max-width: 46rem; margin: 0 auto; padding: .5rem 1rem; display: flex; gap: 1rem;
  align-items: center; flex-wrap: wrap; }
.bar progress { flex: 1 1 8rem; }
fieldset { border: 1px solid var(--line); border-radius: .5rem; background: var(--card);
  margin: 0 0 1.25rem; padding: .75rem 1rem; min-width: 0; }
fieldset.current { outline: 2px solid var(--mark); }
legend { color: var(--soft); font-size: .85rem; padding: 0 .35rem; }
dl { margin: 0 0 .75rem; } dt { color: var(--soft); font-size: .85rem; }
dd { margin: 0 0 .5rem; overflow-wrap: anywhere; }
.scale { display: flex; flex-wrap: wrap; gap: .4rem; }
.scale label { border: 1px solid var(--line); border-radius: .35rem; padding: .3rem .9rem;
  background: var(--paper); cursor: pointer; }
.scale label:has(:checked) { background: var(--mark); color: var(--onmark);
  border-color: var(--mark); }
.scale label:focus-within { outline: 2px solid var(--mark); outline-offset: 1px; }
button { font: inherit; padding: .35rem .9rem; border-radius: .35rem; cursor: pointer;
  border: 1px solid var(--mark); background: var(--mark); color: var(--onmark); }
"""

SCRIPT = """\
"use strict";
const form = document.getElementById("items");
const fields = Array.from(form.querySelectorAll("fieldset"));
const store = "simile-human-eval-" + form.dataset.sheet;
let kept = true;
let current = 0;
function value(field) {
  const chosen = field.querySelector("input:checked");
  return chosen ? chosen.value : "";
}
function show() {
  const done = fields.filter(field => value(field) !== "").length;
  document.getElementById("progress").value = done;
  document.getElementById("count").textContent = done + " of " + fields.length;
  fields.forEach((field, i) => field.classList.toggle("current", i === current));
}
function keep() {
  const state = {};
  fields.forEach(field => { if (value(field) !== "") state[field.id] = value(field); });
  try { localStorage.setItem(store, JSON.stringify(state)); kept = true; }
  catch (error) { kept = false; }
}
function load() {
  let state = {};
  try { state = JSON.parse(localStorage.getItem(store)) || {}; } catch (error) { kept = false; }
  fields.forEach(field => {
    field.querySelectorAll("input").forEach(input => {
      if (input.value === state[field.id]) input.checked = true;
    });
  });
  current = Math.max(0, fields.findIndex(field => value(field) === ""));
}
function save() {
  const missing = fields.findIndex(field => value(field) === "");
  if (missing >= 0) {
    current = missing;
    show();
    fields[missing].scrollIntoView({block: "center"});
    if (!confirm("Some translations have no rating yet. Save what is there?")) return;
  }
  const lines = fields.map(field => field.id + "\\t" + value(field) + "\\n").join("");
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob(["item\\trating\\n" + lines], {type: "text/plain"}));
  link.download = "answers." + form.dataset.sheet + ".tsv";
  document.body.appendChild(link);
  link.click();
  link.remove();
  kept = true;
}
form.addEventListener("change", event => {
  const field = event.target.closest("fieldset");
  if (field) current = fields.indexOf(field);
  kept = false;
  keep();
  show();
});
document.addEventListener("keydown", event => {
  if (event.ctrlKey || event.metaKey || event.altKey || !/^[0-5]$/.test(event.key)) return;
  const field = fields[current];
  field.querySelectorAll("input").forEach(input => { input.checked = input.value === event.key; });
  keep();
  current = Math.min(current + 1, fields.length - 1);
  show();
  fields[current].scrollIntoView({block: "center"});
});
document.getElementById("save").addEventListener("click", save);
window.addEventListener("beforeunload", event => { if (!kept) event.preventDefault(); });
load();
show();
"""


def write_sheets(study: Study, folder: str) -> list[str]:
    """Write sheet.A.tsv and sheet.A.html for each annotator A; returns their paths.

    A sheet that is there stays: an interrupted call wrote it, and it may hold answers by now.

    Raises:
        OSError: if the folder is missing or not writable.
    """
    paths = []
    for annotator in range(1, study.settings.annotators + 1):
        for ending, render in (("tsv", render_tsv), ("html", render_form)):
            path = str(Path(folder) / f"sheet.{annotator}.{ending}")
            if not os.path.exists(path):
                with atomic_write(path) as stream:
                    stream.write(render(study, annotator))
            paths.append(path)
    return paths


def render_tsv(study: Study, annotator: int) -> str:
    """A sheet for a spreadsheet: item, rating (to fill in), source if shown, both sentences."""
    with_source = any(item.source is not None for item in study.items)
    stream = io.StringIO()
    writer = csv.writer(stream, dialect="excel-tab", lineterminator="\n")
    writer.writerow(
        [ITEM, RATING, *(["source"] if with_source else []), "reference", "translation"]
    )
    for number in study.order(annotator):
        item = study.items[number - 1]
        texts = [*([item.source or ""] if with_source else []), item.reference, item.translation]
        writer.writerow([study.item_id(annotator, number), "", *map(_inert, texts)])
    return stream.getvalue()


def _inert(text: str) -> str:
    """Text that no spreadsheet takes for a formula."""
    return f"'{text}" if text.startswith(FORMULA_STARTS) else text


def render_form(study: Study, annotator: int) -> str:
    """A sheet as one HTML file that keeps its state in the browser and saves answers as TSV."""
    sheet = f"{study.fingerprint}-{annotator}"
    numbers = study.order(annotator)
    fields = "\n".join(
        _field(study.item_id(annotator, number), study.items[number - 1], place, len(numbers))
        for place, number in enumerate(numbers, start=1)
    )
    scale = "\n".join(f"<li value='{n}'>{escape(words)}</li>" for n, words in SCALE.items())
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{content_policy(SCRIPT)}">
<title>Rating translations, sheet {annotator}</title>
<style>
{STYLE}</style>
</head>
<body>
<header>
<h1>Rating translations, sheet {annotator}</h1>
<p>Each box has a reference translation, written by a person, and another translation of the same
sentence. Say how close the meaning of the translation is to the meaning of the reference:</p>
<ol start="0">
{scale}
</ol>
<p>Judge every translation by itself. You can click, or type a digit from 0 to 5 for the box with
the blue frame. This browser keeps your ratings, so you can stop and come back; when you are done,
press “Save answers” and send the file that it saves.</p>
<noscript>
<p>Scripts are off in this browser: please fill in the sheet that ends in .tsv.</p>
</noscript>
</header>
<div class="bar"><div>
<progress id="progress" max="{len(numbers)}" value="0" aria-label="rated"></progress>
<span id="count">0 of {len(numbers)}</span>
<button id="save" type="button">Save answers</button>
</div></div>
<main>
<form id="items" data-sheet="{sheet}" autocomplete="off">
{fields}
</form>
</main>
<script>
{SCRIPT}</script>
</body>
</html>
"""


def _field(name: str, item: Item, place: int, total: int) -> str:
    pairs = [("Source", item.source), ("Reference", item.reference)]
    pairs.append(("Translation", item.translation or "(empty)"))
    texts = "".join(
        f'<dt>{title}</dt><dd dir="auto">{escape(text)}</dd>' for title, text in pairs if text
    )
    radios = "".join(
        f'<label title="{escape(words)}"><input type="radio" name="{name}" value="{n}"> {n}</label>'
        for n, words in SCALE.items()
    )
    return (
        f'<fieldset id="{name}"><legend>{place} of {total}</legend><dl>{texts}</dl>'
        f'<div class="scale" role="radiogroup" aria-label="rating">{radios}</div></fieldset>'
    )
