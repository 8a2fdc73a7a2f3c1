"""Facts about every transport."""

import fcntl
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from slurmgen.errors import CommandFailed
from slurmgen.remote.local import LocalTransport
from slurmgen.remote.ssh.config import destination
from slurmgen.remote.ssh.paramiko import connect
from slurmgen.remote.transport import MAX_REPLY, ReplyTooLong, TimedOut, Transport
from slurmgen.slurm.commands import CLEAN
from tests.support.sshd import Server, sshd

SHORT, SOON, LONG = 2, 30, "100"
"Seconds: a timeout longer than the start of a command, a limit for a busy machine, and much later."
HOSTILE = [
    "two words",
    "it's",
    'say "no"',
    "new\nline",
    "-rf",
    "--help",
    "naïve ☃",
    "$(touch pwned)",
    "`touch pwned`",
    "a;touch pwned",
    "a&&touch pwned|touch pwned",
    "$HOME",
    "*",
    "~",
    "!!",
    "back\\slash\\",
    "tab\there",
    "#comment",
    "",
]


@pytest.mark.parametrize("word", HOSTILE)
def test_a_word_reaches_the_command_as_it_is(either: Transport, server: Server, word: str) -> None:
    assert either.run(["printf", "%s", word], timeout=60).out == word
    assert not (server.home / "pwned").exists()


def test_status_output_and_errors_are_separate(either: Transport) -> None:
    completed = either.run(["sh", "-c", "echo out; echo err >&2; exit 7"], timeout=60)
    assert (completed.returncode, completed.out, completed.err) == (7, "out\n", "err\n")


def test_commands_start_in_the_home_folder(either: Transport, server: Server) -> None:
    assert Path(either.run(["pwd", "-P"], timeout=60).out.strip()) == server.home.resolve()


def test_the_login_files_are_read_once(tmp_path: Path) -> None:
    """sshd's bash reads ~/.bashrc, that of the login reads ~/.bash_profile, and no other one reads any."""
    (folder := tmp_path / "sshd").mkdir()
    # bash runs the one command of `bash -c` so, which tells the next bash that sshd has started it.
    with sshd(folder, more='ForceCommand eval "exec $SSH_ORIGINAL_COMMAND"') as server:
        for name in (".bashrc", ".bash_profile"):
            (server.home / name).write_text(f"echo {name} >> ~/read\n")
        with connect(destination("far", server.config(tmp_path))) as transport:
            assert transport.run([*transport.shell, "true", "slurmgen"], timeout=60).returncode == 0
        assert sorted((server.home / "read").read_text().split()) == [".bash_profile", ".bashrc"]


def test_much_input_passes_through_while_much_output_comes_back(either: Transport) -> None:
    parts = [bytes([number]) * 1_000_000 for number in range(8)]
    assert either.run(["cat"], input=iter(parts), timeout=60).stdout == b"".join(parts)


def test_a_command_that_reads_no_input_is_not_an_error(either: Transport) -> None:
    assert either.run(["true"], input=iter([b"x" * 1_000_000] * 8), timeout=60).returncode == 0


def test_an_error_of_the_input_is_raised_unchanged(either: Transport) -> None:
    def broken() -> Iterator[bytes]:
        yield b"some"
        raise CommandFailed("no more")

    with pytest.raises(CommandFailed, match="no more"):
        either.run(["cat"], input=broken(), timeout=60)
    assert either.run(["echo", "on"], timeout=60).out == "on\n"


def test_a_command_ends_at_its_timeout(either: Transport) -> None:
    start = time.monotonic()
    with pytest.raises(TimedOut, match=r"sleep did not finish on .* within 2 seconds"):
        either.run(["sleep", LONG], timeout=SHORT)
    assert time.monotonic() - start < SOON


def test_a_command_that_writes_slowly_ends_at_its_timeout(either: Transport) -> None:
    with pytest.raises(TimedOut):
        either.run(["sh", "-c", "while :; do echo; sleep 0.2; done"], timeout=SHORT)


@pytest.mark.parametrize("to", ["1", "2"])
def test_a_command_that_writes_too_much_ends(either: Transport, to: str) -> None:
    with pytest.raises(ReplyTooLong, match=rf"^{either.where} sent more than 16 MB\. "):
        either.run(["sh", "-c", f"yes >&{to}"], timeout=600)
    assert either.run(["echo", "on"], timeout=60).out == "on\n"


