// The generator: the request in the address, refusals at their fields, copying, and the keyboard.
"use strict";
const form = document.getElementById("request");
const answer = document.getElementById("answer");
const refusal = document.getElementById("refusal");
const script = () => document.getElementById("lines");

// The fields that differ from an empty form, as in an address.
const given = () => new URLSearchParams([...form.elements]
  .filter((one) => one.name && one.name !== "shown" && one.value !== initial(one))
  .map((one) => [one.name, one.value]));

// The value of a field in an empty form.
const initial = (one) => (one.options ? [...one.options].find((option) => option.defaultSelected) || one.options[0] : { value: one.defaultValue }).value;

// Show in each empty field the value that slurmgen.toml or personal.toml gives it. What the form has itself comes first.
const fill = () => form.querySelectorAll("[data-written]").forEach((hint) => {
  const one = form.elements.namedItem(hint.id.slice("hint-".length)), { written } = hint.dataset;
  if (one.options) one.options[0].text = written ? `default: ${written}` : "default";
  else one.placeholder = written || (one.dataset.example ??= one.placeholder);
  one.classList.toggle("written", Boolean(written));
});

// Put the request into the address, without a step in the browser's history.
const remember = () => {
  const text = given().toString();
  history.replaceState(null, "", text ? `#${text}` : location.pathname + location.search);
};

// Ask the server for the script of the present values.
const refresh = () => htmx.trigger(form, "refresh");

// Set a field. A value that a list does not have is added to it, and the name of a field that there is not goes
// into one of its own, so that the server refuses them.
const set = (name, value) => {
  const one = form.elements.namedItem(name);
  if (!one) {
    form.elements.namedItem("unknown").value ||= name;
    return;
  }
  if (one.options && ![...one.options].some((option) => option.value === value)) one.add(new Option(value));
  one.value = value;
  for (let group = one.closest("details"); group && value; group = null) group.open = true;
};

// Empty the form, as far as the user can fill it.
const clear = () => {
  [...form.elements].filter((one) => one.name && one.name !== "shown").forEach((one) => { one.value = initial(one); });
};

// Fill the form from the address. No script is shown until it is of these values.
const recall = () => {
  answer.hidden = true;
  clear();
  for (const [name, value] of new URLSearchParams(location.hash.slice(1))) set(name, value);
  refresh();
};

// Remove the last refusal from its field.
const accept = () => {
  document.querySelectorAll(".slot").forEach((one) => one.replaceChildren());
  form.querySelectorAll("[aria-invalid]").forEach((one) => one.removeAttribute("aria-invalid"));
};

// Announce the outcome to screen readers: once, when no key was pressed for a moment.
let announced;
const announce = (outcome) => {
  clearTimeout(announced);
  announced = setTimeout(() => {
    const place = document.getElementById("said");
    if (place.textContent !== outcome) place.textContent = outcome;
  }, 1000);
};

// Show a refusal at its field; the last script stays, marked as one of other values.
const refuse = () => {
  accept();
  answer.classList.add("stale");
  answer.inert = true;
  const found = refusal.querySelector(".refused");
  announce((found || refusal).querySelector("p").textContent.trim());
  const one = found && form.elements.namedItem(found.dataset.field);
  if (!one) return;
  document.getElementById(`problem-${one.name}`).replaceChildren(found);
  one.setAttribute("aria-invalid", "true");
  for (let group = one.closest("details"); group; group = null) group.open = true;
  if (one === document.activeElement) found.scrollIntoView({ block: "nearest" });
};

// Show a script that is of the present values.
const valid = () => {
  accept();
  refusal.replaceChildren();
  answer.hidden = false;
  answer.classList.remove("stale");
  answer.inert = false;
  announce("The script is up to date.");
  enter();
};

// Say that the server gave no answer, and why, as failure.js has found out; the next change asks again.
const fail = () => {
  const notice = Object.assign(document.createElement("p"), { className: "notice error" });
  const why = document.getElementById("failure").textContent.trim();
  notice.textContent = answer.hidden ? why : `${why} The script below shows the previous request.`;
  refusal.replaceChildren(notice);
  answer.classList.add("stale");
  announce(notice.textContent);
};

