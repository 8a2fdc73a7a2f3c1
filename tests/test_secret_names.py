"""Keys are found by their public forms, in scripts and in `env`. None of these is a key of a service."""

import hashlib
import string
from pathlib import Path

import pytest

from slurmgen import Request, load_site, resolve
from slurmgen.errors import RequestError
from slurmgen.lint import lint_text
from slurmgen.secret_names import FORMS, keys_in
from tests.conftest import Run

LETTERS = string.ascii_letters + string.digits
HEX = "0123456789abcdef"
UPPER = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"


def some(length: int, alphabet: str = LETTERS) -> str:
    """The same arbitrary characters each time; no key is written in this file."""
    digest = b"".join(hashlib.sha256(bytes([length, part])).digest() for part in range(8))
    return "".join(alphabet[byte % len(alphabet)] for byte in digest[:length])


KEYS = [
    (
        "a GitHub token",
        *(f"gh{kind}_" + some(36) for kind in "pous"),
        "github_pat_" + some(22) + "_" + some(59),
    ),
    ("a GitLab token", "glpat-" + some(20), "gldt-" + some(20)),
    ("a Hugging Face token", "hf_" + some(34, string.ascii_letters)),
    ("an Anthropic key", "sk-ant-" + "api03-" + some(93)),
    ("an OpenAI key", "sk-" + some(48), "sk-proj-" + some(120), "sk-or-v1-" + some(64, HEX)),
    ("an AWS key", "AKIA" + some(16, UPPER), "ASIA" + some(16, UPPER)),
    ("an AWS secret key", "AWS_SECRET_ACCESS_KEY=" + some(40), "aws_secret_access_key = " + some(40)),
    ("a Google key", "AIza" + some(35), "ya29." + some(60), "GOCSPX-" + some(28)),
    ("a Slack token", "xoxb-" + some(12, HEX) + "-" + some(24)),
    (
        "a Slack webhook",
        "https://hooks.slack.com/" + "services/T" + some(8) + "/B" + some(8) + "/" + some(24),
    ),
    ("a Stripe key", "sk_" + "live_" + some(24), "rk_" + "live_" + some(24)),
    ("an npm token", "npm_" + some(36)),
    ("a PyPI token", "pypi-" + "AgEIcHlwaS5vcmc" + some(70)),
    ("a Weights & Biases key", "wandb login " + some(40, HEX), "WANDB_API_KEY=" + some(40, HEX)),
    ("a Comet key", "COMET_API_KEY=" + some(25)),
    ("a Neptune token", "eyJhcGlfYWRkcmVzcyI6" + some(60)),
    ("a SendGrid key", "SG." + some(22) + "." + some(43)),
    ("a Twilio key", "SK" + some(32, HEX)),
    ("a DigitalOcean token", "dop_v1_" + some(64, HEX)),
    ("a Databricks token", "dapi" + some(32, HEX)),
    ("an Azure key", "AccountKey=" + some(86) + "=="),
    ("a JSON web token", "eyJ" + some(20) + ".eyJ" + some(30) + "." + some(43)),
    ("a private key", *(f"-----BEGIN {kind}PRIVATE" + " KEY-----" for kind in ("", "RSA ", "OPENSSH "))),
    ("a Telegram token", some(9, "123456789") + ":AA" + some(33)),
    ("a Kaggle key", "KGAT_" + some(32, HEX), "KAGGLE_KEY=" + some(32, HEX)),
    ("a Replicate token", "r8_" + some(37)),
    ("a Groq key", "gsk_" + some(52)),
    ("an NVIDIA key", "nvapi-" + some(64)),
    ("a Docker Hub token", "dckr_pat_" + some(27)),
    ("a Perplexity key", "pplx-" + some(48)),
    ("an xAI key", "xai-" + some(80)),
    (
        "a password in a URL",
        "postgres://me:" + some(12) + "@db.example.org/x",
        "http://u:" + some(9) + "@proxy:3128",
    ),
]
NO_KEYS = [
    "hf_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
    "HF_TOKEN=$HF_TOKEN",
    'WANDB_API_KEY="$(cat ~/.wandb)"',
    "hf_your_token_here",
    "<YOUR_API_KEY>",
    "ghp_" + 36 * "a",
    "AKIAIOSFODNN7EXAMPLE",
    "commit " + some(40, HEX),
    "sha256:" + some(64, HEX),
    "3f2b8c1e-9d4a-4e7b-8a6f-0c5d2e1b7a93",
    "git clone git@github.com:me/project.git",
    "https://user@host.example.org/a:b",
    "postgres://user:password@localhost/db",
    "https://$USER:$PASS@host/",
    "sk-learn-a-rather-long-name-of-an-experiment",
    "task-0123456789abcdef0123",
    "hf_hub_download",
    "--wandb-project disk-usage-0123456789",
    "-----BEGIN CERTIFICATE-----",
    "/data/models/meta-llama/Llama-3.1-8B-Instruct",
    "registry.example.org:5000/team/image@sha256:" + some(64, HEX),
]
HEADER = "#!/bin/bash\n#SBATCH --time=1:00:00\n"


