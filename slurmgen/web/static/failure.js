// Say that the server does not answer, or refuses; htmx shows neither. The next good reply takes it away.
"use strict";
const failure = () => document.getElementById("failure");

/** Show a sentence; none hides it. */
function report(text) {
  failure().textContent = text;
  failure().hidden = !text;
}

/** Why a request was refused: the server's own sentence, unless its reply is a page. */
function reason(request) {
  const isSentence = request.getResponseHeader("content-type")?.startsWith("text/plain");
  if (request.status === 403 && !isSentence) return "The server was started again. Open the new address that slurmgen web printed.";
  return isSentence ? request.responseText : `The server refused the request (${request.status}).`;
}

for (const event of ["htmx:sendError", "htmx:timeout"]) addEventListener(event, () => report("The server does not answer. Is it still running?"));
addEventListener("htmx:responseError", ({ detail }) => report(reason(detail.xhr)));
addEventListener("htmx:afterRequest", ({ detail }) => { if (detail.successful) report(""); });
