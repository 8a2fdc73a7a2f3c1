"""`adopt` leaves out the values of secrets, wherever a script has them."""

import tomllib
from pathlib import Path

import pytest

from slurmgen import load_site
from slurmgen.adopt import adopt
from slurmgen.lint import lint_text
from slurmgen.secret_names import without_secrets
from tests.conftest import Run
from tests.lint import corpus
from tests.test_secret_names import HEX, KEYS, some

HEAD = "#!/bin/bash\n#SBATCH --nodes=1 --gres=gpu:1 --time=5 -c 4 --mem=8G\n"
RUN = "srun python train.py"
KEY, TOKEN, WORD = some(40, HEX), "hf_" + some(34), "hunter2-" + "secret"
PLACES = {
    f"export WANDB_API_KEY={KEY}": "WANDB_API_KEY",
    f"export A=1 HF_TOKEN='{TOKEN}' B=2": "HF_TOKEN",
    f"DB_PASSWORD={WORD}": "DB_PASSWORD",
    f"export HF_TOKEN=${{HF_TOKEN:-{TOKEN}}}": "HF_TOKEN",
    f': "${{DB_PASSWORD:={WORD}}}"': "DB_PASSWORD",
    f"wandb login --relogin {KEY}": "WANDB_API_KEY",
    f"huggingface-cli login --token {TOKEN}": "HF_TOKEN",
    f"# export HF_TOKEN={TOKEN}": "HF_TOKEN",
    f"git clone https://me:{WORD}@github.com/x/y": "",
    f"curl 'https://x.org/d?token={WORD}&n=1'": "",
    f"curl -u me:{WORD} https://x.org": "",
    f"curl -H 'Authorization: Bearer {WORD}' https://x.org": "",
    f"cat > n <<EOF\nmachine api.wandb.ai\n  login user\n  password {WORD}\nEOF": "",
    f'cat > n <<EOF\n{{"user": "me", "api_key": "{WORD}"}}\nEOF': "",
    f"python - <<'EOF'\nimport os\nos.environ['DB_PASSWORD'] = '{WORD}'\nEOF": "",
    f"cat > n <<EOF\n-----BEGIN PRIVATE KEY-----\n{KEY}\n-----END PRIVATE KEY-----\nEOF": "",
}
PROGRAMS = {
    f"WANDB_API_KEY={KEY} {RUN}": "WANDB_API_KEY",
    f"{RUN} --token {TOKEN}": "HF_TOKEN",
    f"{RUN} --api-key={WORD}": "API_KEY",
    f"srun --export=ALL,WANDB_API_KEY={KEY} python train.py": "WANDB_API_KEY",
    f"srun apptainer exec --env WANDB_API_KEY={KEY} x.sif python train.py": "WANDB_API_KEY",
}


@pytest.mark.parametrize(
    ("script", "name"),
    [
        *((f"{HEAD}{line}\n{RUN}\n", name) for line, name in PLACES.items()),
        *((f"{HEAD}{line}\n", name) for line, name in PROGRAMS.items()),
        (f"{HEAD}#SBATCH --export=ALL,WANDB_API_KEY={KEY}\n{RUN}\n", "WANDB_API_KEY"),
    ],
)
def test_no_value_of_a_secret_is_written_or_printed(
    script: str, name: str, tmp_path: Path, slurmgen: Run
) -> None:
    (tmp_path / "train.sbatch").write_text(script)
    done = slurmgen("adopt", "train.sbatch", "--site", "generic", cwd=tmp_path)
    assert done.returncode in (0, 1), done.stderr
    again = slurmgen("adopt", "train.sbatch", "--force", "--json", cwd=tmp_path)
    printed = done.stdout + done.stderr + again.stdout + again.stderr
    toml = (tmp_path / "slurmgen.toml").read_text()
    for value in (KEY, TOKEN, WORD):
        assert value not in printed + toml
    assert "secrets, whose values are left out" in done.stdout
    assert tomllib.loads(toml)["job"]["train"].get("secrets", []) == ([name] if name else [])
    assert (f"the job gets {name} as a secret" in done.stdout) == bool(name)


@pytest.mark.parametrize("key", [key for _, *keys in KEYS for key in keys])
def test_what_the_linter_finds_is_left_out(key: str) -> None:
    for line in (f"echo {key}", f"export X='{key}'", f"cat > n <<'EOF'\nx: {key}\nEOF"):
        text = f"{HEAD}{line}\n{RUN}\n"
        cleaned = without_secrets(text)[0]
        assert cleaned.count("\n") == text.count("\n")
        assert not [one for one in lint_text(cleaned) if one.rule.code == "SG514"], cleaned


def test_a_script_without_secrets_stays_as_it_is() -> None:
    for sample in (*corpus.published(), *corpus.correct()):
        found = [one.rule.code for one in lint_text(sample.text)]
        if "SG514" not in found:
            assert without_secrets(sample.text)[0] == sample.text
    text = "export TOKENIZERS_PARALLELISM=false HF_TOKEN=$(cat ~/t) SECRET=$X\npython t.py --pad-token eos"
    assert without_secrets(text)[0] == text


def test_python_gets_no_value_either() -> None:
    made = adopt(f"{HEAD}export HF_TOKEN={TOKEN}\n{RUN}\n", "job.sbatch", load_site("generic"))
    assert made.request.secrets == ("HF_TOKEN",)
    assert TOKEN not in repr(made)


def test_render_names_the_secrets_that_a_script_would_show(tmp_path: Path, slurmgen: Run) -> None:
    (tmp_path / "slurmgen.toml").write_text(
        f'[job.a]\nframework = "python"\nscript = "train.py"\nbefore = ["export DB_PASSWORD={WORD}"]\n'
    )
    done = slurmgen("render", "a", "--output", "a.sbatch", cwd=tmp_path)
    assert (done.returncode, "shows a secret (DB_PASSWORD)" in done.stderr) == (0, True), done.stderr
    assert WORD not in done.stderr
