// The page of one job: its state, and the parts that are loaded when they are needed.
import { startClocks } from "./clock.js";
import { startCurves } from "./job_curves.js";
import { startLog } from "./job_log.js";
import { checkScript } from "./job_script.js";
import { startSweep } from "./job_sweep.js";

const SECONDS = 3; // between two looks at the state that the server knows; it alone queries the site
const root = document.getElementById("job");

/** The address of a part of this job, with the task of the page and further parameters. */
export function address(part, more = {}) {
  const query = new URLSearchParams(root.dataset.query);
  for (const [name, value] of Object.entries(more)) if (value !== "") query.set(name, value);
  const text = query.toString();
  return `${root.dataset.here}/${part}${text ? `?${text}` : ""}`;
}

/** What a part replies as JSON; an object with `problem` if that fails. */
export async function reply(part, more = {}) {
  try {
    const answer = await fetch(address(part, more));
    if (answer.ok) return await answer.json();
    if (answer.status === 403) return { problem: "The server was started again. Open the new address that slurmgen web printed." };
    return { problem: `The server replied with status ${answer.status}.` };
  } catch {
    return { problem: "The server of this page does not reply." };
  }
}

/** Whether the job has ended, as far as the page knows. */
export function hasEnded() {
  return document.querySelector("#state [data-ended]")?.dataset.ended === "yes";
}

/** Call an action now and every few seconds while the page is seen, until it returns false. */
export async function repeat(action, seconds) {
  const again = document.hidden || await action();
  if (again) setTimeout(() => repeat(action, seconds), seconds * 1000);
}

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
