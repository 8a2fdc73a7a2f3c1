import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from slurmgen.errors import ConfigError
from slurmgen.ledger import Ledger, Record, default_path


def record(id_: str, site: str = "daic", folder: str = "/f") -> Record:
    return Record(
        id=id_, site=site, via="ssh", host="me@h", name="n", folder=folder, output="%j", submitted="now"
    )


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "state/ledger.sqlite")


def test_what_is_written_is_found(ledger: Ledger) -> None:
    ledger.add(record("12"))
    assert ledger.find("12") == (record("12"),)
    assert ledger.find("12", "olivia") == ledger.find("13") == ()


def test_nothing_is_made_by_looking(ledger: Ledger) -> None:
    assert ledger.all() == ()
    assert not ledger.path.parent.exists()


def test_it_is_readable_by_its_owner_alone(ledger: Ledger) -> None:
    ledger.add(record("12"))
    assert ledger.path.stat().st_mode & 0o777 == 0o600
    assert ledger.path.parent.stat().st_mode & 0o777 == 0o700


def test_an_id_at_two_sites_is_found_at_both(ledger: Ledger) -> None:
    ledger.add(record("12"))
    ledger.add(record("12", "olivia"))
    assert [one.site for one in ledger.find("12")] == ["daic", "olivia"]
    assert [one.site for one in ledger.find("12", "olivia")] == ["olivia"]


def test_of_an_id_used_twice_the_later_counts(ledger: Ledger) -> None:
    ledger.add(record("12"))
    ledger.add(record("12", folder="/later"))
    assert [one.folder for one in ledger.find("12")] == ["/later"]


@pytest.mark.parametrize("text", ["it's", "'; DROP TABLE jobs; --", "naïve ☃", "new\nline"])
def test_any_text_is_only_text(ledger: Ledger, text: str) -> None:
    ledger.add(record("12", folder=text))
    assert ledger.find("12")[0].folder == text


def test_many_may_write_at_once(ledger: Ledger) -> None:
    code = (
        "import sys; from pathlib import Path; from slurmgen.ledger import Ledger, Record\n"
        "rest = dict(site='s', via='local', name='n', folder='f', output='o', submitted='t')\n"
        "for n in range(20): Ledger(Path(sys.argv[1])).add(Record(id=f'{sys.argv[2]}{n:02}', **rest))"
    )
    command = [sys.executable, "-c", code, str(ledger.path)]
    writers = [subprocess.Popen([*command, str(number)]) for number in range(1, 5)]
    assert [writer.wait(60) for writer in writers] == [0, 0, 0, 0]
    assert len({one.id for one in ledger.all()}) == 80


def test_a_broken_file_is_told(ledger: Ledger) -> None:
    ledger.path.parent.mkdir()
    ledger.path.write_text("not a database, and long enough to be sure of it" * 100)
    with pytest.raises(ConfigError, match=r"cannot use .*move it away"):
        ledger.all()


def test_a_file_of_a_newer_slurmgen_is_told_and_left_as_it_is(ledger: Ledger) -> None:
    ledger.add(record("12"))
    with closing(sqlite3.connect(ledger.path)) as database:
        database.execute("PRAGMA user_version = 2")
    before = ledger.path.read_bytes()
    for use in (ledger.check, ledger.all, lambda: ledger.add(record("13"))):
        with pytest.raises(ConfigError, match="written by a newer slurmgen"):
            use()
    assert ledger.path.read_bytes() == before


def test_a_file_from_before_there_were_forms_is_read_on(ledger: Ledger) -> None:
    ledger.add(record("12"))
    with closing(sqlite3.connect(ledger.path)) as database:
        database.execute("PRAGMA user_version = 0")
    ledger.check()
    assert ledger.find("12") == (record("12"),)


def test_a_check_finds_what_a_record_would_fail_at(ledger: Ledger) -> None:
    ledger.check()
    assert ledger.all() == ()
    with closing(sqlite3.connect(ledger.path)) as database:
        database.execute("ALTER TABLE jobs DROP COLUMN folder")
    with pytest.raises(ConfigError, match="folder"):
        ledger.check()


def test_only_the_rows_of_an_id_are_read(ledger: Ledger) -> None:
    ledger.add(record("12"))
    ledger.add(record("13"))
    with closing(sqlite3.connect(ledger.path)) as database, database:
        database.execute("UPDATE jobs SET via = 'pigeon' WHERE id = '13'")
    assert ledger.find("12") == (record("12"),)
    with pytest.raises(ConfigError, match="pigeon"):
        ledger.find("13")


def test_it_is_in_the_state_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "/state")
    assert default_path() == Path("/state/slurmgen/ledger.sqlite")
