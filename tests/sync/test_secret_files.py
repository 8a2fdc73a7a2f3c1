"""Files whose names suggest secrets are not sent unless the user names them, and that is reported."""

import json
from pathlib import Path

import pytest

from slurmgen.errors import RequestError
from slurmgen.sync.files import of_script, project_files, snapshot
from tests.conftest import Run
from tests.scenarios.test_hostile_replies import JOB, Machine
from tests.sync.test_files import fill

SECRET = """
.env .env.local .env.production .ENV .env-prod a/b/.env .envrc .netrc _netrc .aws/credentials .aws/config
.ssh/id_ed25519 .ssh/config id_rsa id_ed25519 id_ed25519_work id_ecdsa_sk id_rsa.bak
key.pem keys/tls.key a.p12 b.pfx c.ppk
.git-credentials .pypirc .npmrc kaggle.json .kaggle/kaggle.json .bash_history .zsh_history .python_history
.bash_history-1.tmp secrets.toml .streamlit/secrets.toml wandb/settings a/wandb/settings .huggingface/token
.cache/huggingface/token .docker/config.json .kube/config .config/gcloud/credentials.db
application_default_credentials.json service-account-1.json .pgpass .my.cnf credentials.json
.password-store/x.gpg
.secrets .secrets/a hf_token .hf-token token.txt token.json a/gcp-credentials.json prod.env secrets.env
my.env.bak .flaskenv
.condarc .jupyter/jupyter_server_config.json .aws.bak/credentials wandb/wandb-key .neptune/x .netrc.bak
auth.json
openai_api_key openai-api-key.txt deploy_rsa terraform.tfvars passwords.txt client_secret credentials
.ngc/config
""".split()
HARMLESS = """
.env.example .env.sample .env.template .env.local.example env.py environment.yml .environment id_rsa.pub
id_ed25519_work.pub keys.py key monkey.txt token.py tokenizer.json huggingface/tokenizer.json secrets.py
config.json docker/config.json wandb/run.log history.csv train_history aws/credentials_test.py ssh/config
tokens.txt tokenizer.py tokenizer_config.json special_tokens_map.json added_tokens.json token_counts.json
tokenization.py my_tokens.csv vocab.json credentials.py secret_santa.py env.sh conda-env.yml example.env
environment
keyboard.json monkey donkey_key.py auth.py password_model.py max_tokens.yaml data/token/a.npy secretary.txt
settings .python-version .gitignore pem.txt .env/bin/python kube/config
""".split()


@pytest.mark.parametrize("name", SECRET)
def test_a_secret_is_not_sent(tmp_path: Path, name: str) -> None:
    found = snapshot(fill(tmp_path, name, "kept"))
    assert list(found.files) == ["kept"]
    (left_out,) = found.secrets
    assert name.startswith(left_out)


@pytest.mark.parametrize("name", HARMLESS)
def test_a_file_that_is_not_a_secret_is_sent(tmp_path: Path, name: str) -> None:
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / name).write_text("")
    assert list(snapshot(tmp_path).files) == [name]


PRIVATE = "-----BEGIN RSA PRIVATE KEY-----\n"
CERTIFICATE = "-----BEGIN CERTIFICATE-----\n"


@pytest.mark.parametrize(
    ("text", "sent"),
    [
        (PRIVATE, False),
        (CERTIFICATE, True),
        (CERTIFICATE + PRIVATE, False),
        ("-----BEGIN PUBLIC KEY-----", True),
        ("", False),
    ],
)
@pytest.mark.parametrize("name", ["a.pem", "a.key"])
def test_a_certificate_is_not_a_private_key(tmp_path: Path, name: str, text: str, sent: bool) -> None:
    (tmp_path / name).write_text(text)
    assert list(snapshot(tmp_path).files) == [name] * sent


def test_no_file_of_the_project_can_include_a_secret(tmp_path: Path) -> None:
    fill(
        tmp_path,
        "a/.env",
        **{".slurmgenignore": "!.env\n!id_rsa\n", ".gitignore": "!.env\n", ".env": "", "id_rsa": ""},
    )
    found = snapshot(tmp_path)
    assert list(found.files) == [".gitignore", ".slurmgenignore"]
    assert list(found.secrets) == [".env", "a/.env", "id_rsa"]


