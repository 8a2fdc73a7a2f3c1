// What the parts of the page of a job share: addresses, replies, and when to look again.
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