def test_a_command_may_write_much(either: Transport) -> None:
    assert len(either.run(["head", "-c", f"{MAX_REPLY}", "/dev/zero"], timeout=60).stdout) == MAX_REPLY


def test_a_command_that_does_not_read_ends_at_its_timeout(either: Transport) -> None:
    with pytest.raises(TimedOut):
        either.run(["sleep", LONG], input=iter([b"x" * 1_000_000] * 8), timeout=SHORT)


def test_a_transport_goes_on_after_a_timeout(either: Transport) -> None:
    with pytest.raises(TimedOut):
        either.run(["sleep", LONG], timeout=SHORT)
    assert either.run(["echo", "on"], timeout=60).out == "on\n"


def test_a_stream_arrives_as_it_is_written(either: Transport, tmp_path: Path) -> None:
    # It continues only when its first word has been read.
    wait = 'echo one; while [ ! -e "$1" ]; do sleep 0.1; done; echo two'
    stream = either.stream(["sh", "-c", wait, "sh", str(tmp_path / "read")], timeout=60)
    assert next(stream) == b"one\n"
    (tmp_path / "read").touch()
    assert b"".join(stream) == b"two\n"


def test_a_stream_may_be_closed_early(either: Transport) -> None:
    start = time.monotonic()
    stream = either.stream(["sh", "-c", f"echo one; sleep {LONG}"], timeout=120)
    next(stream)
    stream.close()  # type: ignore[attr-defined]
    assert time.monotonic() - start < SOON


def test_a_silent_stream_ends_at_its_timeout(either: Transport) -> None:
    with pytest.raises(TimedOut):
        list(either.stream(["sleep", LONG], timeout=SHORT))


def test_errors_do_not_hold_up_a_stream(either: Transport) -> None:
    stream = either.stream(["sh", "-c", "head -c 8000000 /dev/zero >&2; echo out"], timeout=SOON)
    assert b"".join(stream) == b"out\n"


def test_a_stream_without_errors_outlasts_its_timeout(either: Transport) -> None:
    lines = "for n in 1 2 3 4 5 6 7 8 9 10 11 12; do echo; sleep 0.5; done; echo broken >&2; exit 3"
    with pytest.raises(CommandFailed, match="exit status 3: broken"):
        list(either.stream(["sh", "-c", lines], timeout=5))


def test_a_stream_with_too_many_errors_ends(either: Transport) -> None:
    with pytest.raises(ReplyTooLong, match=rf"^{either.where} sent more than 16 MB\. "):
        list(either.stream(["sh", "-c", "yes >&2"], timeout=600))
    assert either.run(["echo", "on"], timeout=60).out == "on\n"


def test_a_stream_of_errors_alone_is_silent(either: Transport) -> None:
    with pytest.raises(TimedOut):
        list(either.stream(["sh", "-c", "while :; do echo >&2; sleep 0.2; done"], timeout=SHORT))


def test_a_stream_that_fails_reports_why(either: Transport) -> None:
    with pytest.raises(CommandFailed, match="exit status 3: no such thing"):
        list(either.stream(["sh", "-c", "echo no such thing >&2; exit 3"], timeout=60))


def test_only_slurm_conf_of_the_variables_of_slurm_remains(either: Transport) -> None:
    more = ["SBATCH_QOS=x", "SQUEUE_FORMAT=x", "SLURM_JOB_ID=1", "KEPT=yes"]
    inner = ["bash", "-c", CLEAN, "slurmgen", "env"]
    names = {
        line.partition("=")[0] for line in either.run(["env", *more, *inner], timeout=60).out.splitlines()
    }
    assert {name for name in names if name.startswith(("SLURM", "SBATCH", "SQUEUE"))} == {"SLURM_CONF"}
    assert "KEPT" in names


def test_a_command_ended_by_a_signal_is_reported(transport: Transport) -> None:
    with pytest.raises(CommandFailed, match="ended by a signal"):
        transport.run(["sh", "-c", "kill -KILL $PPID"], timeout=60)


def test_a_pipe_that_cannot_be_enlarged_still_works(monkeypatch: pytest.MonkeyPatch) -> None:
    """All pipes of a user share a limit, which is larger for root."""

    def refuse(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(fcntl, "fcntl", refuse)
    assert LocalTransport().run(["cat"], input=b"all of it", timeout=60).stdout == b"all of it"
