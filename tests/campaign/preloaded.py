"""What the process that starts commands has imported, and what its copies do."""

import pkgutil
import re
import sys
import time
from contextlib import suppress
from importlib import import_module

import paramiko  # noqa: F401
from starlette.testclient import TestClient

import slurmgen
from slurmgen.web import Settings, create_app

for _module in pkgutil.walk_packages(slurmgen.__path__, "slurmgen."):
    if "lsp" not in _module.name and not _module.name.endswith("__main__"):
        with suppress(ImportError):
            import_module(_module.name)
for _module in list(sys.modules.values()):  # a trial has no minute to wait
    if _module.__name__.startswith("slurmgen.") and hasattr(_module, "LONGEST_PAUSE"):
        _module.LONGEST_PAUSE = min(_module.LONGEST_PAUSE, 3.0)
HOST = "127.0.0.1:8123"


def command(argv: list[str]) -> None:
    """The command line."""
    from slurmgen.cli import main

    sys.argv = ["slurmgen", *argv]
    main()


def page(argv: list[str]) -> None:
    """What the page of a job shows: its state, or the reply to its form `cancel`."""
    settings, headers = Settings(hosts=("127.0.0.1",)), {"origin": f"http://{HOST}"}
    key, part = argv
    with TestClient(create_app(settings), base_url=f"http://{HOST}", headers=headers) as client:
        client.get("/", params={"token": settings.token})
        reply = client.post(f"/jobs/{key}/{part}")
        while part == "state" and 'data-state=""' in reply.text:  # it is still asking
            reply = client.get(f"/jobs/{key}/state")
            time.sleep(0.1)
    print(re.sub(r"<(?!div class=.state-line)[^>]*>", "", reply.text))  # noqa: T201
    if 'class="error"' in reply.text or "notice problem" in reply.text or not reply.is_success:
        print(f"error: {reply.status_code}", file=sys.stderr)  # noqa: T201
        sys.exit(70 if reply.status_code >= 500 else 3)