def found(line: str) -> list[str]:
    reports = lint_text(f"{HEADER}{line}\n", None, Path("job.sbatch"))
    return [report.finding.message for report in reports if report.rule.code == "SG514"]


def test_the_table_has_a_test_for_each_of_its_forms() -> None:
    assert [kind for kind, *_ in KEYS] == list(FORMS)
    assert len(FORMS) >= 20


@pytest.mark.parametrize(("kind", "key"), [(kind, key) for kind, *keys in KEYS for key in keys])
def test_a_key_is_found_wherever_it_is_in_a_script_and_not_repeated(kind: str, key: str) -> None:
    assert [one.kind for one in keys_in(key)] == [kind]
    for line in (f"# {key}", f"srun ./train --key '{key}'", f"cat <<END\n{key}\nEND"):
        assert len(messages := found(line)) == 1, line
        assert key not in messages[0]


@pytest.mark.parametrize("text", NO_KEYS)
def test_what_only_resembles_a_key_is_not_found(text: str) -> None:
    assert list(keys_in(text)) == []
    assert found(f"# {text}") == []


def test_a_long_text_takes_no_more_than_linear_time() -> None:
    for part in ("sk-ab-", "a://b:", "xoxb-", "eyJa", "wandb login ", "-----BEGIN A "):
        assert list(keys_in(part * 20_000)) == []


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("HF_TOKEN", "anything"),
        ("MY_PASSWORD", "x1"),
        ("PLAIN", "hf_" + some(34)),
        ("DB", "pg://me:" + some(9) + "@h"),
    ],
)
def test_a_variable_that_looks_like_a_secret_is_refused(slurmgen: Run, name: str, value: str) -> None:
    reply = slurmgen("render", "--env", f"{name}={value}")
    assert (reply.returncode, reply.stdout) == (2, "")
    assert (
        f"error: --env {name} looks like a secret, and its value would be part of the script." in reply.stderr
    )
    assert f"--secret {name}" in reply.stderr
    assert value not in reply.stderr
    allowed = slurmgen("render", "--env", f"{name}={value}", "--not-secret", name)
    assert f"export {name}={value}\n" in allowed.stdout


@pytest.mark.parametrize(
    "value", ["", "$HOME/.token", "~/.hf_token", "/run/secrets/x", "512", "false", "${OTHER:-}"]
)
def test_a_variable_with_a_path_a_variable_or_a_number_is_not_a_secret(value: str) -> None:
    request = Request(
        env={"HF_TOKEN": value, "TOKENIZERS_PARALLELISM": "false", "MAX_TOKENS": "9"}, script="a.py"
    )
    assert resolve(request, load_site("generic")).env["HF_TOKEN"] == value


def test_a_secret_in_slurmgen_toml_is_refused(slurmgen: Run, tmp_path: Path) -> None:
    (tmp_path / "slurmgen.toml").write_text('[job.a]\nscript = "a.py"\nenv.WANDB_API_KEY = "hunter2"\n')
    reply = slurmgen("render", "a")
    assert reply.returncode == 2
    assert "--env WANDB_API_KEY looks like a secret" in reply.stderr
    assert "hunter2" not in reply.stderr
    with pytest.raises(RequestError):
        resolve(Request(env={"WANDB_API_KEY": "hunter2"}, script="a.py"), load_site("generic"))
