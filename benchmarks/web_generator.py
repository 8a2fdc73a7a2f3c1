"""Time from a key press to the new script on the page, in Chromium on loopback.

Run `python -m benchmarks.web_generator` in the repository. The floor is a request to the same server with a
reply of two letters: what the browser, the loopback and the server take without any script.
"""

import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from statistics import median, quantiles

from playwright.sync_api import Page

from tests.support.web import chromium, opened

PRESSES = 100
_SITE = "#site=olivia&gpus=8&account=nn1234k&script=train.py&requeue=yes"
_WATCH = """
() => {
  window.times = [];
  let pressed = 0;
  addEventListener("input", () => { pressed = performance.now(); }, true);
  document.body.addEventListener("htmx:afterSwap", ({ target }) => {
    if (target.id !== "answer") return;
    document.body.getBoundingClientRect();  // the layout too
    times.push(performance.now() - pressed);
  });
}
"""
_FLOOR = """
async (count) => {
  const found = [];
  for (let at = 0; at < count; at++) {
    const start = performance.now();
    await (await fetch("healthz")).text();
    found.push(performance.now() - start);
  }
  return found;
}
"""


def main() -> None:
    """Print the times in milliseconds."""
    with _served() as address, chromium() as browser, opened(browser, address + _SITE) as page:
        floor, typed = page.evaluate(_FLOOR, PRESSES), _typed(page)
    for name, times in (("reply of two letters", floor), ("key press to new script", typed)):
        print(f"{name:24} least {min(times):5.1f}   median {median(times):5.1f}   p95 {_p95(times):6.1f} ms")
    print(f"{'ratio of p95':24} {_p95(typed) / _p95(floor):6.1f}")


@contextmanager
def _served() -> Iterator[str]:
    """The address of a server in a process of its own."""
    command = [sys.executable, "-m", "slurmgen", "web", "--public", "--rate", "10000"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            yield server.stdout.readline().strip()
        finally:
            server.terminate()


def _typed(page: Page) -> list[float]:
    page.locator("#lines").wait_for()
    page.evaluate(_WATCH)
    name = page.get_by_label("Arguments")
    name.focus()
    for count in range(1, PRESSES + 1):
        page.keyboard.press("abcdefghij"[count % 10])
        page.wait_for_function("count => times.length >= count", arg=count)
    return list(page.evaluate("times"))


def _p95(times: Sequence[float]) -> float:
    return quantiles(times, n=20)[-1]


if __name__ == "__main__":
    main()
