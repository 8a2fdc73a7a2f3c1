"""The command line: stdout, stderr and exit codes."""

import json
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from slurmgen.cli import COMMANDS
from slurmgen.errors import RequestError
from slurmgen.live.session import LOOPBACK, Forwarding
from tests.conftest import Run


@pytest.mark.parametrize("command", COMMANDS)
def test_help_starts_with_the_short_help_of_the_command(command: str, slurmgen: Run) -> None:
    result = slurmgen(command, "--help")
    assert result.returncode == 0
    usage, description = re.split(r"\n\n", result.stdout, maxsplit=1)
    assert usage.startswith(f"Usage: slurmgen {command}")
    assert " ".join(description.split()).startswith(COMMANDS[command])


def test_render_writes_only_the_script_to_stdout(slurmgen: Run) -> None:
    result = slurmgen("render", "--framework", "ddp", "--gpus", "4")
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.startswith(
        "#!/bin/bash\n# train_ddp on generic: ddp, 4 ranks on 1 node with 4 GPUs\n"
    )


def test_explain_json_is_one_object(slurmgen: Run) -> None:
    plan = json.loads(slurmgen("explain", "--gpus", "4", "--framework", "lightning", "--json").stdout)
    assert (plan["world_size"], plan["ntasks_per_node"], plan["reasons"]["time"]) == (
        4,
        4,
        "slurmgen's default, because neither the request nor the profile sets one",
    )


def test_explain_shows_each_value_with_its_reason(slurmgen: Run) -> None:
    lines = slurmgen("explain", "--gpus", "2").stdout.splitlines()
    row = next(line for line in lines if line.strip().startswith("mem "))
    assert "32G" in row
    assert "16G per GPU" in row


def test_explain_in_a_pipe_fits_80_columns_and_divides_no_path(slurmgen: Run) -> None:
    script = "a" * 300 + ".py"
    options = ("--site", "olivia", "--account", "x", "--gpus", "8", "--name", "x", "--script", script)
    lines = slurmgen("explain", *options).stdout.splitlines()
    assert [line for line in lines if line != line.rstrip()] == []
    assert any(script in line for line in lines)
    assert [line for line in lines if len(line) > 80 and len(max(line.split(), key=len)) < 50] == []


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (
            ["render", "--cpus-per-gpus", "1"],
            "error: No such option '--cpus-per-gpus'. Did you mean '--cpus-per-gpu'? See `slurmgen",
        ),
        (["render", "--site", "dapc"], "error: there is no site 'dapc'. Did you mean daic?"),
        (["render", "--gpu", "1"], "error: No such option '--gpu'."),
        (["render", "--gpus", "x"], "error: Invalid value for '--gpus'"),
        (["render", "--env", "A"], "error: Invalid value for '--env': 'A' is not KEY=VALUE."),
        (["render", "train"], "error: there is no job 'train'"),
        (["rendr"], "error: No such command 'rendr'."),
        (["render", "--write", "-o", "x"], "error: --output and --write exclude each other."),
    ],
)
def test_an_invalid_request_prints_one_line_and_exits_with_2(
    args: list[str], message: str, slurmgen: Run
) -> None:
    result = slurmgen(*args)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith(message)
    assert result.stderr.count("\n") == 1


def test_a_control_character_in_an_error_is_escaped(slurmgen: Run) -> None:
    assert "\x1b" not in slurmgen("render", "--site", "a\x1b[31mb").stderr


STOP = "def stop(*a, **k): raise KeyboardInterrupt\n"


@pytest.mark.parametrize(
    ("code", "status", "last"),
    [
        ("c.cli.main = lambda *a, **k: 1 / 0; c.main()", 70, "error: this is a bug in slurmgen."),
        (STOP + "c.cli.main = lambda *a, **k: 1 / 0; c.click.echo = stop; c.main()", 130, ""),
        ("atexit.register(os.kill, os.getpid(), signal.SIGINT); c.main(['sites', 'list'])", 0, ""),
    ],
    ids=["a bug is reported", "^C while an error is printed", "^C while Python ends"],
)
def test_only_a_bug_ends_with_a_traceback(code: str, status: int, last: str) -> None:
    code = f"import atexit, os, signal, slurmgen.cli as c\n{code}"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert result.returncode == status
    assert result.stderr.splitlines()[-1].startswith(last) if last else not result.stderr


