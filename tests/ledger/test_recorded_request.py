"""What the ledger keeps of a request, and the job that is made from it again."""

from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from slurmgen import JobSpec, load_job, submit
from slurmgen.errors import RequestError
from slurmgen.ledger.ledger import Ledger, Record
from slurmgen.ledger.request import recorded, recorded_request, spec_again
from slurmgen.request.model import Request
from slurmgen.secret_names import has_secret_name
from tests.support.twins import Testbed

TOML = """
site = "daic"
[defaults]
time = "02:00:00"
[job.train]
script = "train.py"
gpus = 2
script_args = ["--data", "/d"]
env = { A = "from the file", WANDB_API_KEY = "0123456789abcdef", HARMLESS = "hf_abcdefghijklmnopqrst" }
sbatch = { nice = "100", exclusive = true }
then = [{ script = "test.py" }]
"""
KEY = {"WANDB_API_KEY": "0123456789abcdef", "HARMLESS": "again"}


def record(spec: JobSpec, send: tuple[str, ...] = ()) -> Record:
    return Record(
        id="7",
        site=spec.site.name,
        via="twin",
        name="train",
        folder="/f",
        output="%j",
        submitted="now",
        request=recorded(spec, send),
    )


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "slurmgen.toml").write_text(TOML)
    (tmp_path / "train.py").touch()
    return tmp_path


def submitted(project: Path, **values: Any) -> JobSpec:
    return load_job("train", project_dir=project, mem="10G", **values)


def test_the_same_script_is_made_without_the_project_of_that_time(project: Path) -> None:
    spec = load_job(site="daic", project_dir=project, script="train.py", env={"A": "b"}, account="a")
    script = spec.render(spec.plan())
    kept = recorded_request(record(spec, ("data.bin",)))
    (project / "slurmgen.toml").write_text('site = "olivia"\n[defaults]\ntime = "09:00:00"\n')
    again = spec_again(kept)
    assert again.render(again.plan()) == script
    assert again.files == spec.files
    assert kept.send == ("data.bin",)


def test_changes_overrule_what_was_recorded(project: Path) -> None:
    kept = recorded_request(record(submitted(project)))
    again = spec_again(kept, Request(gpus=4, env=KEY | {"B": "new"}, script_args=("--fast",)))
    request = again.request
    assert (request.gpus, request.mem, request.time) == (4, "10G", "02:00:00")
    assert request.env == KEY | {"A": "from the file", "B": "new"}
    assert request.script_args == ("--fast",)
    assert request.then == submitted(project).request.then
    assert "gpus" not in again.files
    files = {"time": "slurmgen.toml [defaults]", "env.A": "slurmgen.toml [job.train]"}
    assert {key: again.files[key] for key in files} == files
    assert again.command.startswith("slurmgen render train --site daic --gpus 4 --mem 10G")
    assert again.command.endswith("--replace-args -- --fast")


def test_values_of_secrets_are_not_kept_and_must_be_given_again(project: Path) -> None:
    entry = record(submitted(project, env={"HF_TOKEN": "hf_secret"}))
    assert not any(text in entry.request for text in (*KEY.values(), "hf_"))
    kept = recorded_request(entry)
    assert kept.secrets == ("WANDB_API_KEY", "HARMLESS", "HF_TOKEN")
    with pytest.raises(RequestError, match=r"HF_TOKEN.*--env WANDB_API_KEY="):
        spec_again(kept)
    assert spec_again(kept, Request(env=KEY | {"HF_TOKEN": "x"})).request.env["HF_TOKEN"] == "x"  # noqa: S105


def test_a_variable_of_a_secret_name_that_is_a_place_is_kept(project: Path) -> None:
    kept = recorded_request(record(submitted(project, env=KEY | {"HF_TOKEN": "$HOME/token"})))
    assert kept.request.env["HF_TOKEN"] == "$HOME/token"  # noqa: S105
    assert "HF_TOKEN" not in kept.secrets


def test_the_nodes_that_were_bad_at_that_time_are_not_kept(project: Path) -> None:
    kept = recorded_request(record(submitted(project).excluding(["gpu07=bad"])))
    assert kept.request.exclude is None


@pytest.mark.parametrize(
    ("text", "fact"),
    [
        ("", "is not recorded.*Repeat its command: slurmgen submit train"),
        ('{"site": "daic", "project": "/p", "request": {"later_field": 1}}', "Another version of slurmgen"),
        ("{", "cannot be read"),
    ],
)
def test_a_record_without_a_usable_request_gives_an_error(project: Path, text: str, fact: str) -> None:
    entry = structs.replace(record(submitted(project)), request=text, command="slurmgen submit train")
    with pytest.raises(RequestError, match=f"(?s){fact}"):
        recorded_request(entry)


def test_a_name_of_a_secret_differs_from_a_similar_one() -> None:
    assert all(map(has_secret_name, ["HF_TOKEN", "wandb_api_key", "AWS_SECRET_ACCESS_KEY", "PASSWORD"]))
    assert not any(map(has_secret_name, ["TOKENIZERS_PARALLELISM", "MAX_TOKENS", "KEYBOARD", "SECRETARY"]))


def test_submit_records_the_request(project: Path, testbed: Testbed, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in testbed.environ.items():
        monkeypatch.setenv(name, value)
    (project / "slurmgen.toml").write_text(
        '[job.train]\nscript = "train.py"\nframework = "python"\ngpus = 0\n'
    )
    spec = load_job("train", "generic", project, time="00:05:00")
    job = submit(spec, via="twin")
    testbed.wait(job.id)
    kept = recorded_request(job)
    assert kept == recorded_request(Ledger().find(job.id, "generic")[0])
    assert (kept.job, kept.request) == ("train", spec.request)


def test_a_recorded_job_leaves_bad_nodes_without_its_project(project: Path) -> None:
    spec = load_job(site="daic", project_dir=project, script="train.py", account="a")
    kept = recorded_request(record(spec))
    named = structs.replace(kept, job="train", project=str(project / "gone"))
    for one in (kept, named):
        again = spec_again(one).excluding(["n1=its GPU fails"])
        assert again.request.exclude == ("n1=its GPU fails",)
        assert "--exclude 'n1=its GPU fails'" in again.command
