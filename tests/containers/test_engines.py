"""The words with which a script calls each container engine."""

import shlex
import subprocess
from pathlib import Path

import pytest
from msgspec import structs

from slurmgen import Request, Site, render, resolve
from slurmgen.containers import ENGINES
from slurmgen.errors import RequestError
from slurmgen.sites.model import Container, EngineName, Env, Gpu

IMAGES = {"edf": "pytorch", "pyxis": "nvcr.io/nvidia/pytorch:25.06-py3", "charliecloud": "/images/pytorch"}


def script(engine: EngineName, image: str = "", site: Site | None = None, **request: object) -> str:
    """A script of two nodes in a container."""
    site = site or Site(name="x")
    site = structs.replace(site, container=Container(engine=engine))
    asked = {"gpus": 4, "nodes": 2, "container": image or IMAGES.get(engine, "/images/pytorch.sif")}
    return render(resolve(Request(**asked | request), site))  # type: ignore[arg-type]


def joined(text: str) -> str:
    """A script with its continued lines on one line."""
    return " ".join(text.replace("\\\n", " ").split())


@pytest.mark.parametrize("engine", ENGINES)
def test_shellcheck_passes_a_script_of_every_engine(engine: EngineName, tmp_path: Path) -> None:
    (tmp_path / "job").write_text(script(engine, env={"A": "$HOME/a b"}))
    done = subprocess.run(["shellcheck", tmp_path / "job"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    ("engine", "words"),
    [
        ("apptainer", "apptainer exec --nv --bind=/data:/data /images/pytorch.sif"),
        ("singularity", "singularity exec --nv --bind=/data:/data /images/pytorch.sif"),
        (
            "pyxis",
            "--container-image='nvcr.io#nvidia/pytorch:25.06-py3' "
            '--container-mounts="$PWD:$PWD",/data:/data',
        ),
        ("podman-hpc", 'podman-hpc run --rm --gpu --ipc=host --network=host --workdir="$PWD"'),
        ("podman-hpc", "--env='SLURM_*' --env=MASTER_ADDR --env=MASTER_PORT --env=REQUEUE_FILE"),
        ("podman-hpc", "--env=OMP_NUM_THREADS --env=PYTHONUNBUFFERED --env=A"),
        ("podman-hpc", '--volume="$PWD:$PWD" --volume=/data:/data /images/pytorch.sif'),
        ("shifter", "shifter --image=/images/pytorch.sif --volume=/data:/data"),
        ("charliecloud", 'ch-run --cd=/mnt/0 --bind="$PWD:/mnt/0" --bind=/data:/data /images/pytorch --'),
    ],
)
def test_each_engine_is_called_by_its_own_interface(engine: EngineName, words: str) -> None:
    assert words in joined(script(engine, binds=("/data:/data",), env={"A": "1"}))


def test_an_environment_definition_file_is_an_option_of_srun() -> None:
    text = joined(script("edf", framework="lightning"))
    assert "--kill-on-bad-exit=1 --environment=pytorch python training/cifar_lightning.py" in text


def test_binds_of_an_environment_definition_file_are_refused() -> None:
    with pytest.raises(RequestError, match="--bind has no effect with the container engine edf"):
        script("edf", binds=("/data",))


@pytest.mark.parametrize(
    ("image", "written"),
    [
        ("nvcr.io/nvidia/pytorch:25.06-py3", "nvcr.io#nvidia/pytorch:25.06-py3"),
        ("docker://ghcr.io/a/b:1", "ghcr.io#a/b:1"),
        ("nvcr.io#nvidia/pytorch", "nvcr.io#nvidia/pytorch"),
        ("ubuntu:24.04", "ubuntu:24.04"),
        ("pytorch.sqsh", "./pytorch.sqsh"),
        ("/images/pytorch.sqsh", "/images/pytorch.sqsh"),
        ("localhost:5000/a", "localhost:5000/a"),
        ("my.images/pt.sqsh", "my.images/pt.sqsh"),
        ("my image.sqsh", "./my image.sqsh"),
    ],
)
def test_pyxis_gets_an_image_as_enroot_writes_it(image: str, written: str) -> None:
    assert f"--container-image={shlex.quote(written)} " in joined(script("pyxis", image))


@pytest.mark.parametrize(
    ("engine", "prefix"), [("apptainer", "APPTAINERENV_"), ("singularity", "SINGULARITYENV_")]
)
def test_variables_count_over_those_of_the_image(engine: EngineName, prefix: str) -> None:
    assert f"export {prefix}A=1" in script(engine, env={"A": "1"})
    assert "--container-env=A " in joined(script("pyxis", env={"A": "1"}))


def test_variables_of_the_profile_inside_a_container_are_named_too() -> None:
    site = Site(name="x", env=Env(container={"FI_PROVIDER": "cxi"}))
    assert "--container-env=FI_PROVIDER " in joined(script("pyxis", site=site))


@pytest.mark.parametrize("engine", ["apptainer", "singularity"])
def test_amd_gpus_have_an_option_of_their_own(engine: EngineName) -> None:
    assert f"{engine} exec --rocm" in joined(script(engine, site=Site(name="x", gpu=Gpu(vendor="amd"))))


def test_options_and_modules_of_the_profile_are_used() -> None:
    container = Container(engine="podman-hpc", options=("--nccl",), modules=("nccl-plugin",))
    site = Site(name="x", container=container)
    text = joined(render(resolve(Request(container="a", gpus=1), site)))
    assert "--nccl a torchrun" in text
    assert "module load nccl-plugin" in text


@pytest.mark.parametrize("engine", ["podman-hpc", "shifter"])
def test_a_bind_without_a_target_gets_the_same_path(engine: EngineName) -> None:
    assert "--volume=/data:/data" in joined(script(engine, binds=("/data",)))


def test_requeueing_is_refused_where_ranks_cannot_create_its_file() -> None:
    with pytest.raises(RequestError, match="--requeue does not work with the container engine charliecloud"):
        script("charliecloud", requeue=True)
