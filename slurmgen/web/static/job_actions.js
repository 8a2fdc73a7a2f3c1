// The dialog of the actions: it opens when its content has come, and says if the server does not reply.

const dialog = document.getElementById("dialog");
let opener; // what had the focus before the dialog

/** Show why nothing came, where the user looks. */
function fail(text) {
  const note = document.createElement("p");
  note.className = "notice error";
  note.setAttribute("role", "alert");
  note.textContent = text;
  if (dialog.open) dialog.querySelector("h2")?.after(note);
  else {
    dialog.replaceChildren(note);
    dialog.showModal();
  }
}

/** Open the dialog, or keep the focus in it when new content has replaced the button that was pressed. */
function show() {
  if (!dialog.open) {
    opener = document.activeElement;
    dialog.showModal();
  } else if (!dialog.contains(document.activeElement)) {
    dialog.querySelector("button.primary, button")?.focus();
  }
}

/** Give the focus back to the button that opened the dialog, or to what has taken its place. */
function giveBack() {
  const button = opener?.isConnected ? opener : document.getElementById(opener?.id);
  (button?.checkVisibility() ? button : document.querySelector(".job-actions button:not([hidden])"))?.focus();
}

document.addEventListener("htmx:afterSettle", (event) => {
  if (event.detail.target === dialog) show();
});
dialog.addEventListener("close", giveBack);
document.addEventListener("htmx:sendError", () => {
  fail("The server of this page does not reply. If you pressed Submit, press it again later: it finds the job, and never submits a second one.");
});
document.addEventListener("htmx:responseError", (event) => {
  if (event.detail.target === dialog) fail(`The server refused: ${event.detail.xhr.responseText.slice(0, 200)}`);
});
dialog.addEventListener("click", (event) => {
  if (event.target === dialog || event.target.closest("[data-close]")) dialog.close();
});
