// A finding as the editor shows it, and as an item of the list.
const base = document.querySelector("meta[name=base-path]").content;

/** A finding as the editor's lint extension takes it; `fix` is called with it. */
export function diagnostic(finding, fix) {
  const { from, to, severity, message, advice, changes } = finding;
  return {
    from,
    to,
    severity: severity === "note" ? "info" : severity,
    message: advice ? `${message}; ${advice}` : message,
    renderMessage: () => tooltip(finding),
    actions: changes.length ? [{ name: fixName(finding), apply: () => fix(finding) }] : [],
    finding,
  };
}

const fixName = ({ safe }) => (safe ? "Fix" : "Fix, changes what runs");

/** The content of a tooltip: message, advice, and the page of the rule. */
function tooltip(finding) {
  const box = document.createElement("div");
  box.append(
    paragraph(finding.message, "message"),
    paragraph(finding.advice, "muted"),
    ruleLink(document.createElement("a"), finding),
  );
  return box;
}

function paragraph(text, name) {
  const node = document.createElement("p");
  node.append(...withCode(text));
  node.className = name;
  return node;
}

/** A text as nodes: what is between backquotes is code. */
function withCode(text) {
  return text.split(/`([^`]+)`/).map((part, at) => {
    if (at % 2 === 0) return part;
    const code = document.createElement("code");
    code.textContent = part;
    return code;
  });
}

/** Make a link lead to the page of the rule. */
function ruleLink(link, { code, rule }) {
  link.href = `${base}/rules/${code}`;
  link.textContent = link.title = `${code} ${rule}`;
  return link;
}

/** A finding as an item of the list; `goTo` and `fix` are called with it. */
export function item(finding, { goTo, fix }) {
  const node = document.getElementById("finding").content.firstElementChild.cloneNode(true);
  const part = (name) => node.querySelector(`.${name}`);
  node.classList.add(finding.severity);
  part("line").textContent = `Line ${finding.line}`;
  part("severity").textContent = finding.severity;
  part("severity").classList.add(finding.severity);
  part("message").append(...withCode(finding.message));
  part("advice").append(...withCode(finding.advice));
  part("goto").addEventListener("click", () => goTo(finding));
  ruleLink(part("rule"), finding);
  part("fix").hidden = !finding.changes.length;
  part("fix").textContent = fixName(finding);
  part("fix").ariaLabel = `${fixName(finding)}: ${finding.code}, line ${finding.line}`;
  part("fix").addEventListener("click", () => fix(finding));
  return node;
}

/** How many findings there are, by severity: `2 errors, 1 warning`. */
export function summary({ total, findings }) {
  const count = (severity) => findings.filter((finding) => finding.severity === severity).length;
  const counts = ["error", "warning", "note"].map((name) => [count(name), name]).filter(([number]) => number);
  const text = counts.map(([number, name]) => `${number} ${name}${number > 1 ? "s" : ""}`).join(", ");
  const more = total - findings.length;
  return (text || "No findings") + (more ? `, and ${more} more that are not shown` : "");
}
