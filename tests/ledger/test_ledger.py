import os
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from slurmgen.errors import ConfigError
from slurmgen.ledger.ledger import Ledger, Record, default_path
from tests.conftest import Run
from tests.test_paths import OTHER_USER, as_root


def record(id_: str, site: str = "daic", folder: str = "/f") -> Record:
    return Record(
        id=id_, site=site, via="ssh", host="me@h", name="n", folder=folder, output="%j", submitted="now"
    )


def pending(key: str, fingerprint: str) -> Record:
    return structs.replace(record(""), key=key, fingerprint=fingerprint, state="pending")


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "state/ledger.sqlite")


PROGRAM = """
import sys
from pathlib import Path
from slurmgen.ledger.ledger import Ledger, Record
ledger, me = Ledger(Path(sys.argv[1])), sys.argv[2]
rest = dict(site="s", via="local", name="n", folder="f", output="o", submitted="t")
"""


def started(ledger: Ledger, code: str, name: int) -> "subprocess.Popen[str]":
    """Another process that uses the ledger."""
    argv = [sys.executable, "-c", PROGRAM + code, str(ledger.path), str(name)]
    return subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)


def at_once(ledger: Ledger, code: str, count: int) -> list[str]:
    """What several processes print that use the ledger at the same time."""
    some = [started(ledger, code, name) for name in range(count)]
    printed = [one.communicate(timeout=300)[0] for one in some]
    assert [one.returncode for one in some] == [0] * count
    return printed


def test_a_recorded_job_is_found_by_its_id(ledger: Ledger) -> None:
    ledger.add(record("12"))
    assert ledger.find("12") == (record("12"),)
    assert ledger.find("12", "olivia") == ledger.find("13") == ()


def test_reading_does_not_create_the_ledger(ledger: Ledger) -> None:
    assert ledger.all() == ()
    assert not ledger.path.parent.exists()


def test_only_the_owner_may_read_the_ledger(ledger: Ledger) -> None:
    ledger.add(record("12"))
    assert ledger.path.stat().st_mode & 0o777 == 0o600
    assert ledger.path.parent.stat().st_mode & 0o777 == 0o700


def test_a_transaction_is_kept_if_the_power_fails_right_after_it(ledger: Ledger) -> None:
    with ledger._writing() as database:
        assert database.execute("PRAGMA synchronous").fetchone() == (3,)  # EXTRA


def test_an_id_at_two_sites_is_found_at_both(ledger: Ledger) -> None:
    ledger.add(record("12"))
    ledger.add(record("12", "olivia"))
    assert [one.site for one in ledger.find("12")] == ["daic", "olivia"]
    assert [one.site for one in ledger.find("12", "olivia")] == ["olivia"]


def test_the_last_jobs_are_found_by_name_and_site(ledger: Ledger) -> None:
    for number, site, name in ((1, "daic", "a"), (2, "olivia", "a"), (3, "daic", "b")):
        ledger.add(structs.replace(record(str(number), site), name=name, submitted=str(number)))

    def id_of(name: str | None = None, site: str | None = None) -> str | None:
        found = ledger.last(name, site)
        return found.id if found else None

    assert (id_of(), id_of("a"), id_of("a", "daic"), id_of(None, "olivia")) == ("3", "2", "1", "2")
    assert id_of("c") is id_of("b", "olivia") is None
    assert [one.id for one in ledger.recent(2)] == ["2", "3"]
    assert (
        [one.id for one in ledger.recent(5, "daic")] == [one.id for one in ledger.all("daic")] == ["1", "3"]
    )


