"""Write the pictures of docs/web.md: a made-up job in the generator, in Chromium.

`python docs/web_pictures.py` needs Chromium and the extra `web`.
"""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path

from PIL import Image
from playwright.sync_api import expect, sync_playwright

CHROMIUM = "/usr/bin/chromium"
PICTURE = Path(__file__).parent / "_static" / "web-generator.png"
REQUEST = "site=lumi-g&framework=ddp&gpus=16&account=project_465001234&time=12:00:00&script=train.py"
SIZE = {"width": 1280, "height": 800}


@contextmanager
def served() -> Iterator[str]:
    """The address of a public page, which has no settings of the user."""
    command = [sys.executable, "-m", "slurmgen", "web", "--public"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout  # noqa: S101
        try:
            yield server.stdout.readline().strip()
        finally:
            server.terminate()


def main() -> None:
    """Write the picture."""
    with served() as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page(viewport=SIZE, color_scheme="light", reduced_motion="reduce")
        page.goto(f"{address}#{REQUEST}")
        expect(page.locator("#answer")).to_contain_text("#SBATCH --account=project_465001234")
        shot = page.screenshot()
        browser.close()
    Image.open(BytesIO(shot)).quantize(64).save(PICTURE, optimize=True)


if __name__ == "__main__":
    main()
