"""Send random requests to the page, and report what it must not do: `python -m tests.web.fuzz NUMBER [SEED]`.

It calls the application as a server does, in a process whose audit hook sees each file that is opened, each
folder that is listed, each process that is started, and each connection. The user of a local server has a few
jobs, whose site replies with anything; only the working folder, the ledger and the cache may change.
"""

import asyncio
import os
import re
import sys
import sysconfig
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

from starlette.routing import BaseRoute, Mount, Route
from starlette.types import ASGIApp, Message

import slurmgen
from slurmgen.files import bundled, cache_folder, config_folder, state_folder
from slurmgen.web import Settings, create_app
from slurmgen.web import linter as routes_of_linter
from slurmgen.web.access import COOKIE
from slurmgen.web.app import _pages
from slurmgen.web.limits import Limits
from tests.web.hostile import MARK, SUM, Asked, Names, Requests

HOST = "127.0.0.1:8123"
UNLIMITED = Limits(rate=1_000_000, seconds=60, concurrent=1000)
REFUSED = tuple(
    "subprocess.Popen os.fork os.forkpty os.exec os.posix_spawn os.spawn os.system pty.spawn webbrowser.open "
    "socket.connect socket.bind socket.getaddrinfo urllib.Request ftplib. smtplib.".split()
)
CHANGES = tuple(
    "shutil. os.mkdir os.remove os.rename os.rmdir os.link os.symlink os.chmod os.truncate".split()
)
LISTED = ("os.listdir", "os.scandir")
CODE = tuple(
    {
        sysconfig.get_path("stdlib"),
        sysconfig.get_path("purelib"),
        sysconfig.get_path("platlib"),
        "/usr/lib/python3",
    }
)
PACKAGE = (
    str(Path(slurmgen.__file__).parent),
    *(str(bundled(name)) for name in ("templates", "site_profiles", "schemas", "training", "skills")),
)
NOT_PUBLIC = ("paramiko", "slurmgen.status", "slurmgen.remote")

MARKUP = re.compile(rf"[<\s/\"'=]{MARK}")
"What may be markup; to parse each page would take most of the time."


class Here:
    """Checks scripts in this process, where the audit hook sees it. The server has processes for it."""

    call = staticmethod(lambda function, *arguments: function(*arguments))
    prepare = staticmethod(lambda: None)


class Markup(HTMLParser):
    """Finds tags and attributes that come from the input."""

    found = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag.startswith(MARK) or any(name.startswith(MARK) for name, _ in attrs):
            self.found = self.get_starttag_text() or tag


def routes(found: list[BaseRoute], prefix: str = "") -> Iterator[tuple[str, str]]:
    """The methods and the path of each route."""
    for route in found:
        if isinstance(route, Mount):
            yield from routes(list(route.routes), prefix + route.path)
            yield "GET", f"{prefix}{route.path}/{{file}}"
        elif isinstance(route, Route):
            yield from ((method, prefix + route.path) for method in sorted(route.methods or {"GET"}))


def watch(seen: list[str], allowed: tuple[str, ...], writable: tuple[str, ...]) -> None:
    """From now on, note what the process does beyond reading its own files and changing those of the user."""

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open" and isinstance(arguments[0], str | bytes):
            path, mode = (
                Path(arguments[0].decode() if isinstance(arguments[0], bytes) else arguments[0]),
                arguments[1],
            )
            folders = writable if set(mode or "") & set("wax+") else allowed + writable
            if not str(path.absolute()).startswith(folders):
                seen.append(f"open {path} {mode}")
        elif event in LISTED and not _listed(arguments[0]).startswith(allowed + writable):
            seen.append(f"{event} {arguments[0]}")
        elif event.startswith(CHANGES):
            paths = [Path(one).absolute() for one in arguments if isinstance(one, str)]
            is_there = event == "os.mkdir" and paths[0].is_dir()
            if not is_there and not all(str(path).startswith(writable) for path in paths):
                seen.append(f"{event} {arguments}")
        elif event.startswith(REFUSED):
            seen.append(f"{event} {arguments}")

    sys.addaudithook(hook)


def _listed(folder: str | int | None) -> str:
    """The path of a folder that is given by its path or its descriptor."""
    if isinstance(folder, int):
        return str(Path(f"/proc/self/fd/{folder}").readlink())
    return str(Path(folder or ".").absolute())