@pytest.mark.parametrize("reader", ["head -n 1", "true"])
def test_a_pipe_that_is_closed_early_or_never_read_is_not_an_error(reader: str) -> None:
    command = f"{sys.executable} -m slurmgen sites show olivia | {reader}"
    result = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True, check=False
    )
    assert (result.returncode, result.stderr) == (0, "")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shell_completion_is_available(shell: str, slurmgen: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("_SLURMGEN_COMPLETE", f"{shell}_source")
    assert "_SLURMGEN_COMPLETE" in slurmgen().stdout


@pytest.mark.parametrize(
    ("words", "completed"),
    [
        ("render --site l", ["leonardo", "lonestar6", "lumi-g"]),
        ("render --framework d", ["ddp", "deepspeed"]),
        ("submit --site daic --partition ", ["all"]),
        ("doctor --site daic --gpu-type a", ["a40"]),
        ("submit --site none-such --partition ", []),
        ("status --host ", ["far", "gate", "inner"]),
        ("submit --host me@f", ["me@far"]),
    ],
)
def test_completion_lists_sites_partitions_and_hosts(
    slurmgen: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, words: str, completed: list[str]
) -> None:
    (tmp_path / "more").write_text("Host inner\nInclude more\n")
    (tmp_path / "config").write_text(f'Host far *.org !bad\n Port 1\nHOST = "gate"\nInclude {tmp_path}/m*\n')
    monkeypatch.setenv("SLURMGEN_SSH_CONFIG", str(tmp_path / "config"))
    monkeypatch.setenv("_SLURMGEN_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", f"slurmgen {words}")
    monkeypatch.setenv("COMP_CWORD", str(len(words.split(" "))))
    assert slurmgen().stdout.split() == [f"plain,{word}" for word in completed]


HEAVY = {"torch", "paramiko", "jinja2", "rich", "lightning", "accelerate", "torchvision", "numpy"}


@pytest.mark.parametrize(
    ("args", "allowed", "most"),
    [
        (["--help"], set(), 10),
        (["render", "--gpus", "4"], {"jinja2"}, 85),
        (["explain", "--gpus", "4", "--json"], set(), 85),
        (["status", "last"], set(), 75),
        (["status", "--help"], set(), 75),
    ],
)
def test_a_command_does_not_import_modules_that_it_does_not_use(
    args: list[str], allowed: set[str], most: int
) -> None:
    code = (
        "import sys\nfrom slurmgen.cli import main\n"
        f"try: main({args!r})\nexcept SystemExit: pass\n"
        "print(*sys.modules, file=sys.stderr)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    names = [name.partition(".")[0] for name in result.stderr.split()]
    assert set(names) & HEAVY <= allowed
    assert names.count("slurmgen") <= most


@pytest.mark.parametrize(("time", "is_doubtful"), [("24", True), ("48:00", True), ("30", False)])
def test_minutes_that_look_like_hours_are_a_warning(time: str, is_doubtful: bool, slurmgen: Run) -> None:
    result = slurmgen("render", "--time", time)
    assert ("minutes. Write" in result.stderr) == is_doubtful
    assert ("minutes. Write" in " ".join(slurmgen("explain", "--time", time).stdout.split())) == is_doubtful


@pytest.mark.parametrize("words", [(), ("submit",), ("sites", "new")])
def test_help_is_also_a_command(words: tuple[str, ...], slurmgen: Run) -> None:
    assert slurmgen("help", *words).stdout == slurmgen(*words, "--help").stdout


@pytest.mark.parametrize("ports", ["6006:0", "a", "1:2:3", "70000"])
def test_a_port_is_given_as_to_ssh(ports: str, slurmgen: Run) -> None:
    result = slurmgen("port", "1", ports)
    assert result.returncode == 2
    assert "is not PORT or LOCAL:PORT" in result.stderr


@pytest.mark.parametrize(
    ("typed", "found"),
    [
        ("train.py", "sub/train.py"),
        ("../train.py", "train.py"),
        ("other.py", "other.py"),
        ("/a/b.py", "/a/b.py"),
    ],
)
def test_a_path_is_relative_to_the_current_folder(
    typed: str, found: str, tmp_path: Path, slurmgen: Run
) -> None:
    (tmp_path / "sub").mkdir()
    for name in ("slurmgen.toml", "train.py", "other.py", "sub/train.py"):
        (tmp_path / name).write_text("")
    result = slurmgen("render", "--script", typed, cwd=tmp_path / "sub")
    assert (f"\n  {found}\n" in result.stdout, result.stderr) == (True, "")


def test_the_hint_for_a_port_in_use_has_the_order_of_the_command() -> None:
    with socket.create_server((LOOPBACK, 0)) as used:
        port = used.getsockname()[1]
        with pytest.raises(RequestError, match="16006:6006, or 0:6006 for any"):
            Forwarding(port, pytest.fail, pytest.fail)
