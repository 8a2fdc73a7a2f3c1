"""Which files of the project a job needs: a module and a configuration are checked as a script is."""

from pathlib import Path

import pytest

from slurmgen import Request, load_site, resolve
from slurmgen.errors import RequestError
from slurmgen.plan import Plan
from slurmgen.request.model import Then
from slurmgen.sync.files import missing_files, needed_files, project_files
from tests.conftest import Run


def plan_of(**asked: object) -> Plan:
    return resolve(Request(**asked), load_site("generic"))  # type: ignore[arg-type]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for name in ("pkg/train.py", "pkg/tool/__main__.py", "one.py", "conf/acc.yaml", "data/labels.csv"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    return tmp_path


def accelerate(config: str) -> dict[str, object]:
    return {"framework": "accelerate", "script": "one.py", "launcher_config": config}


@pytest.mark.parametrize(
    "asked",
    [
        *(
            {"module": name}
            for name in ("pkg.train", "pkg.tool", "one", "torch.distributed.run", "data.prepare")
        ),
        *map(
            accelerate, ("conf/acc.yaml", "./conf/acc.yaml", "/conf/a.yaml", "~/a.yaml", "$X/a.yaml", "a/$X")
        ),
    ],
)
def test_what_exists_or_is_elsewhere_is_not_missing(asked: dict[str, object], project: Path) -> None:
    plan = plan_of(**asked)
    assert missing_files(plan, project) == []
    assert project_files(project, needed_files(plan)).files


@pytest.mark.parametrize(
    ("asked", "path", "what"),
    [
        ({"module": "pkg.trian"}, "pkg/trian.py", "the module 'pkg.trian'"),
        ({"module": "one.train"}, "one/train.py", "the module 'one.train'"),
        ({"script": "one.py", "then": (Then(module="pkg.x"),)}, "pkg/x.py", "the module 'pkg.x'"),
        (accelerate("acc.yaml"), "acc.yaml", "the file 'acc.yaml' of --launcher-config"),
    ],
)
def test_a_missing_module_or_configuration_is_refused(
    asked: dict[str, object], path: str, what: str, project: Path
) -> None:
    plan = plan_of(**asked)
    (message,) = missing_files(plan, project)
    assert message.startswith(f"there is no {path} in {project}, which ")
    with pytest.raises(RequestError, match=f"{what} is not among the files of {project}"):
        project_files(project, needed_files(plan))


def test_submit_and_doctor_name_a_missing_module(project: Path, slurmgen: Run) -> None:
    options = ("--site", "generic", "--via", "local", "--python-module", "pkg.trian")
    for command in (["submit", *options, "--dry-run"], ["doctor", *options]):
        result = slurmgen(*command, cwd=project)
        assert "the module 'pkg.trian' is not among the files" in result.stdout + result.stderr
