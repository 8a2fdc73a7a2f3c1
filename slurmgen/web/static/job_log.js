// The log that follows: lines arrive as server-sent events, and the page keeps only the last ones.
import { address } from "./job_page.js";

const MOST_LINES = 5000;
const MOST_CHARACTERS = 4_000_000;
const CLASSES = /^(bold ?)?(c[0-7])?$/;

const element = (name) => document.getElementById(name);
let source = null; // the open stream
let place = ""; // the byte after the last line that is shown
let follows = true; // whether the view stays at the end
let first = 0; // the byte at which the log on the page began
let dropped = 0; // lines that were shown and removed
let characters = 0; // on the page

/** One line as an element; every text is only text. */
function lineOf(runs) {
  const line = document.createElement("div");
  for (const [text, style] of runs) {
    if (!style || !CLASSES.test(style)) {
      line.append(text);
      continue;
    }
    const span = document.createElement("span");
    span.className = style;
    span.textContent = text;
    line.append(span);
  }
  return line;
}

/** Remove the oldest lines beyond what the page keeps. */
function trim(view) {
  while (view.childElementCount > MOST_LINES || (characters > MOST_CHARACTERS && view.childElementCount > 1)) {
    characters -= view.firstElementChild.textContent.length;
    view.firstElementChild.remove();
    dropped += 1;
  }
}

/** Say which lines are not on the page. */
function sayCut() {
  const note = element("log-cut");
  const parts = [];
  if (first > 0) parts.push("The page began with the last lines of this log.");
  if (dropped > 0) parts.push(`It keeps the last ${MOST_LINES.toLocaleString("en")} lines.`);
  if (parts.length) parts.push("Save has all of them.");
  note.textContent = parts.join(" ");
  note.hidden = parts.length === 0;
}

/** Show lines, and the beginning of one that has no end yet. */
function show({ lines, rest }) {
  const view = element("log-lines");
  view.querySelector(".rest")?.remove();
  const added = document.createDocumentFragment();
  for (const runs of lines) {
    const line = lineOf(runs);
    characters += line.textContent.length;
    added.append(line);
  }
  view.append(added);
  trim(view);
  if (rest.length) {
    const line = lineOf(rest);
    line.classList.add("rest");
    view.append(line);
  }
  sayCut();
  if (follows) view.scrollTop = view.scrollHeight;
}

/** Empty the view. */
function clear() {
  element("log-lines").replaceChildren();
  dropped = characters = 0;
  sayCut();
}

/** Say how the stream is. */
function say(text) {
  const state = element("log-state");
  if (state.textContent !== text) state.textContent = text; // each change is announced
  const isEmpty = element("log-lines").childElementCount === 0;
  element("log-unlabelled").hidden = !(isEmpty && element("log-rank")?.value && source === null);
}

/** What the address of the stream needs beside the task. */
function chosen() {
  return { file: element("log-file").value, rank: element("log-rank")?.value ?? "" };
}

/** Connect at the byte after the last line that is shown; a new view begins with the last lines. */
function connect() {
  source?.close();
  source = new EventSource(address("log", { ...chosen(), from: place }));
  const on = (kind, action) => source.addEventListener(kind, (event) => {
    if (event.lastEventId) place = event.lastEventId;
    action(JSON.parse(event.data));
  });
  on("start", ({ byte }) => { clear(); first = byte; say("Following"); });
  on("none", () => say("There is no log yet"));
  on("restart", () => { clear(); first = 0; say("Written anew"); });
  on("lines", (part) => { show(part); say("Following"); });
  on("problem", ({ text }) => say(`${text} Trying again …`));
  on("end", ({ text }) => { disconnect(); say(text); element("log-pause").disabled = true; });
  source.onerror = () => {
    if (source) say(source.readyState === EventSource.CONNECTING ? "Connecting …" : "The server does not send this log. Reload the page.");
  };
}

/** Close the stream; `connect` continues where it was. */
function disconnect() {
  source?.close();
  source = null;
}

/** Show another log, or the lines of another rank. */
function restart() {
  place = "";
  first = 0;
  clear();
  setPaused(false);
}

/** Stop reading the log, or go on. */
function setPaused(paused) {
  const button = element("log-pause");
  button.setAttribute("aria-pressed", String(paused));
  button.textContent = paused ? "Continue" : "Pause";
  button.disabled = false;
  if (paused) {
    disconnect();
    say("Paused");
  } else {
    connect();
  }
  element("log-save").href = address("log.txt", { file: element("log-file").value });
}

/** Offer the other logs that the job has written. */
export function offerLogs(logs) {
  const select = element("log-file");
  for (const { id, name } of logs) {
    if ([...select.options].some((option) => option.value === id)) continue;
    const option = new Option(name, id);
    select.add(option);
  }
}

/** Follow the end while the user has not scrolled away from it. */
function startScrolling(view) {
  view.addEventListener("scroll", () => {
    follows = view.scrollHeight - view.scrollTop - view.clientHeight < 40;
    element("log-end").hidden = follows;
  });
  element("log-end").addEventListener("click", () => {
    view.scrollTop = view.scrollHeight;
    view.focus();
  });
}

/** Follow the log from now on. A page that is not seen reads nothing. */
export function startLog() {
  const view = element("log-lines");
  const wrap = element("log-wrap");
  const setWrap = () => view.classList.toggle("wrapped", wrap.checked);
  setWrap();
  wrap.addEventListener("change", setWrap);
  startScrolling(view);
  element("log-pause").addEventListener("click", () => setPaused(source !== null));
  element("log-file").addEventListener("change", restart);
  element("log-rank")?.addEventListener("change", restart);
  document.addEventListener("visibilitychange", () => {
    const paused = element("log-pause").getAttribute("aria-pressed") === "true";
    if (document.hidden && source) {
      disconnect();
      document.body.dataset.logHidden = "yes";
    } else if (!document.hidden && document.body.dataset.logHidden && !paused) {
      delete document.body.dataset.logHidden;
      connect();
    }
  });
  connect();
}
