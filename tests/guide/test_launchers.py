"""The same ranks under mp.spawn, torchrun and srun, and the errors that docs/guide/launchers.md names."""

import re
from pathlib import Path

import pytest

from tests.support.fork_server import warm
from tests.support.ports import free_port
from tests.support.twins import twin

from .running import GUIDE, python, torchrun

SUM = r"^rank (\d) of 2: the sum over all ranks is 2$"
SPAWN = (GUIDE / "launchers_spawn.py").read_text()


def test_spawn_starts_two_ranks_that_communicate() -> None:
    completed = python("launchers_spawn.py", "--ranks", "2")
    assert sorted(re.findall(SUM, completed.out, re.M)) == ["0", "1"], completed.err


def test_torchrun_starts_two_ranks_that_communicate() -> None:
    completed = torchrun("launchers.py")
    assert sorted(re.findall(SUM, completed.out, re.M)) == ["0", "1"], completed.err


def test_srun_starts_two_ranks_on_two_nodes_that_communicate() -> None:
    with twin("daic") as testbed:
        (testbed.folder / "job.sh").write_text(
            "#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --ntasks-per-node=1\n"
            f"export MASTER_ADDR=127.0.0.1 MASTER_PORT={free_port()} OMP_NUM_THREADS=1\n"
            f"srun {warm()} {GUIDE / 'launchers.py'}\n"
        )
        job = testbed.run("sbatch", "--parsable", "--output=log", "job.sh").strip()
        testbed.wait(job, 300)
        log = (testbed.folder / "log").read_text()
    assert sorted(re.findall(SUM, log, re.M)) == ["0", "1"], log


GUARD = 'if __name__ == "__main__":\n    main()'
LOCAL = "    mp.spawn(lambda *args: train(*args), args=(args.ranks, free_port()), nprocs=args.ranks)"
FAULTS = {
    "no guard": (GUARD, "main()", "current process has finished its bootstrapping phase"),
    "a lambda": (
        "    mp.spawn(train, args=(args.ranks, free_port()), nprocs=args.ranks)",
        LOCAL,
        r"Can't (pickle|get) local object",
    ),
    "a crash": (
        '    os.environ |= {"MASTER',
        '    assert rank == 0, "no data"\n    os.environ |= {"MASTER',
        "-- Process 1 terminated with the following error",
    ),
}


@pytest.mark.parametrize(("right", "wrong", "message"), FAULTS.values(), ids=FAULTS)
def test_the_message_of_a_fault_with_spawn_is_as_the_page_says(
    right: str, wrong: str, message: str, tmp_path: Path
) -> None:
    assert SPAWN.count(right) == 1
    script = tmp_path / "faulty.py"
    script.write_text(SPAWN.replace(right, wrong))
    completed = python(script)
    assert completed.returncode == 1
    assert re.search(message, completed.err), completed.err