// One line of the script is in the order of the Tab key; the arrow keys move to the others.
const lines = () => [...script().querySelectorAll("li[tabindex]")];
const enter = () => { const [first] = lines(); if (first) first.tabIndex = 0; };
const move = (from, to) => {
  if (!to) return;
  from.tabIndex = -1;
  to.tabIndex = 0;
  to.focus();
};
const STEPS = { ArrowDown: 1, ArrowUp: -1, Home: -Infinity, End: Infinity };
const step = (event) => {
  const all = lines(), at = all.indexOf(event.target);
  if (at < 0 || !(event.key in STEPS)) return;
  event.preventDefault();
  move(all[at], all[Math.max(0, Math.min(all.length - 1, at + STEPS[event.key]))]);
};

// The texts that can be copied.
const text = () => [...script().querySelectorAll("code")].map((one) => `${one.textContent}\n`).join("");
const TEXTS = {
  script: text,
  command: () => document.getElementById("as-command").textContent,
  toml: () => document.getElementById("as-toml").textContent,
  link: () => { remember(); return location.href; },
};

// Copy a text, also where the browser has no clipboard, as on a page without TLS.
const copy = async (button) => {
  const what = TEXTS[button.dataset.copy]();
  if (navigator.clipboard) await navigator.clipboard.writeText(what);
  else copyByHand(what);
  said(button, "Copied");
};
const copyByHand = (what) => {
  const area = document.body.appendChild(document.createElement("textarea"));
  area.value = what;
  area.select();
  document.execCommand("copy");
  area.remove();
};

// Say what a button has done, on the button and to screen readers.
const said = (button, what) => {
  button.dataset.label ??= button.textContent; // it may be pressed again before its label is back
  document.getElementById("said").textContent = what;
  button.textContent = what;
  setTimeout(() => { button.textContent = button.dataset.label; }, 1200);
};

// Save the script as a file.
const download = (button) => {
  const address = URL.createObjectURL(new Blob([text()], { type: "text/x-shellscript" }));
  Object.assign(document.createElement("a"), { href: address, download: button.dataset.download }).click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
};

// Open the script in the linter, with its site.
const lint = () => {
  sessionStorage.setItem("lint-script", text());
  sessionStorage.setItem("lint-site", form.elements.namedItem("site").value);
  location.assign(`${document.querySelector("meta[name=base-path]").content}/lint`);
};

// Fill in what a refusal offers; a field with several values gets one more line. A variable that becomes a secret
// loses its value.
const take = ({ dataset: { field, value } }) => {
  const one = form.elements.namedItem(field), variables = form.elements.namedItem("env");
  if (field === "secrets") variables.value = variables.value.split("\n").filter((line) => !line.startsWith(`${value}=`)).join("\n");
  set(field, value && one.rows ? [one.value, value].filter(Boolean).join("\n") : value);
  one.focus();
  refresh();
};

document.addEventListener("click", ({ target }) => {
  const button = target.closest("button");
  if (!button) return;
  if (button.dataset.copy) copy(button);
  if (button.dataset.download) download(button);
  if (button.dataset.go) form.elements.namedItem(button.dataset.go).focus();
  if ("value" in button.dataset) take(button);
  if (button.id === "lint") lint();
  if (button.id === "reset") { clear(); refresh(); }
});
document.addEventListener("keydown", step);
for (const event of ["htmx:sendError", "htmx:timeout", "htmx:responseError"]) addEventListener(event, fail); // after failure.js
addEventListener("hashchange", recall);
let waiting;
document.body.addEventListener("htmx:afterSwap", ({ target }) => {
  fill();
  if (target === answer) valid();
  if (target === refusal) refuse();
  if (target !== answer && target !== refusal) return; // a hint
  clearTimeout(waiting);
  if (target === refusal && ["env", "secrets"].some((name) => form.elements.namedItem(name).value)) return; // may hold a secret
  waiting = setTimeout(remember, 250); // browsers refuse more than a few changes a second
});
fill();
if (script()) enter();
addEventListener("DOMContentLoaded", () => { if (location.hash.length > 1 || !script()) recall(); }); // after htmx has begun