async def answer(app: ASGIApp, asked: Asked) -> tuple[int, dict[str, str], bytes]:
    """Status, headers and body of the reply."""
    messages: list[Message] = []
    body = [asked.body]

    async def receive() -> Message:
        return {"type": "http.request", "body": body.pop()} if body else {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        messages.append(message)

    await app(asked.scope, receive, send)
    headers = {name.decode(): value.decode("latin-1") for name, value in messages[0]["headers"]}
    return messages[0]["status"], headers, b"".join(message.get("body", b"") for message in messages[1:])


def faults(status: int, headers: dict[str, str], body: bytes) -> Iterator[str]:
    """What a reply must not be."""
    if status >= 500:
        yield f"status {status}"
    if any(name.startswith(MARK) for name in headers) or headers.get("location", "/").startswith(
        ("//", "/\\")
    ):
        yield f"headers {headers}"
    if "script-src 'self'" not in headers["content-security-policy"]:
        yield "no policy"
    text = body.decode(errors="replace")
    if SUM in text:
        yield "the input was computed"
    if headers.get("content-type", "").startswith("text/html") and MARKUP.search(text):
        parser = Markup()
        parser.feed(text)
        if parser.found:
            yield f"markup {parser.found}"


def user_with_jobs(home: Path, seed: int) -> dict[str, Any]:
    """Become a user with a few jobs; returns what names them. A public server does not import this."""
    # A second reply is as hostile as the first one: do not wait for it..
    vars(time)["sleep"] = lambda _seconds: None
    from slurmgen.web.jobs import poller
    from slurmgen.web.jobs.poller import Connections
    from tests.web.hostile_site import KEYS, PARAMETERS, Site, add_jobs

    (home / "project").mkdir()
    (home / "project/train.py").write_text("print(1)\n")
    (home / "project/job.sh").write_text("#!/bin/bash\n#SBATCH --time=1\nhostname\n")
    os.environ |= {
        "HOME": str(home),
        "XDG_STATE_HOME": str(home),
        "XDG_CONFIG_HOME": str(home),
        "XDG_CACHE_HOME": str(home),
    }
    os.chdir(home / "project")
    add_jobs(home / "project")
    site = Site(Random(seed))  # noqa: S311
    vars(poller)["Connections"] = lambda _asking: Connections(site.connect)
    return {"keys": KEYS, "parameters": PARAMETERS}


async def fuzz(settings: Settings, number: int, seed: int, jobs: dict[str, Any]) -> list[str]:
    """Everything that is wrong, a line each."""
    own = {"host": HOST, "origin": f"http://{HOST}", "cookie": f"{COOKIE}={settings.token}"}
    own |= {"content-type": "application/x-www-form-urlencoded"}
    app, addresses = create_app(settings), list(routes(_pages(settings).routes))
    headers = [(name.encode(), value.encode()) for name, value in own.items()]
    names, seen, wrong, statuses = Names(), list[str](), list[str](), Counter[int]()
    for method, path in addresses:
        names.feed(
            (await answer(app, Asked(method, path.encode(), headers, b"")))[2].decode(errors="replace")
        )
    personal = () if settings.public else (str(config_folder()),)
    writable = () if settings.public else tuple(map(str, (state_folder(), cache_folder(), Path.cwd())))
    watch(seen, (*CODE, *PACKAGE, *personal), writable)
    requests = Requests(Random(seed), addresses, names.fields, own, **jobs)  # noqa: S311
    for _ in range(number):
        asked = requests.next()
        try:
            reply = await answer(app, asked)
            statuses[reply[0]] += 1
            wrong += [f"{fault}: {asked}" for fault in faults(*reply)]
        except Exception:
            wrong.append(f"{asked}: {traceback.format_exc()}")
        wrong += [f"{event}: {asked}" for event in seen]
        seen.clear()
    sys.stderr.write(f"{len(addresses)} addresses, {len(names.fields)} fields, {sorted(statuses.items())}\n")
    imported = [name for name in NOT_PUBLIC if settings.public and name in sys.modules]
    return wrong + [f"imported {name}" for name in imported]


def main(kind: str, number: str, seed: str = "1") -> int:
    """Report faults; the exit status is 1 if there are any."""
    routes_of_linter._workers = Here  # type: ignore[assignment]
    with TemporaryDirectory(prefix="slurmgen-fuzz-") as home:
        is_public = kind == "public"
        settings = Settings(limits=UNLIMITED) if is_public else Settings(hosts=(HOST.partition(":")[0],))
        jobs = {} if is_public else user_with_jobs(Path(home), int(seed))
        wrong = asyncio.run(fuzz(settings, int(number), int(seed), jobs))
    sys.stdout.write("\n".join(wrong[:20]))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.dont_write_bytecode = True
    raise SystemExit(main(*sys.argv[1:]))
