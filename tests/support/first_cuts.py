"""Cut the SSH connection of `submit --first` to one of two sites at a random byte, and repeat the command.

`python -m tests.support.first_cuts COUNT SEED` makes that many trials; docs/reliability.md has the result.
"""

import random
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from slurmgen.twin import Twin
from tests.support import first_faults
from tests.support.faults import Fault, proxy
from tests.support.first_faults import finished, is_decided, settled, started, user_of
from tests.support.twins import Testbed, twin

SITES = ("generic", "olivia")
RANGE = {"up": (6_000, 35_000), "down": (2_500, 8_000)}
"Bytes of one conversation after the login, about."


def configure(project: Path, testbeds: Mapping[str, Testbed]) -> None:
    """Let the command of `first_faults` reach these sites over SSH."""
    folder = project.parent / "config/slurmgen"
    folder.mkdir(parents=True)
    own = (
        f'[{site}]\nhost = "{bed.twin.ssh_host}"\nremote_dir = "{project.parent}/far-{site}"\n'
        for site, bed in testbeds.items()
    )
    (folder / "personal.toml").write_text("".join(own))
    first_faults.SITES = SITES
    first_faults.WAY = f"--via ssh --ssh-config {project.parent}/ssh_config"


def write_config(project: Path, twins: Mapping[str, Twin], ports: Mapping[str, int]) -> None:
    """The ssh_config of all sites, of which some are behind a proxy at another port."""
    texts = []
    for site, one in twins.items():
        assert one.ssh_config
        text, known = one.ssh_config.read_text(), (one.folder / "known_hosts").read_text()
        port = known.partition("]:")[2].partition(" ")[0]
        (project.parent / f"known-{site}").write_text(known.replace(port, str(ports.get(site, port))))
        text = text.replace(f"Port {port}", f"Port {ports.get(site, port)}")
        texts.append(text.replace(str(one.folder / "known_hosts"), str(project.parent / f"known-{site}")))
    (project.parent / "ssh_config").write_text("\n".join(texts))


def _port(one: Twin) -> int:
    """The port of its sshd."""
    return int((one.folder / "known_hosts").read_text().partition("]:")[2].partition(" ")[0])


@contextmanager
def cut(project: Path, twins: Mapping[str, Twin], chance: random.Random) -> Iterator[Callable[[], bool]]:
    """One site is reached through a proxy that cuts all its connections, or the first, at a byte.

    Yields whether it has.
    """
    site = chance.choice(SITES)
    direction: Literal["up", "down"] = chance.choice(("up", "down"))
    with proxy(_port(twins[site])) as between:
        between.fault = Fault("cut", direction, chance.randint(*RANGE[direction]))
        between.once = chance.random() < 0.5
        write_config(project, twins, {site: between.port})
        yield lambda: between.strikes > 0


@contextmanager
def stalled(project: Path, testbeds: Mapping[str, Testbed], site: str, at: int) -> Iterator[None]:
    """The connections of one site carry no more than some bytes to it."""
    twins = {site: bed.twin for site, bed in testbeds.items()}
    configure(project, testbeds)
    with proxy(_port(twins[site])) as between:
        between.fault = Fault("stall", "up", at)
        write_config(project, twins, {site: between.port})
        yield


def trial(project: Path, testbeds: Mapping[str, Testbed], name: str, chance: random.Random) -> Counter[str]:
    twins = {site: bed.twin for site, bed in testbeds.items()}
    with cut(project, twins, chance) as struck:
        finished(started(project, name))
        counts = Counter({"cut" if struck() else "not cut": 1})
        log = (project.parent / f"{name}.log").read_text()
        counts["connected again"] += "connecting again" in log
        counts["a site was left out"] += "\nwithout " in log or log.startswith("without ")
    write_config(project, twins, {})
    for _ in range(5):
        if is_decided(name) or not finished(started(project, name)):
            return counts + settled(project, testbeds, [name])
    raise AssertionError(f"{name}: the command does not succeed")


def main(count: int, seed: int) -> None:
    with twin("generic", ssh=True) as generic, twin("olivia", nodes=1, ssh=True) as olivia:
        testbeds = {"generic": generic, "olivia": olivia}
        with user_of(testbeds) as project:
            configure(project, testbeds)
            counts = Counter[str]()
            for number in range(count):
                counts += trial(project, testbeds, f"cut-{number}", random.Random(seed * 1000 + number))  # noqa: S311
                print(number + 1, dict(counts), flush=True)  # noqa: T201


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
