"""The words with which a script calls each container engine."""

import re
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec import structs

from slurmgen import Request, Site, lint_script, load_job, render, resolve
from slurmgen.containers import ENGINES
from slurmgen.errors import RequestError
from slurmgen.sites.model import Container, EngineName, Env, Gpu, OtherEngine
from tests.support.programs import write_programs

IMAGES = {
    "edf": "pytorch",
    "pyxis": "nvcr.io/nvidia/pytorch:25.06-py3",
    "podman": "a/b:1",
    "podman-hpc": "a/b:1",
    "shifter": "a/b:1",
    "charliecloud": "/images/pytorch",
}


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
@pytest.mark.parametrize("image", ["", "docker://nvcr.io/nvidia/pytorch:25.01"])
def test_shellcheck_and_the_linter_pass_a_script_of_every_engine(
    engine: EngineName, image: str, tmp_path: Path
) -> None:
    site = Site(name="generic")
    text = script(engine, image if engine != "edf" else "", site, env={"A": "$HOME/a b"})
    assert lint_script(text) == ()
    (tmp_path / "job").write_text(text)
    done = subprocess.run(["shellcheck", tmp_path / "job"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    ("engine", "words"),
    [
        ("apptainer", "apptainer exec --nv --bind=/data:/data /images/pytorch.sif"),
        ("singularity", "singularity exec --nv --bind=/data:/data /images/pytorch.sif"),
        ("pyxis", '--container-image="$image" --container-mounts="$PWD:$PWD,/data:/data"'),
        ("podman", "podman run --rm --device=nvidia.com/gpu=all --ipc=host --network=host"),
        ("podman", "--env='NCCL_*' --env='FI_*' --env=CUDA_VISIBLE_DEVICES --env=OMP_NUM_THREADS"),
        ("podman-hpc", 'podman-hpc run --rm --gpu --ipc=host --network=host --workdir="$PWD"'),
        ("podman-hpc", "--env='SLURM_*' --env=MASTER_ADDR --env=MASTER_PORT --env=REQUEUE_FILE"),
        ("podman-hpc", "--env=OMP_NUM_THREADS --env=PYTHONUNBUFFERED --env=A"),
        ("podman-hpc", '--volume="$PWD:$PWD" --volume=/data:/data a/b:1'),
        ("shifter", "shifter --image=a/b:1 --volume=/data:/data"),
        ("charliecloud", 'ch-run --cd=/mnt/0 --bind="$PWD:/mnt/0" --bind=/data:/data /images/pytorch --'),
        ("edf", '--environment=pytorch --container-workdir="$PWD" bash -c'),
    ],
)
def test_each_engine_is_called_by_its_own_interface(engine: EngineName, words: str) -> None:
    binds = () if engine == "edf" else ("/data:/data",)
    assert words in joined(script(engine, binds=binds, env={"A": "1"}))


def test_binds_of_an_environment_definition_file_are_refused() -> None:
    with pytest.raises(RequestError, match="--bind has no effect with the container engine edf"):
        script("edf", binds=("/data",))


@pytest.mark.parametrize(
    ("image", "written"),
    [
        ("nvcr.io/nvidia/pytorch:25.06-py3", "docker://nvcr.io#nvidia/pytorch:25.06-py3"),
        ("docker://nvcr.io/nvidia/pytorch:25.01", "docker://nvcr.io#nvidia/pytorch:25.01"),
        ("docker://ghcr.io/a/b:1", "docker://ghcr.io#a/b:1"),
        ("nvcr.io#nvidia/pytorch", "docker://nvcr.io#nvidia/pytorch"),
        ("ubuntu:24.04", "docker://ubuntu:24.04"),
        ("localhost:5000/a", "docker://localhost:5000/a"),
        ("me@ghcr.io/a/b@sha256:0a1b", "docker://me@ghcr.io#a/b@sha256:0a1b"),
    ],
)
def test_pyxis_runs_a_file_that_enroot_imports_once(image: str, written: str) -> None:
    text = joined(script("pyxis", image))
    assert f'enroot import --output "$image.$SLURM_JOB_ID" {shlex.quote(written)} &&' in text
    assert '--container-image="$image" ' in text


@pytest.mark.parametrize(
    ("image", "written"),
    [
        ("pytorch.sqsh", "./pytorch.sqsh"),
        ("/images/pytorch.sqsh", "/images/pytorch.sqsh"),
        ("/images/pytorch.img", "/images/pytorch.img"),
        ("my.images/pt.sqsh", "my.images/pt.sqsh"),
        ("my image.sqsh", "'./my image.sqsh'"),
        ("$SCRATCH/pt.sqsh", '"$SCRATCH/pt.sqsh"'),
    ],
)
def test_pyxis_gets_the_path_of_a_file_with_a_slash(image: str, written: str) -> None:
    text = joined(script("pyxis", image))
    assert f"--container-image={written} " in text
    assert "enroot" not in text


@pytest.mark.parametrize(
    ("image", "written"),
    [
        ("pytorch", "pytorch"),
        ("pytorch.toml", "./pytorch.toml"),
        ("edf/pytorch.toml", "./edf/pytorch.toml"),
        ("./pytorch.toml", "./pytorch.toml"),
        ("/edf/pytorch.toml", "/edf/pytorch.toml"),
        ("~/x.toml", '"$HOME"/x.toml'),
    ],
)
def test_a_relative_environment_definition_file_begins_with_a_dot(image: str, written: str) -> None:
    assert f"--environment={written} " in joined(script("edf", image))


@pytest.mark.parametrize(
    ("engine", "prefix"), [("apptainer", "APPTAINERENV_"), ("singularity", "SINGULARITYENV_")]
)
def test_variables_count_over_those_of_the_image(engine: EngineName, prefix: str) -> None:
    assert f"export {prefix}A=1" in script(engine, env={"A": "1"})
    names = "MASTER_ADDR,MASTER_PORT,OMP_NUM_THREADS,PYTHONUNBUFFERED,A"
    assert f"--container-env={names} " in joined(script("pyxis", env={"A": "1"}))


def test_variables_of_the_profile_inside_a_container_are_named_too() -> None:
    site = Site(name="x", env=Env(container={"FI_PROVIDER": "cxi"}))
    assert "PYTHONUNBUFFERED,FI_PROVIDER " in joined(script("pyxis", site=site))


def test_options_and_modules_of_the_profile_are_used() -> None:
    container = Container(engine="podman-hpc", options=("--nccl",), modules=("nccl-plugin",))
    site = Site(name="x", container=container)
    text = joined(render(resolve(Request(container="a", gpus=1), site)))
    assert "--nccl a torchrun" in text
    assert "module load nccl-plugin" in text


def test_requeueing_is_refused_where_ranks_cannot_create_its_file() -> None:
    with pytest.raises(RequestError, match="--requeue does not work with the container engine charliecloud"):
        script("charliecloud", requeue=True)


@pytest.mark.parametrize(
    ("engine", "bind", "fact"),
    [
        ("apptainer", "/a,b", "has a comma"),
        ("apptainer", "/a:/b,c", "has a comma"),
        ("singularity", "/a,b", "has a comma"),
        ("pyxis", "/a,b", "has a comma"),
        ("pyxis", "/a b", "has a blank"),
        ("shifter", "/a;b", "has a semicolon"),
        ("charliecloud", "/a:/b:ro", "has too many colons"),
        ("podman", "/a:/b:ro:/c", "has too many colons"),
        ("apptainer", "/a:b", "has the target 'b'"),
        ("apptainer", "/a:", "has the target ''"),
        ("podman-hpc", "a:/b", "is not a full path"),
    ],
)
def test_a_bind_that_the_engine_would_read_otherwise_is_refused(
    engine: EngineName, bind: str, fact: str
) -> None:
    with pytest.raises(RequestError, match=re.escape(f"--bind: {bind!r} {fact}")):
        script(engine, binds=(bind,))
    site = Site(name="x", container=Container(engine=engine, binds=(bind,)))
    with pytest.raises(RequestError, match=re.escape(f"[container] binds of x: {bind!r} {fact}")):
        render(resolve(Request(container=IMAGES.get(engine, "/x/y")), site))


@pytest.mark.parametrize(
    ("engine", "bind", "words"),
    [
        ("apptainer", "/a b:/c:ro,id=1", "--bind='/a b:/c:ro,id=1'"),
        ("pyxis", "/a:/b:ro+rprivate", '"$PWD:$PWD,/a:/b:ro+rprivate"'),
        ("pyxis", "/a", '"$PWD:$PWD,/a:/a"'),
        ("podman", "/a, b", "--volume='/a, b':'/a, b'"),
        ("podman-hpc", "/data", "--volume=/data:/data"),
        ("shifter", "/data", "--volume=/data:/data"),
        ("podman", "~/a:/b:ro", '--volume="$HOME"/a:/b:ro'),
        ("charliecloud", "/a, b:/mnt/1", "--bind='/a, b:/mnt/1'"),
    ],
)
def test_a_bind_is_quoted_as_one_word(engine: EngineName, bind: str, words: str) -> None:
    assert words in joined(script(engine, "/x/y" if engine == "charliecloud" else "", binds=(bind,)))


@pytest.mark.parametrize(
    ("image", "name"),
    [
        ("docker://nersc/pytorch:24", "docker.io/nersc/pytorch:24"),
        ("docker://busybox", "docker.io/library/busybox"),
        ("docker://localhost:5000/a", "localhost:5000/a"),
        ("nersc/pytorch:24", "nersc/pytorch:24"),
    ],
)
def test_podman_needs_no_search_list_for_a_docker_address(image: str, name: str) -> None:
    assert f"podman pull {name}" in script("podman", image)


_DEVICES = "--device=/dev/kfd --device=/dev/dri --group-add=keep-groups "


@pytest.mark.parametrize(
    ("engine", "words"),
    [
        *((engine, f"{engine} exec --rocm") for engine in ("apptainer", "singularity")),
        *((engine, f"{engine} run --rm {_DEVICES}") for engine in ("podman", "podman-hpc")),
        *((engine, "--env=ROCR_VISIBLE_DEVICES --env=HIP_VISIBLE") for engine in ("podman", "podman-hpc")),
    ],
)
def test_amd_gpus_have_options_of_their_own(engine: EngineName, words: str) -> None:
    assert words in joined(script(engine, site=Site(name="x", gpu=Gpu(vendor="amd"))))


REGISTRY = "docker://nvcr.io/nvidia/pytorch:25.01"
FETCHES = {
    "apptainer": ["apptainer pull {file}.7 docker://nvcr.io/nvidia/pytorch:25.01"],
    "singularity": ["singularity pull {file}.7 docker://nvcr.io/nvidia/pytorch:25.01"],
    "pyxis": ["enroot import --output {file}.7 docker://nvcr.io#nvidia/pytorch:25.01"],
    "charliecloud": [
        "ch-image pull nvcr.io/nvidia/pytorch:25.01",
        "ch-convert --in-fmt=ch-image --out-fmt=squash nvcr.io/nvidia/pytorch:25.01 {file}.7",
    ],
    "podman": [
        "podman image exists nvcr.io/nvidia/pytorch:25.01",
        "podman pull nvcr.io/nvidia/pytorch:25.01",
    ],
    "podman-hpc": [
        "podman-hpc image exists nvcr.io/nvidia/pytorch:25.01",
        "podman-hpc pull nvcr.io/nvidia/pytorch:25.01",
    ],
    "shifter": [
        "shifterimg lookup docker:nvcr.io/nvidia/pytorch:25.01",
        "shifterimg pull docker:nvcr.io/nvidia/pytorch:25.01",
    ],
}
"The commands that fetch an image from a registry; {file} is the file that the ranks use."
RECORD = """echo "${0##*/} $*" >> "$LOG"
[ "$1" != image ] && [ "$1" != lookup ] || exit 1
for word in "$@"; do case "$word" in *.7) [ "${0##*/}" = ch-image ] || echo image > "$word" ;; esac; done
exit "${STATUS:-0}"
"""
"Records its arguments, has no image in its store, and writes the file that it is to make."


@pytest.fixture
def fetch(tmp_path: Path) -> Callable[..., tuple[int, list[str]]]:
    """Runs the batch script of an image from a registry: its exit status, and the commands that ran."""
    names = {command.split()[0] for commands in FETCHES.values() for command in commands}
    programs = dict.fromkeys(names, RECORD) | {"srun": 'echo step >> "$LOG"'}
    tools = write_programs(tmp_path / "tools", programs)

    def run(engine: EngineName, status: int = 0, **request: object) -> tuple[int, list[str]]:
        asked = {"gpus": 2, "container": REGISTRY} | request
        text = render(resolve(Request(**asked), Site(name="x", container=Container(engine=engine))))  # type: ignore[arg-type]
        log = tmp_path / "log"
        log.write_text("")
        environ = {
            **{"PATH": f"{tools}:/usr/bin:/bin", "HOME": str(tmp_path / "my home"), "SLURM_JOB_ID": "7"},
            **{"LOG": str(log), "STATUS": str(status)},
        }
        done = subprocess.run(["bash", "-c", text], env=environ, cwd=tmp_path, check=False)
        return done.returncode, log.read_text().splitlines()

    return run


@pytest.mark.parametrize("engine", FETCHES)
def test_an_image_of_a_registry_is_fetched_once_before_the_step(
    engine: EngineName, fetch: Callable[..., tuple[int, list[str]]], tmp_path: Path
) -> None:
    suffix = {"pyxis": "sqsh", "charliecloud": "sqfs"}.get(engine, "sif")
    file = f"{tmp_path}/my home/.cache/slurmgen/images/nvcr.io+nvidia+pytorch+25.01.{suffix}"
    code, commands = fetch(engine)
    wanted = [command.format(file=file) for command in FETCHES[engine]]
    assert (code, commands) == (0, [*wanted, "step"])
    if "{file}" in "".join(FETCHES[engine]):
        assert Path(file).read_text() == "image\n"
        assert fetch(engine)[1] == ["step"], "the file serves again"


def test_a_fetched_image_of_another_user_is_used(
    fetch: Callable[..., tuple[int, list[str]]], tmp_path: Path
) -> None:
    folder = tmp_path / "my home/.cache/slurmgen/images"
    folder.mkdir(parents=True)
    (folder / "nvcr.io+nvidia+pytorch+25.01.sif").touch()
    (folder / "nvcr.io+nvidia+pytorch+25.01.sif.lock").mkdir()  # cannot be opened
    assert fetch("apptainer") == (0, ["step"])


def test_pyxis_mounts_are_one_word() -> None:
    container = Container(engine="pyxis", image="/a.sqsh", binds=("/data", "$HOME/c", "~/d:/d"))
    text = joined(render(resolve(Request(gpus=1), Site(name="x", container=container))))
    assert '--container-mounts="$PWD:$PWD,/data:/data,$HOME/c:$HOME/c,$HOME/d:/d" ' in text


@pytest.mark.parametrize("engine", FETCHES)
def test_the_job_ends_if_the_image_cannot_be_fetched(
    engine: EngineName, fetch: Callable[..., tuple[int, list[str]]], tmp_path: Path
) -> None:
    code, commands = fetch(engine, status=3)
    assert code != 0
    assert "step" not in commands
    assert not [*tmp_path.glob("my home/.cache/slurmgen/images/*.s[iq]*[fhs]")]


@pytest.mark.parametrize("engine", ["podman"])
def test_an_image_is_fetched_on_each_node_where_nodes_share_no_store(engine: EngineName) -> None:
    text = joined(script(engine, REGISTRY))
    assert "srun --nodes=2 --ntasks=2 --ntasks-per-node=1 --export=ALL bash -c 'podman image exists" in text


@pytest.mark.parametrize(("engine", "image"), [("podman", "localhost/a"), ("shifter", "id:0a1b")])
def test_an_image_of_the_store_is_not_fetched(engine: EngineName, image: str) -> None:
    assert "fetch" not in script(engine, image).lower()


@pytest.mark.parametrize("engine", ["apptainer", "singularity", "pyxis", "charliecloud"])
def test_an_image_of_a_registry_is_refused_without_internet(engine: EngineName) -> None:
    site = Site(name="x", internet="no")
    with pytest.raises(RequestError, match="the compute nodes of x do not reach") as error:
        script(engine, REGISTRY, site)
    command = FETCHES[engine][0].partition(" {file}")[0]
    assert f"on a login node (`{command}" in error.value.hint


@pytest.mark.parametrize("engine", ["podman", "podman-hpc"])
def test_without_internet_the_image_must_be_in_the_store(engine: EngineName) -> None:
    text = script(engine, REGISTRY, Site(name="x", internet="no"))
    assert "--pull=never" in text
    assert f"{engine} pull" not in text


def test_the_gateway_of_shifter_pulls_without_internet_on_the_nodes() -> None:
    text = script("shifter", REGISTRY, Site(name="x", internet="no"))
    assert f"shifterimg pull docker:{REGISTRY.removeprefix('docker://')}\n" in text


def test_an_address_of_a_registry_has_no_variable() -> None:
    with pytest.raises(RequestError, match="has a variable in an address of a registry"):
        script("apptainer", "docker://$REGISTRY/a")


def test_a_name_in_the_store_may_have_a_variable() -> None:
    assert 'podman-hpc pull "$REGISTRY/a"' in script("podman-hpc", "docker://$REGISTRY/a")


@pytest.mark.parametrize(
    ("engine", "image", "fact"),
    [
        ("podman", "/images/a.sif", "is a file"),
        ("podman-hpc", "a.tar", "is a file"),
        ("shifter", "~/a.sqsh", "is a file"),
        ("edf", "docker://nvcr.io/nvidia/pytorch:25.01", "reads an environment definition file"),
        ("edf", "nvcr.io#nvidia/pytorch", "reads an environment definition file"),
    ],
)
def test_an_image_that_the_engine_cannot_run_is_refused(engine: EngineName, image: str, fact: str) -> None:
    with pytest.raises(RequestError, match=fact):
        script(engine, image)


def test_jobs_that_start_together_fetch_an_image_once(
    fetch: Callable[..., tuple[int, list[str]]], tmp_path: Path
) -> None:
    (tmp_path / "tools/apptainer").write_text('#!/bin/sh\necho "$*" >> "$LOG"\nsleep 0.5\necho > "$2"\n')
    text = render(resolve(Request(gpus=2, container=REGISTRY), Site(name="x")))
    log = tmp_path / "log"
    environ = {"PATH": f"{tmp_path}/tools:/usr/bin:/bin", "HOME": str(tmp_path), "LOG": str(log)}
    jobs = [
        subprocess.Popen(["bash", "-c", text], env=environ | {"SLURM_JOB_ID": str(number)}, cwd=tmp_path)
        for number in (7, 8, 9)
    ]
    assert [job.wait(30) for job in jobs] == [0, 0, 0]
    commands = log.read_text().splitlines()
    assert (len([c for c in commands if c.startswith("pull")]), commands.count("step")) == (1, 3)


def test_the_folder_of_fetched_images_is_a_key_of_the_profile() -> None:
    site = Site(name="x", container=Container(image_dir="$SCRATCH/images/"))
    text = render(resolve(Request(container=REGISTRY), site))
    assert '\nimage="$SCRATCH/images/nvcr.io+nvidia+pytorch+25.01.sif"\n' in text
    with pytest.raises(RequestError, match="--env image would have no effect"):
        resolve(Request(container=REGISTRY, env={"image": "x"}), site)


TWO_ENGINES = Site(
    name="x",
    container=Container(
        engine="apptainer",
        image="/images/a.sif",
        binds=("/data",),
        engines={"pyxis": OtherEngine(image="/images/a.sqsh", options=("--container-writable",))},
    ),
)


def test_a_job_chooses_among_the_engines_of_the_site() -> None:
    assert "apptainer exec --nv --bind=/data /images/a.sif" in joined(
        render(resolve(Request(gpus=1), TWO_ENGINES))
    )
    text = joined(render(resolve(Request(gpus=1, container_engine="pyxis"), TWO_ENGINES)))
    assert '--container-image=/images/a.sqsh --container-mounts="$PWD:$PWD,/data:/data' in text
    assert "--container-writable" in text
    assert "apptainer" not in text


def test_the_engine_of_the_site_may_be_named() -> None:
    named = resolve(Request(gpus=1, container_engine="apptainer"), TWO_ENGINES)
    assert named.step == resolve(Request(gpus=1), TWO_ENGINES).step


def test_a_site_without_facts_on_containers_takes_any_engine() -> None:
    text = joined(render(resolve(Request(container="a/b:1", container_engine="podman"), Site(name="x"))))
    assert "podman run --rm" in text


@pytest.mark.parametrize(
    ("site", "engine", "image", "fact", "hint"),
    [
        (TWO_ENGINES, "podman", "a", "x has no container engine 'podman'", "apptainer, pyxis"),
        (Site(name="x"), "docker", "a", "x has no container engine 'docker'", "podman"),
        (Site(name="x"), "podman", None, "--container-engine podman without an image", "--container"),
        (TWO_ENGINES, "pyxis", "none", "--container-engine has no effect with --container none", "Leave"),
    ],
)
def test_an_engine_that_the_site_lacks_is_refused(
    site: Site, engine: str, image: str | None, fact: str, hint: str
) -> None:
    with pytest.raises(RequestError) as error:
        resolve(Request(container=image, container_engine=engine), site)
    assert fact in error.value.fact
    assert hint in error.value.hint


def test_jobs_of_a_project_have_containers_and_engines_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "slurmgen.toml").write_text("""
[defaults]
script = "train.py"

[job.train]
container = "/images/train.sif"

[job.evaluate]
container = "/images/evaluate.sif"

[job.evaluate.site.perlmutter]
container = "docker://nersc/pytorch:24.06.01"
container_engine = "podman-hpc"
account = "m1"
""")

    def text(job: str, site: str) -> str:
        spec = load_job(job, site, tmp_path)
        return joined(spec.render(spec.plan()))

    assert "apptainer exec --nv /images/train.sif" in text("train", "generic")
    assert "apptainer exec --nv /images/evaluate.sif" in text("evaluate", "generic")
    of_site = text("evaluate", "perlmutter")
    assert "--container-engine podman-hpc" not in of_site.partition("#SBATCH")[0]
    assert "podman-hpc run --rm --gpu " in of_site
    assert "--nccl docker.io/nersc/pytorch:24.06.01 torchrun" in of_site


def test_charliecloud_sets_the_variables_of_an_image_that_it_pulled() -> None:
    assert "ch-run --cd=/mnt/0 --set-env --bind=" in joined(script("charliecloud", REGISTRY))
    assert "--set-env" not in script("charliecloud")
