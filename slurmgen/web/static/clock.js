// Clocks of running jobs: an element with `data-elapsed` counts on from these seconds.

const began = new WeakMap(); // of each clock: when it was at 0, by the clock of this page

/** Seconds as Slurm writes them. */
function text(total) {
  const two = (value) => String(Math.floor(value)).padStart(2, "0");
  const days = Math.floor(total / 86400);
  const time = [total / 3600 - 24 * days, (total / 60) % 60, total % 60].map(two).join(":");
  return days ? `${days}-${time}` : time;
}

/** Set all clocks. */
export function tick() {
  const now = performance.now() / 1000;
  for (const clock of document.querySelectorAll("[data-elapsed]")) {
    if (!began.has(clock)) began.set(clock, now - Number(clock.dataset.elapsed));
    clock.textContent = text(Math.floor(now - began.get(clock)));
  }
}

/** Let the clocks run from now on, also those of parts that are shown later. */
export function startClocks() {
  document.addEventListener("htmx:afterSettle", tick);
  setInterval(tick, 1000);
  tick();
}