def test_a_link_with_the_name_of_a_secret_is_not_sent(tmp_path: Path) -> None:
    fill(tmp_path, "kept")
    (tmp_path / ".env").symlink_to("kept")
    assert list(snapshot(tmp_path).files) == ["kept"]


def test_an_ignored_secret_is_not_reported(tmp_path: Path) -> None:
    assert snapshot(fill(tmp_path, **{".gitignore": ".env\n", ".env": ""})).secrets == {}


def test_the_user_sends_a_secret_by_its_name(tmp_path: Path) -> None:
    fill(tmp_path, "id_rsa", ".aws/config", ".aws/credentials", **{".gitignore": ".env\n", ".env": ""})
    found = snapshot(tmp_path, ["./.env", ".aws/config", "id_rsa"])
    assert list(found.files) == [".aws/config", ".env", ".gitignore", "id_rsa"]
    assert list(found.secrets) == [".aws/"]


@pytest.mark.parametrize(
    "name", ["no", ".aws", "../out", "/etc/passwd", "link", "folder/x", ".git/config", ".slurmgen/complete"]
)
def test_only_a_file_in_the_project_can_be_named(tmp_path: Path, name: str) -> None:
    root = fill(tmp_path / "p", ".aws/config", ".git/config", ".slurmgen/complete")
    fill(tmp_path, "out", "folder/x")
    (root / "link").symlink_to(".aws/config")
    (root / "folder").symlink_to("../folder")
    with pytest.raises(RequestError, match=f"--send {name}: "):
        snapshot(root, [name])


def test_a_script_that_is_a_secret_is_refused_with_the_reason(tmp_path: Path) -> None:
    fill(tmp_path, ".aws/train.py", "id_rsa")
    with pytest.raises(
        RequestError, match="'id_rsa' is not sent: by its name, id_rsa holds SSH keys"
    ) as caught:
        project_files(tmp_path, [of_script("id_rsa")])
    assert caught.value.hint == "Rename it, or send it with --send PATH."
    with pytest.raises(RequestError, match=r"by its name, \.aws/ holds credentials of a cloud"):
        project_files(tmp_path, [of_script(".aws/train.py")])
    with pytest.raises(RequestError, match="is not among the files"):
        project_files(tmp_path, [of_script("id_rs")])
    assert (
        ".aws/train.py"
        in project_files(tmp_path, [of_script(".aws/train.py")], send=(".aws/train.py",)).files
    )


@pytest.fixture
def machine(tmp_path: Path, slurmgen: Run) -> Machine:
    made = Machine(tmp_path, slurmgen)
    made.answers("sbatch", "echo 11")
    fill(made.project, ".env", "id_rsa", "a\nb/.env")
    return made


NOTICE = (
    r"3 possible secrets not sent: .env (environment variables), a\nb/.env (environment variables), "
    "id_rsa (SSH keys); --send PATH sends a file"
)


def test_what_is_not_sent_is_reported_by_submit_and_by_doctor(machine: Machine) -> None:
    assert NOTICE in machine.submit("--dry-run")[2].splitlines()
    assert NOTICE in machine.submit()[2].splitlines()
    (project,) = (line for line in machine.slurmgen("doctor", *JOB)[1].splitlines() if " project " in line)
    assert project.endswith(f"including train.py; {NOTICE}")


def test_json_has_what_is_not_sent(machine: Machine) -> None:
    assert json.loads(machine.submit("--dry-run", "--json")[1])["secrets"] == [".env", "a\nb/.env", "id_rsa"]


def test_the_option_send_sends_a_secret(machine: Machine) -> None:
    code, _, err = machine.submit("--send", ".env", "--send", "id_rsa")
    assert (code, "1 possible secret not sent" in err) == (0, True)
    (run,) = (machine.home / "slurmgen/project/runs").iterdir()
    assert sorted(path.name for path in run.iterdir() if path.name.startswith((".env", "id"))) == [
        ".env",
        "id_rsa",
    ]
    assert "--send nothing: there is no such file" in machine.submit("--send", "nothing")[2]
    assert "3 files" in machine.slurmgen("doctor", *JOB, "--send", ".env")[1]
