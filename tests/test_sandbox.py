"""Work in a process of its own, with limits."""

import shutil
from pathlib import Path

import jinja2
import pytest

from slurmgen import Request, load_site, render, resolve
from slurmgen.errors import ConfigError


def test_jinja_is_compiled_before_files_are_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise each rendering would compile it again."""
    copy = tmp_path / "packages" / "jinja2"
    without_cache = shutil.ignore_patterns("__pycache__")
    shutil.copytree(Path(jinja2.__file__).parent, copy, ignore=without_cache)
    monkeypatch.syspath_prepend(copy.parent)
    templates = tmp_path / "templates"
    templates.mkdir()
    (templates / "job.sbatch.j2").write_text("{{ 1 // 0 }}")

    site = load_site("generic")
    plan = resolve(Request(script="train.py", framework="python"), site)
    with pytest.raises(ConfigError, match="division"):
        render(plan, templates)

    compiled = {path.name.partition(".")[0] for path in copy.glob("__pycache__/*.pyc")}
    assert {"environment", "sandbox", "debug"} <= compiled
