// The linter: a script is checked as one types; findings and their fixes are in the editor and in a list.
import { EditorView, forEachDiagnostic, setDiagnostics } from "./vendor/codemirror.min.js";
import { droppedFile, makeEditor } from "./linter_editor.js";
import { diagnostic, item, summary } from "./linter_findings.js";
import { review } from "./linter_review.js";

const DELAY = 200; // milliseconds from the last key to the check
const KEPT = "lint-script"; // in sessionStorage: the text, for a reload and from other pages of this tab
const SITE = "lint-site"; // in sessionStorage: the site, likewise
const NONE = { total: 0, findings: [] };
const element = (id) => document.getElementById(id);
const base = document.querySelector("meta[name=base-path]").content;

let timer = 0;
let running = new AbortController();
let found = NONE;
let isChecked = false; // whether `found` belongs to the text and the site as they are
let name = "job.sbatch";

const view = makeEditor(element("editor"), sessionStorage.getItem(KEPT) ?? "", {
  changed: () => { keep(); checkSoon(); },
  opened: openFile,
});
const script = () => view.state.doc.toString();

/** Keep the text for this tab; one that is too large for that is not kept. */
function keep() {
  try {
    sessionStorage.setItem(KEPT, script());
  } catch {
    sessionStorage.removeItem(KEPT);
  }
}

/** Why there is no answer: a sentence for the user, and the seconds until another try makes sense, if any. */
class Refusal extends Error {
  constructor(sentence, again = 0) {
    super(sentence);
    this.again = Number(again);
  }
}

/** The server's answer, or a Refusal. */
async function ask(more, signal) {
  const form = new URLSearchParams({ script: script(), site: element("site").value, ...more });
  if (element("notes").checked) form.set("notes", "on");
  const reply = await fetch(`${base}/lint/findings`, { method: "POST", body: form, signal }).catch(() => {
    throw new Refusal("The server does not answer. Is it still running?");
  });
  if (reply.ok) return reply.json();
  if (reply.status === 413) throw new Refusal("The script is too large to check here: a request has at most a megabyte.");
  const isSentence = reply.headers.get("content-type")?.startsWith("text/plain");
  const sentence = isSentence ? await reply.text() : `The server refused the script (${reply.status}).`;
  throw new Refusal(sentence, reply.headers.get("retry-after") ?? 0);
}

/** Check when no key was pressed for a moment. What is on its way belongs to an older text. */
function checkSoon() {
  isChecked = false;
  running.abort();
  clearTimeout(timer);
  timer = setTimeout(check, DELAY);
}

/** Check now. An answer that a newer check overtook is not shown. */
async function check() {
  checkSoon();
  clearTimeout(timer);
  const { signal } = (running = new AbortController());
  try {
    const answer = script().trim() ? await ask({}, signal) : NONE;
    if (!signal.aborted) show(answer);
  } catch (error) {
    if (signal.aborted) return;
    refuse(error.message, NONE);
    if (error.again) timer = setTimeout(check, error.again * 1000);
  }
}

/** Show the findings of the text. */
function show(answer) {
  [found, isChecked] = [answer, true];
  element("refusal").hidden = true;
  element("summary").textContent = script().trim() ? summary(found) : "";
  const fixable = found.findings.filter((finding) => finding.changes.length);
  const safe = fixable.filter((finding) => finding.safe);
  showFixAll("fix-safe", safe, "Fix all safe");
  showFixAll("fix-all", fixable.length > safe.length ? fixable : [], "Fix all");
  element("findings").replaceChildren(...found.findings.map((finding) => item(finding, { goTo, fix })));
  view.dispatch(setDiagnostics(view.state, found.findings.map((finding) => diagnostic(finding, fix))));
}

/** Show why something was not done; `answer` is what is known of the text. */
function refuse(reason, answer = found) {
  show(answer);
  element("refusal").hidden = false;
  element("refusal").textContent = reason;
  if (answer === NONE) element("summary").textContent = "Not checked";
}

/** Show a button that fixes several findings, if there are any. */
function showFixAll(id, fixable, text) {
  element(id).hidden = !fixable.length;
  element(id).textContent = `${text} (${fixable.length})`;
}

/** Move the cursor to a finding, which moved with the text since it was checked. */
function goTo(finding) {
  forEachDiagnostic(view.state, (shown, from, to) => {
    if (shown.finding !== finding) return;
    view.dispatch({ selection: { anchor: from, head: to }, effects: EditorView.scrollIntoView(from, { y: "center" }) });
  });
  view.focus();
}

/** Show what changes do, and make them if the user agrees, as one step that can be undone. */
async function propose(title, note, changes) {
  const kept = await review(view.state, title, note, changes);
  if (kept && !kept.empty) view.dispatch({ changes: kept, userEvent: "input.fix" });
  view.focus();
  check();
}

/** Fix one finding. If the text has changed since the check, the finding is looked up again. */
async function fix(finding) {
  if (!isChecked) await check();
  const now = found.findings.find((other) => other.code === finding.code && other.message === finding.message);
  if (!now || !isChecked) return;
  const note = now.safe ? "A script that runs does the same after this change." : "This changes what runs.";
  await propose(`${now.code}: ${now.advice || now.message}`, note, now.changes);
}

/** All fixes together, as `slurmgen lint --fix` makes them: none that causes another finding. */
async function fixAll(fixes, note) {
  const { doc } = view.state;
  try {
    const { changes, applied } = await ask({ fixes });
    if (view.state.doc !== doc) return;
    if (changes.length) await propose(`Fix ${[...new Set(applied)].join(", ")}`, note, changes);
    else refuse("Each of these fixes would reveal or cause another finding. Make them one by one.");
  } catch (error) {
    refuse(error.message);
  }
}

/** Replace the whole text, as one step that can be undone. */
function load(text) {
  const insert = view.state.toText(text);
  view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert }, selection: { anchor: 0 } });
  view.focus();
  check();
}

/** Read a file that was dropped or chosen. A byte order mark stays: sbatch rejects it. */
async function openFile(file) {
  name = file.name;
  load(new TextDecoder("utf-8", { ignoreBOM: true }).decode(await file.arrayBuffer()));
}

/** Save the text as a file of the browser's downloads. */
function download() {
  const link = document.createElement("a");
  link.download = name;
  link.href = URL.createObjectURL(new Blob([script()], { type: "text/plain" }));
  link.click();
  URL.revokeObjectURL(link.href);
}

// A browser would leave the page to show a file that is dropped beside the editor.
addEventListener("dragover", (event) => { if (event.dataTransfer?.types.includes("Files")) event.preventDefault(); });
addEventListener("drop", (event) => {
  if (!event.defaultPrevented) droppedFile(event, element("review").open ? () => {} : openFile);
});
const onClick = (id, action) => element(id).addEventListener("click", action);
onClick("fix-safe", () => fixAll("safe", "A script that runs does the same after these changes."));
onClick("fix-all", () => fixAll("unsafe", "Some of these changes change what runs."));
onClick("download", download);
onClick("example", async () => load(await (await fetch(`${base}/static/linter_example.sbatch`)).text()));
element("file").addEventListener("change", ({ target }) => {
  if (target.files[0]) openFile(target.files[0]);
  target.value = "";
});
for (const id of ["site", "notes"]) element(id).addEventListener("change", check);
element("site").addEventListener("change", ({ target }) => sessionStorage.setItem(SITE, target.value));
if ([...element("site").options].some((option) => option.value === sessionStorage.getItem(SITE))) element("site").value = sessionStorage.getItem(SITE);
check();