@pytest.mark.parametrize(
    "look_up",
    [
        lambda ledger: ledger.find("5"),
        lambda ledger: ledger.last(),
        lambda ledger: ledger.last("n", "daic"),
        lambda ledger: ledger.last(None, "nosuch"),
        lambda ledger: ledger.of_key("nosuch"),
        lambda ledger: ledger.unsettled("n"),
        lambda ledger: ledger.claim(pending("a", "f")),
        lambda ledger: [ledger.claim(pending(key, "f")) for key in "ab"],
        lambda ledger: ledger.drop("a"),
        lambda ledger: ledger.unfinished("daic"),
        lambda ledger: ledger.group(structs.replace(record("1"), part_of="p")),
        lambda ledger: ledger.save_final_states({record("5"): ("[]", "", "")}),
    ],
)
def test_a_job_is_found_without_reading_the_whole_ledger(
    ledger: Ledger, look_up: Callable[[Ledger], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite's plan of each query names an index, and scans no table."""
    ledger.add(record("5"))
    plans: list[str] = []
    connect = sqlite3.connect

    class Explaining(sqlite3.Connection):
        def execute(self, sql: str, *values: Any) -> sqlite3.Cursor:
            if sql.startswith(("SELECT", "UPDATE", "DELETE")):
                plans.extend(row[3] for row in super().execute(f"EXPLAIN QUERY PLAN {sql}", *values))
            return super().execute(sql, *values)

        def executemany(self, sql: str, rows: Any) -> sqlite3.Cursor:
            for row in rows:
                self.execute(sql, row)
            return self.cursor()

    monkeypatch.setattr(sqlite3, "connect", partial(connect, factory=Explaining))
    look_up(ledger)
    assert plans
    few = ("INDEX of_a_time", "INDEX of_a_command", "INDEX unfinished")
    assert not [plan for plan in plans if "SCAN" in plan and not plan.endswith(few)]


def test_the_later_job_of_an_id_that_was_used_twice_is_found(ledger: Ledger) -> None:
    ledger.add(record("12"))
    ledger.add(record("12", folder="/later"))
    assert [one.folder for one in ledger.find("12")] == ["/later"]


@pytest.mark.parametrize("text", ["it's", "'; DROP TABLE jobs; --", "naïve ☃", "new\nline"])
def test_text_is_stored_unchanged_and_not_run_as_sql(ledger: Ledger, text: str) -> None:
    ledger.add(record("12", folder=text))
    assert ledger.find("12")[0].folder == text


def test_several_processes_may_write_at_the_same_time(ledger: Ledger) -> None:
    at_once(ledger, "for n in range(20): ledger.add(Record(id=f'{me}{n:02}', **rest))", 4)
    assert len({one.id for one in ledger.all()}) == 80


def test_another_process_may_remove_its_journal_meanwhile(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger.add(record("12"))
    journal = ledger.path.with_name(f"{ledger.path.name}-journal")
    journal.write_bytes(b"x")
    lstat = Path.lstat

    def removed_right_after(path: Path) -> os.stat_result:
        status = lstat(path)
        if path == journal:
            journal.unlink()
        return status

    monkeypatch.setattr(Path, "lstat", removed_right_after)
    assert [one.id for one in ledger.all()] == ["12"]


def test_a_broken_file_is_reported(ledger: Ledger) -> None:
    ledger.path.parent.mkdir()
    ledger.path.write_text("not a database, and long enough to be sure of it" * 100)
    with pytest.raises(ConfigError, match=r"not a database.*move it away .* knows none of your jobs"):
        ledger.all()


def test_a_file_of_a_newer_slurmgen_is_refused_and_not_changed(ledger: Ledger) -> None:
    ledger.add(record("12"))
    with closing(sqlite3.connect(ledger.path)) as database:
        database.execute("PRAGMA user_version = 99")
    before = ledger.path.read_bytes()
    for use in (ledger.check, ledger.all, lambda: ledger.add(record("13"))):
        with pytest.raises(ConfigError, match="written by a newer slurmgen"):
            use()
    assert ledger.path.read_bytes() == before


OLD = """
CREATE TABLE jobs (number INTEGER PRIMARY KEY, id TEXT NOT NULL, cluster TEXT NOT NULL, site TEXT NOT NULL,
via TEXT NOT NULL, host TEXT, ssh_config TEXT, name TEXT NOT NULL, folder TEXT NOT NULL,
output TEXT NOT NULL, submitted TEXT NOT NULL);
INSERT INTO jobs VALUES (3, '12', '', 'daic', 'ssh', 'me@h', NULL, 'n', '/f', '%j', 'now');
"""
"A ledger as the first slurmgen wrote it."


@pytest.mark.parametrize("version", [0, 1])
def test_a_file_of_the_first_schema_is_migrated_without_loss(ledger: Ledger, version: int) -> None:
    ledger.path.parent.mkdir()
    with closing(sqlite3.connect(ledger.path)) as database:
        database.executescript(f"{OLD} PRAGMA user_version = {version};")
    assert ledger.find("12") == (record("12"),)
    ledger.claim(pending("a", "same"))
    assert [one.id for one in ledger.all()] == ["12", ""]


@pytest.mark.parametrize("version", range(2, len(Ledger.migrations)))
def test_a_file_of_any_later_schema_is_migrated_without_loss(ledger: Ledger, version: int) -> None:
    ledger.path.parent.mkdir()
    steps = ";".join(statement for step in Ledger.migrations[1:version] for statement in step)
    more = "UPDATE jobs SET final = 'well';" if version > 2 else ""
    with closing(sqlite3.connect(ledger.path)) as database:
        database.executescript(f"{OLD} {steps}; {more} PRAGMA user_version = {version};")
    (kept,) = ledger.all()
    assert kept == structs.replace(record("12"), final="well" if more else "")
    ledger.save_final_states({kept: ("well", "so", "")}, {kept: "RUNNING"})
    ledger.claim(pending("a", "same"))
    assert [(one.final, one.why, one.seen) for one in ledger.all()] == [
        ("well", "so", "RUNNING"),
        ("", "", ""),
    ]


def test_a_final_state_is_saved_only_for_its_own_job(ledger: Ledger) -> None:
    for one in (record("12"), record("12", "olivia"), record("13")):
        ledger.add(one)
    ledger.save_final_states({record("12"): ("well", "", "")})
    assert [one.final for one in ledger.all()] == ["well", "", ""]
    ledger.save_final_states({record("12"): ("", "", "[2]"), record("13"): ("badly", "since", "")})
    assert [(one.final, one.why) for one in ledger.all()] == [("", ""), ("", ""), ("badly", "since")]
    assert [one.requeued for one in ledger.all()] == ["[2]", "", ""]


def test_an_unsettled_entry_is_found_by_its_key_and_by_its_name(ledger: Ledger) -> None:
    for one in (pending("a", "one"), pending("b", "two"), record("12")):
        ledger.add(one)
    assert [one.key for one in ledger.unsettled("a")] == ["a"]
    assert [one.key for one in ledger.unsettled("n")] == ["a", "b"]
    assert ledger.unsettled("n", "olivia") == ledger.unsettled("12") == ()


def test_several_processes_may_migrate_the_file_at_the_same_time(ledger: Ledger) -> None:
    ledger.path.parent.mkdir()
    with closing(sqlite3.connect(ledger.path)) as database:
        database.executescript(f"{OLD} PRAGMA user_version = 1;")
    at_once(ledger, "ledger.check()", 6)
    assert ledger.all() == (record("12"),)


def test_the_same_command_gets_the_key_of_its_pending_entry(ledger: Ledger) -> None:
    first = ledger.claim(pending("a", "same"))
    assert ledger.claim(pending("b", "same")) == first
    assert ledger.claim(pending("c", "another")).key == "c"
    assert [one.pending for one in ledger.all()] == [True, True]


def test_again_adds_an_entry_with_a_new_key(ledger: Ledger) -> None:
    ledger.claim(pending("a", "same"))
    assert ledger.claim(pending("b", "same"), again=True).key == "b"
    assert ledger.claim(pending("c", "same")).key == "b"


def test_a_settled_entry_has_its_job_and_its_key_is_not_used_again(ledger: Ledger) -> None:
    first = ledger.claim(pending("a", "same"))
    done = structs.replace(first, id="12", state="submitted", dirty=True, commit="c", snapshot="h")
    for _ in range(2):  # two terminals may have found the same job
        ledger.settle(done)
        assert ledger.all() == (done,)
    assert ledger.claim(pending("b", "same")).key == "b"


def test_entries_are_in_the_order_of_submission_not_of_their_creation(ledger: Ledger) -> None:
    first = ledger.claim(structs.replace(pending("a", "one"), submitted="2026-01-01T00:00:00+00:00"))
    ledger.add(structs.replace(record("2"), submitted="2026-01-01T00:00:01+00:00"))
    later = "2026-01-01T00:00:02+00:00"
    ledger.settle(structs.replace(first, id="1", state="submitted", submitted=later))
    assert [one.id for one in ledger.all()] == ["2", "1"]


def test_drop_removes_an_entry_unless_it_has_a_job(ledger: Ledger) -> None:
    first = ledger.claim(pending("a", "same"))
    ledger.drop("a")
    assert ledger.all() == ()
    done = structs.replace(first, id="12", state="submitted")
    ledger.settle(done)  # the other terminal's
    ledger.drop("a")
    assert ledger.all() == (done,)


def test_several_processes_that_claim_the_same_command_get_one_key(ledger: Ledger) -> None:
    code = "print(ledger.claim(Record(id='', key=me, fingerprint='same', state='pending', **rest)).key)"
    assert len({*at_once(ledger, code, 6)}) == len(ledger.all()) == 1


def test_a_writer_killed_at_any_moment_leaves_an_intact_file(ledger: Ledger) -> None:
    code = """
rest["name"] = "n" * 3000
print("ready", flush=True)
for n in range(10**9):
    one = Record(id="", key=f"{me}-{n}", fingerprint=f"{n}", state="pending", **rest)
    ledger.claim(one, again=True)
    ledger.settle(Record(id=str(n), key=one.key, fingerprint=one.fingerprint, **rest))
    print(one.key, flush=True)
"""
    for turn in range(20):
        with started(ledger, code, turn) as writer:
            assert writer.stdout
            lines = [writer.stdout.readline().strip() for _ in range(2 + turn % 5)]
            time.sleep(turn / 1000)
            writer.kill()
            lines += writer.stdout.read().split("\n")[:-1]
        written = {one.key for one in ledger.all() if not one.pending}
        assert set(lines[1:]) <= written | {""}
    with closing(sqlite3.connect(ledger.path)) as database:
        assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_check_reports_a_missing_column(ledger: Ledger) -> None:
    ledger.check()
    assert ledger.all() == ()
    with closing(sqlite3.connect(ledger.path)) as database:
        database.execute("ALTER TABLE jobs DROP COLUMN folder")
    with pytest.raises(ConfigError, match="folder"):
        ledger.check()


def test_find_reads_only_the_rows_of_its_id(ledger: Ledger) -> None:
    ledger.add(record("12"))
    ledger.add(record("13"))
    with closing(sqlite3.connect(ledger.path)) as database, database:
        database.execute("UPDATE jobs SET via = 'pigeon' WHERE id = '13'")
    assert ledger.find("12") == (record("12"),)
    with pytest.raises(ConfigError, match="pigeon"):
        ledger.find("13")


def test_the_ledger_is_in_the_state_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "/state")
    assert default_path() == Path("/state/slurmgen/ledger.sqlite")


@pytest.fixture
def open_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.mark.usefixtures("open_umask")
def test_folders_that_are_made_for_the_ledger_are_private(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "state/slurmgen/ledger.sqlite")
    ledger.add(record("12"))
    modes = [path.stat().st_mode & 0o777 for path in (ledger.path, *ledger.path.parents[:2])]
    assert modes == [0o600, 0o700, 0o700]


@pytest.mark.parametrize("place", [".", "slurmgen", "slurmgen/ledger.sqlite"])
def test_a_ledger_that_other_users_may_change_is_refused(place: str, tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "slurmgen/ledger.sqlite")
    ledger.add(record("12"))
    (tmp_path / place).chmod((tmp_path / place).stat().st_mode | 0o022)
    for use in (ledger.all, ledger.check, lambda: ledger.find("12"), lambda: ledger.add(record("13"))):
        with pytest.raises(ConfigError, match="is not safe to use: other users may write to"):
            use()


@as_root
@pytest.mark.parametrize("place", ["slurmgen", "slurmgen/ledger.sqlite"])
def test_a_ledger_of_another_user_is_refused(place: str, tmp_path: Path, slurmgen: Run) -> None:
    path = tmp_path / "slurmgen/ledger.sqlite"
    Ledger(path).add(record("12"))
    os.chown(tmp_path / place, OTHER_USER, OTHER_USER)
    result = slurmgen("status", env=os.environ | {"XDG_STATE_HOME": str(tmp_path)})
    assert result.returncode == 2
    assert f"error: {path if place != 'slurmgen' else path.parent} is not safe to use: " in result.stderr
    assert "belongs to user" in result.stderr


def test_an_unfinished_job_is_submitted_and_was_not_seen_to_end(ledger: Ledger) -> None:
    ended = structs.replace(record("1"), final="[]")
    for one in (ended, record("2"), record("3", "olivia"), pending("a", "f")):
        ledger.add(one)
    assert [one.id for one in ledger.unfinished()] == ["2", "3"]
    assert [one.id for one in ledger.unfinished("daic")] == ["2"]
