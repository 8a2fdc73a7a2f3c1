// The script of the job: the linter of this server checks it, and its page takes it over.
const SHOWN = 20;
const base = document.querySelector("meta[name=base-path]").content;
const element = (name) => document.getElementById(name);

/** A finding: the page of its rule, its line and its message. */
function item({ code, line, message }) {
  const node = document.createElement("li");
  const link = document.createElement("a");
  link.href = `${base}/rules/${encodeURIComponent(code)}`;
  link.textContent = code;
  node.append(link, ` line ${line}: ${message}`);
  return node;
}

/** Say what the linter finds in the script on the page. */
export async function checkScript(site) {
  const script = document.querySelector("pre.script")?.textContent;
  if (script === undefined) return;
  element("script-lint").addEventListener("click", () => sessionStorage.setItem("lint-script", script));
  const body = new URLSearchParams({ script, site });
  const reply = await fetch(`${base}/lint/findings`, { method: "POST", body }).catch(() => null);
  if (!reply?.ok) {
    element("script-findings").textContent = reply ? await reply.text() : "The script was not checked.";
    return;
  }
  const { total, findings } = await reply.json();
  element("script-findings").textContent = total === 0 ? "The linter finds nothing."
    : `The linter has ${total} ${total === 1 ? "finding" : "findings"}.`;
  element("script-list").replaceChildren(...findings.slice(0, SHOWN).map(item));
}
