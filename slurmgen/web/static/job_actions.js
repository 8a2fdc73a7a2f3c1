// The dialog of the actions: it opens when its content has come, and says if the server does not reply.

const dialog = document.getElementById("dialog");
const body = document.getElementById("dialog-body");
const NO_REPLY = "The server of this page does not reply. Is slurmgen web still running?";
const NOT_SUBMITTED = `${NO_REPLY} Press Submit again later: it finds the job, and never submits a second one.`;
let opener; // what had the focus before the dialog

/** An element with a text. */
function made(tag, text, values = {}) {
  const element = Object.assign(document.createElement(tag), values);
  element.textContent = text;
  return element;
}

/** What the dialog has if its content did not come. */
function empty() {
  const row = made("div", "", { className: "row end" });
  const button = made("button", "Close", { type: "button", className: "primary" });
  button.dataset.close = "";
  row.append(button);
  return [made("h2", "This cannot be done now", { id: "dialog-title" }), row];
}

/** Say in the dialog why a request failed. */
function fail(text) {
  if (!dialog.open) body.replaceChildren(...empty());
  document.getElementById("dialog-failure")?.remove();
  body.querySelector("h2")?.after(made("p", text, { id: "dialog-failure", className: "notice error", role: "alert" }));
  const changes = document.querySelector("#again-changes > .muted");
  if (changes) changes.textContent = "It is not known what changes.";
  show();
}

/** Open the dialog, or keep the focus in it when new content has replaced the button that was pressed. */
function show() {
  if (!dialog.open) {
    opener = document.activeElement;
    dialog.showModal();
  } else if (!dialog.contains(document.activeElement)) {
    body.querySelector("button.primary, button")?.focus();
  }
}

/** Give the focus back to the button that opened the dialog, or to what has taken its place. */
function giveBack() {
  const button = opener?.isConnected ? opener : document.getElementById(opener?.id);
  (button?.checkVisibility() ? button : document.querySelector(".job-actions button:not([hidden])"))?.focus();
}

/** Call an action with the events of requests that this dialog shows, and with no others. */
function onOwn(name, action) {
  document.addEventListener(name, ({ detail }) => { if (dialog.contains(detail.target)) action(detail); });
}

onOwn("htmx:afterSettle", show);
onOwn("htmx:sendError", ({ requestConfig }) => {
  fail(requestConfig.verb === "post" && requestConfig.path.endsWith("/resubmit") ? NOT_SUBMITTED : NO_REPLY);
});
onOwn("htmx:responseError", ({ xhr }) => {
  const isText = xhr.getResponseHeader("content-type")?.startsWith("text/plain");
  fail(isText ? `The server refused: ${xhr.responseText.slice(0, 200)}` : `The server refused (status ${xhr.status}).`);
});
dialog.addEventListener("close", giveBack);
dialog.addEventListener("click", (event) => {
  if (event.target === dialog || event.target.closest("[data-close]")) dialog.close();
});
