// The table of jobs: changes from the server, running clocks, groups that open, and keys.
import { startClocks } from "./clock.js";

const base = document.querySelector("meta[name=base-path]").content;
const WORDS = {
  live: "live",
  lost: "connection lost; trying again",
  closed: "The server was started again. Open the new address that slurmgen web printed.",
};
const REFRESH = 700; // milliseconds in which changes are collected
let source;
let refreshing;

const byId = (id) => document.getElementById(id);

/** Ask for the table as it is now, with the search and the order that are chosen. */
function refresh() {
  clearTimeout(refreshing);
  refreshing = setTimeout(() => (byId("view") ? htmx.trigger("#view", "refresh") : location.reload()), REFRESH);
}

/** Say whether the table is up to date, and for which sites it is not. */
function show(state) {
  const sites = document.querySelector("#problems [data-sites]")?.dataset.sites;
  const isPart = state === "live" && sites;
  const text = isPart ? `live, except ${sites}` : WORDS[state];
  byId("live").dataset.state = isPart ? "part" : state;
  if (byId("live").textContent !== text) byId("live").textContent = text;
}

/** Listen to changes while the tab is visible. */
function listen() {
  if (document.hidden || source) return;
  source = new EventSource(`${base}/jobs/events?since=${encodeURIComponent(byId("jobs").dataset.version)}`);
  source.addEventListener("open", () => show("live"));
  source.addEventListener("error", fail);
  source.addEventListener("changes", (event) => apply(JSON.parse(event.data), event.lastEventId));
}

/** Say that no changes come. The browser connects again, unless the server refused. */
function fail() {
  const isRefused = source.readyState === EventSource.CLOSED;
  show(isRefused ? "closed" : "lost");
  if (isRefused) source = undefined; // so that the tab tries again when it is next seen
}

/** Listen no more; the server queries no site if no tab listens. */
function stop() {
  source?.close();
  source = undefined;
}

/** Show what has changed. The server has escaped all text in it. */
function apply(changes, version) {
  byId("jobs").dataset.version = version;
  const problems = parsed(changes.problems);
  if (byId("problems").textContent.trim() !== problems.textContent.trim()) showProblems(problems);
  show("live");
  const moved = [...parsed(changes.rows).children].map(replace).some(Boolean);
  if (changes.whole || moved) refresh();
}

/** Say which sites are not reached. */
function showProblems(problems) {
  byId("problems").replaceChildren(problems);
  htmx.process(byId("problems"));
}

/** The elements of a part of the page. */
function parsed(html) {
  const template = document.createElement("template");
  template.innerHTML = html;
  return template.content;
}

/** Replace a row; returns whether the table has to be read again, since a row or a count is another one. */
function replace(row) {
  const old = byId(row.id);
  if (!old) return !row.classList.contains("member");
  const focused = old.contains(document.activeElement) && document.activeElement.id;
  const opens = old.querySelector(".opens");
  if (opens) row.querySelector(".opens").ariaExpanded = opens.ariaExpanded;
  old.replaceWith(row);
  htmx.process(row);
  if (focused) (byId(focused) ?? row.querySelector(".name")).focus();
  return old.dataset.kind !== row.dataset.kind;
}

/** Set a value of the form that is not typed, and show the table that it leads to. */
function choose(name, value, page = 1) {
  const fields = byId("view").elements;
  fields[name].value = value;
  fields.page.value = page;
  htmx.trigger("#view", "refresh");
}

/** Open or close a group. */
function toggle(group) {
  const fields = byId("view").elements;
  const open = new Set(fields.open.value.split(",").filter(Boolean));
  if (!open.delete(group)) open.add(group);
  choose("open", [...open].join(","), fields.page.value);
}

/** Move the focus between the jobs. */
function move(step) {
  const links = [...document.querySelectorAll("#rows .name")];
  const at = links.findIndex((link) => link.closest("tr").contains(document.activeElement));
  const next = links[at < 0 ? (step > 0 ? 0 : links.length - 1) : Math.min(links.length - 1, Math.max(0, at + step))];
  next?.focus();
  next?.scrollIntoView({ block: "nearest" });
}

const KEYS = {
  j: () => move(1),
  ArrowDown: () => move(1),
  k: () => move(-1),
  ArrowUp: () => move(-1),
  "/": () => byId("q")?.focus(),
};

document.addEventListener("keydown", (event) => {
  const typing = event.target.matches("input, select, textarea, dialog *");
  if (typing || event.ctrlKey || event.metaKey || event.altKey || !KEYS[event.key]) return;
  event.preventDefault();
  KEYS[event.key]();
});
document.addEventListener("click", (event) => {
  const group = event.target.closest(".opens")?.dataset.group;
  const sort = event.target.closest("[data-sort]")?.dataset.sort;
  if (group) toggle(group);
  if (sort && !event.ctrlKey && !event.metaKey) {
    event.preventDefault();
    choose("sort", sort);
  }
});
document.addEventListener("input", (event) => {
  if (event.target.matches("#q, #site, .kind input")) byId("view").elements.page.value = 1;
});
document.addEventListener("change", (event) => {
  // The states are outside of the form, so that their events do not reach it.
  if (event.target.matches(".kind input")) htmx.trigger("#view", "refresh");
});
document.addEventListener("visibilitychange", () => (document.hidden ? stop() : listen()));
addEventListener("pagehide", stop);
addEventListener("pageshow", listen);
document.addEventListener("htmx:afterSettle", (event) => {
  if (event.detail.target.id === "problems") show("live");
});
startClocks();
listen();
