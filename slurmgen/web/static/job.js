// The page of one job: its state, and the parts that are loaded when they are needed.
import { startClocks } from "./clock.js";
import { startCurves } from "./job_curves.js";
import { startLog } from "./job_log.js";
import { address, hasEnded, repeat } from "./job_page.js";
import { checkScript } from "./job_script.js";
import { startSweep } from "./job_sweep.js";

const SECONDS = 3; // between two looks at the state that the server knows; it alone queries the site
const root = document.getElementById("job");

/** Read the state, unless it is shown already; returns whether to read it again. */
async function readState() {
  const state = document.getElementById("state");
  const ended = hasEnded();
  const shown = state.querySelector("[data-shown]")?.dataset.shown ?? "";
  await htmx.ajax("GET", address("state", { shown }), { source: state, target: state, swap: "innerHTML" }).catch(() => {});
  return !ended;
}

/** Say a new state once, for screen readers; a job that has ended cannot be cancelled. */
function announce() {
  document.querySelector(".job-actions .danger")?.toggleAttribute("hidden", hasEnded());
  const state = document.querySelector("#state [data-state]")?.dataset.state;
  const place = document.getElementById("announce");
  const text = state ? `The job is ${state}.` : "";
  if (place.textContent !== text) place.textContent = text;
}

/** Load a part when it is opened; again every few seconds while it is open, if it says so. */
function startPart(details) {
  const target = details.querySelector(".loaded");
  const load = () => htmx.ajax(details.dataset.method ?? "GET", address(details.dataset.load), { source: details, target, swap: "innerHTML" });
  let timer = 0;
  details.addEventListener("toggle", () => {
    clearInterval(timer);
    if (!details.open) return;
    load();
    if (details.dataset.every) {
      timer = setInterval(() => document.hidden || hasEnded() || load(), details.dataset.every * 1000);
    }
  });
}

/** Start everything that this page has. */
function start() {
  const state = document.getElementById("state");
  state?.addEventListener("htmx:afterSwap", announce);
  if (state) repeat(readState, SECONDS);
  startClocks();
  document.querySelectorAll("details[data-load]").forEach(startPart);
  document.querySelector("[data-load=script]")?.addEventListener("htmx:afterSwap", () => checkScript(root.dataset.site));
  if (document.getElementById("log")) startLog();
  if (document.getElementById("curves")) startCurves();
  if (document.getElementById("sweep")) startSweep();
}

start();
