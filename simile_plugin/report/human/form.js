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
  const lines = fields.map(field => field.id + "\t" + value(field) + "\n").join("");
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob(["item\trating\n" + lines], {type: "text/plain"}));
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
