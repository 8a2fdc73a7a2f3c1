// The dialog of the actions: it opens when its content has come, and says if the server does not reply.

const dialog = document.getElementById("dialog");

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

document.addEventListener("htmx:afterSwap", (event) => {
  if (event.detail.target === dialog && !dialog.open) dialog.showModal();
});
document.addEventListener("htmx:sendError", () => {
  fail("The server of this page does not reply. If you pressed Submit, press it again later: it finds the job, and never submits a second one.");
});
document.addEventListener("htmx:responseError", (event) => {
  if (event.detail.target === dialog) fail(`The server refused: ${event.detail.xhr.responseText.slice(0, 200)}`);
});
dialog.addEventListener("click", (event) => {
  if (event.target === dialog || event.target.closest("[data-close]")) dialog.close();
});
