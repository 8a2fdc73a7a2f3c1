"""Random hostile requests: no error of the server, no file, no process, no connection, no markup."""

import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize("kind", ["local", "public"])
def test_hostile_requests_do_nothing(tmp_path: Path, kind: str) -> None:
    (tmp_path / ".config/slurmgen/site_profiles").mkdir(mode=0o700, parents=True)
    done = subprocess.run(
        [sys.executable, "-m", "tests.web.fuzz", kind, "2000"],
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
