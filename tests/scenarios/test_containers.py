"""Jobs in containers on twins: stand-ins for most engines, podman and charliecloud for real."""

import getpass
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from msgspec import structs

from slurmgen import Request, load_site, render, resolve
from slurmgen.sites.model import Container, Cpu, EngineName, Node, Site
from slurmgen.sites.profiles import profile_paths
from tests.scenarios.conftest import Site as Place
from tests.support.golden import golden_requests
from tests.support.programs import write_programs
from tests.support.twins import Testbed, twin

REQUESTS = golden_requests()
SITES = [
    (name, engine)
    for name in profile_paths(personal=False)
    if (container := load_site(name).container)
    for engine in (container.engine, *container.engines)
]
"Every bundled site with each of its engines."
PRINT = """import os
names = "SLURM_PROCID MASTER_ADDR MASTER_PORT OMP_NUM_THREADS OWN".split()
print("rank", *(os.environ.get(name) for name in names), "in", os.getcwd())
print("GPU", os.environ.get("GPU_OF_TEST"), *(name for name in os.environ if name == "NOT_NAMED"))
print(open(os.environ["FILE"]).read() if "FILE" in os.environ else "")
"""
IMAGES: dict[EngineName, str] = {
    "pyxis": "docker://nvcr.io/nvidia/pytorch:25.01-py3",
    "edf": "./pytorch.toml",
    "shifter": "docker://nersc/pytorch:24.06.01",
    "podman-hpc": "docker://nersc/pytorch:24.06.01",
}
"Images by the engine; other engines get a file."
EDF = 'image = "nvcr.io#nvidia/pytorch:25.01-py3"\nmounts = ["{folder}:{folder}"]\n'


def _run(testbed: Testbed, site: Site, request: Request, **more: str) -> tuple[str, str, list[str]]:
    """A job's state, its log, and what its ranks printed, in their order."""
    folder = testbed.folder / "project"
    folder.mkdir(exist_ok=True)
    (folder / "print.py").write_text(PRINT)
    (folder / "pytorch.toml").write_text(EDF.format(folder=folder))
    (folder / "job.sbatch").write_text(render(resolve(request, site)))
    argv = ["sbatch", "--parsable", f"--chdir={folder}", f"{folder}/job.sbatch"]
    job = testbed.run(*argv, **more).strip()
    state = testbed.wait(job, 240)
    log = next(folder.glob(f"*-{job}.out")).read_text()
    return (
        state,
        log,
        sorted(re.findall("^rank .*", log, re.MULTILINE), key=lambda line: int(line.split()[1])),
    )


def _check(ranks: list[str], folder: str | Path) -> None:
    """All ranks have the variables of the script, and one folder."""
    address, port, threads = ranks[0].split()[2:5]
    assert address.startswith("127.0.0.")
    assert 20000 <= int(port) < 32768
    for number, line in enumerate(ranks):
        assert line == f"rank {number} {address} {port} {threads} a, b in {folder}"


@pytest.mark.parametrize(("name", "engine"), SITES)
def test_a_job_runs_in_a_container_of_the_site(
    name: str, engine: EngineName, site: Callable[[str], Place]
) -> None:
    place, profile = site(name), load_site(name)
    request = structs.replace(
        REQUESTS[f"{name}.lightning.2nodes"][1],
        script="print.py",
        python_env="none",
        container=IMAGES.get(engine, "/images/pytorch.sif"),
        container_engine=engine,
        env={"OWN": "a, b"},
        time=None if profile.limits.min_time else "00:05:00",
    )
    path = f"{Path(sys.executable).parent}:/usr/bin:/bin"
    state, log, ranks = _run(place.testbed, profile, request, PATH=path)
    assert state == "COMPLETED", log
    assert len(ranks) == resolve(request, profile).world_size
    assert log.count("is not opened; running on the host") == len(ranks)
    _check(ranks, place.project)


def test_a_packed_environment_is_first_on_the_path_of_a_container(
    site: Callable[[str], Place], tmp_path: Path
) -> None:
    place, profile, python = site("lumi-g"), load_site("lumi-g"), tmp_path / "bin/python"
    write_programs(python.parent, {"python": f'echo "the packed Python"\nexec {sys.executable} "$@"'})
    request = structs.replace(
        REQUESTS["lumi-g.lightning.2nodes"][1],
        gpus=2,
        nodes=1,
        script="print.py",
        python_env=f"squashfs:/e.sqsh:{tmp_path}",  # a stand-in mounts nothing: the folder is there
        container="/images/pytorch.sif",
        time="00:05:00",
    )
    state, log, ranks = _run(place.testbed, profile, request)
    assert state == "COMPLETED", log
    assert log.count("the packed Python") == len(ranks) == resolve(request, profile).world_size


FOUR = Request(
    framework="lightning", gpus=4, nodes=2, script="print.py", env={"OWN": "a, b"}, time="00:05:00"
)
"Two nodes with two ranks each."


def _site(engine: EngineName, **keys: object) -> Site:
    return Site(
        name=f"with-{engine}",
        node=Node(gpus=2, cpus=8, memory="16G"),
        cpu=Cpu(per_gpu=1),
        container=Container(engine=engine, **keys),  # type: ignore[arg-type]
    )


@pytest.fixture(scope="module")
def pyxis() -> Iterator[tuple[Site, Testbed]]:
    profile = _site("pyxis")
    with twin(profile) as testbed:
        yield profile, testbed


@pytest.mark.parametrize("image", ["docker://nvcr.io/nvidia/pytorch:25.01-py3", "my.sqsh"])
def test_pyxis_keeps_the_variables_that_the_hook_of_enroot_sets(
    image: str, pyxis: tuple[Site, Testbed]
) -> None:
    profile, testbed = pyxis
    path = f"{Path(sys.executable).parent}:/usr/bin:/bin"
    request = structs.replace(FOUR, container=image)
    state, log, ranks = _run(testbed, profile, request, PATH=path, HOME=str(testbed.folder))
    assert (state, len(ranks)) == ("COMPLETED", 4), log
    _check(ranks, testbed.folder / "project")
    if image != "my.sqsh":
        assert [*testbed.folder.glob(".cache/slurmgen/images/*")] != []


def test_pyxis_fails_on_an_option_that_it_does_not_know(pyxis: tuple[Site, Testbed]) -> None:
    profile, testbed = pyxis
    assert profile.container
    options = structs.replace(profile.container, options=("--container-gpus=2",))
    state, log, _ = _run(
        testbed, structs.replace(profile, container=options), structs.replace(FOUR, container="my.sqsh")
    )
    assert state == "FAILED"
    assert "unrecognized option" in log


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of a small image: this machine's Python, a shell and their libraries, at the same paths."""
    folder = tmp_path_factory.mktemp("image") / "root"
    python = Path(sys._base_executable).resolve()  # type: ignore[attr-defined]
    programs = [python, Path("/bin/sh").resolve(), Path("/usr/bin/env"), Path("/bin/bash").resolve()]
    libraries = subprocess.run(["ldd", *programs], capture_output=True, text=True, check=True).stdout
    for path in (*programs, *map(Path, set(re.findall(r"(?:=> |^\t)(/\S+) \(", libraries, re.MULTILINE)))):
        target = folder / str(path).lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, target)
    standard = Path(sysconfig.get_paths()["stdlib"])
    ignored = shutil.ignore_patterns("test", "*-packages", "__pycache__", "config-*", "ensurepip", "idlelib")
    shutil.copytree(standard, folder / str(standard).lstrip("/"), ignore=ignored)
    for name in ["etc", "proc", "sys", "dev", "tmp", *(f"mnt/{number}" for number in range(10))]:
        (folder / name).mkdir(parents=True, exist_ok=True)
    for name in ("etc/passwd", "etc/group", "etc/hosts", "etc/resolv.conf"):
        (folder / name).touch()
    (folder / "bin").mkdir(exist_ok=True)
    for name, path in {"python": python, "sh": programs[1], "env": programs[2], "bash": programs[3]}.items():
        if not (folder / "bin" / name).exists():
            (folder / "bin" / name).symlink_to(path)
    return folder


@pytest.fixture(scope="module")
def archive(root: Path) -> Path:
    """The image as a tar archive."""
    path = root.parent / "image.tar"
    subprocess.run(["tar", "-C", root, "-cf", path, "."], check=True)
    return path


def _can(*argv: str) -> bool:
    return subprocess.run(argv, capture_output=True, check=False).returncode == 0


OWN_MOUNTS = pytest.mark.skipif(
    not _can("unshare", "--mount", "true"), reason="needs root, and a machine that allows mount namespaces"
)
USER_NAMESPACES = pytest.mark.skipif(
    not _can("unshare", "--user", "--map-root-user", "--mount", "true"),
    reason="this machine allows no user namespaces, which charliecloud runs in",
)
PODMAN = """\
# The real podman in a mount namespace of its own, for what this machine lacks: a GPU, which a file of the
# Container Device Interface names here, and cgroups of one version.
exec unshare --mount sh -c '
  umount /sys/fs/cgroup/unified 2>/dev/null
  mkdir -p /run/cdi && mount -t tmpfs cdi /run/cdi && cp {folder}/gpu.json /run/cdi &&
  exec /usr/bin/podman "$@"' podman "$@"
"""
GPU = """{"cdiVersion": "0.5.0", "kind": "nvidia.com/gpu", "devices":
  [{"name": "all", "containerEdits": {"env": ["GPU_OF_TEST=all"]}}]}"""
CONTAINERS_CONF = """[containers]
cgroups = "disabled"
default_ulimits = ["nofile=1024:1024", "nproc=1024:1024"]
"""
STORAGE_CONF = '[storage]\ndriver = "vfs"\ngraphroot = "{folder}/store"\nrunroot = "{folder}/run"\n'


@pytest.fixture
def podman(archive: Path) -> Iterator[dict[str, str]]:
    """The variables with which jobs find podman, whose store has the image under two names."""
    # The process that cleans up after a container outlives its job.
    with tempfile.TemporaryDirectory(prefix="podman-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        for file, text in {"gpu.json": GPU, "containers.conf": CONTAINERS_CONF}.items():
            (folder / file).write_text(text)
        (folder / "storage.conf").write_text(STORAGE_CONF.format(folder=folder))
        write_programs(folder / "bin", {"podman": PODMAN.format(folder=folder)})
        environ = {
            "PATH": f"{folder}/bin:/usr/bin:/bin:/usr/sbin:/sbin",
            "CONTAINERS_CONF": f"{folder}/containers.conf",
            "CONTAINERS_STORAGE_CONF": f"{folder}/storage.conf",
        }
        for image in ("localhost/test:1", "example.org/test:1"):
            subprocess.run(["podman", "import", archive, image], env=environ, check=True, capture_output=True)
        yield environ


@OWN_MOUNTS
@pytest.mark.parametrize("image", ["localhost/test:1", "docker://example.org/test:1"])
def test_ranks_run_in_a_container_of_podman(image: str, podman: dict[str, str]) -> None:
    profile = _site("podman", binds=("$HOME/of host:/in container:ro",))
    with twin(profile) as testbed:
        (testbed.folder / "of host").mkdir()
        (testbed.folder / "of host/file").write_text("bound\n")
        request = structs.replace(FOUR, container=image, env={"OWN": "a, b", "FILE": "/in container/file"})
        state, log, ranks = _run(testbed, profile, request, HOME=str(testbed.folder), NOT_NAMED="x", **podman)
        assert (state, len(ranks)) == ("COMPLETED", 4), log
        _check(ranks, testbed.folder / "project")
        assert log.count("bound") == 4
        assert log.count("GPU all") == 4
        assert "NOT_NAMED" not in log


@OWN_MOUNTS
def test_a_rank_does_not_pull_an_image(podman: dict[str, str]) -> None:
    profile = structs.replace(_site("podman"), internet="no")
    with twin(profile) as testbed:
        request = structs.replace(FOUR, container="example.org/missing:1")
        state, log, _ = _run(testbed, profile, request, **podman)
    assert state == "FAILED"
    assert "image not known" in log
    assert "Trying to pull" not in log


@pytest.fixture
def charliecloud(archive: Path) -> Iterator[dict[str, str]]:
    """The variables with which jobs find charliecloud; `ch-image pull` imports the archive instead."""
    with tempfile.TemporaryDirectory(prefix="charliecloud-") as name:
        folder = Path(name)
        imports = f'[ "$1" != pull ] || set -- import {archive} "$2"\nexec /usr/bin/ch-image "$@"'
        write_programs(folder / "bin", {"ch-image": imports})
        yield {
            "PATH": f"{folder}/bin:/usr/bin:/bin:/usr/sbin:/sbin",
            "CH_IMAGE_STORAGE": f"{folder}/store",
            "CH_IMAGE_CACHE": "disabled",
            "USER": getpass.getuser(),
        }


@USER_NAMESPACES
@pytest.mark.parametrize("remote", [False, True], ids=["folder", "registry"])
def test_ranks_run_in_a_container_of_charliecloud(
    remote: bool, root: Path, charliecloud: dict[str, str]
) -> None:
    profile = _site("charliecloud", binds=("$HOME/of host:/mnt/1",))
    with twin(profile) as testbed:
        (testbed.folder / "of host").mkdir()
        (testbed.folder / "of host/file").write_text("bound\n")
        request = structs.replace(
            FOUR,
            container="docker://example.org/test:1" if remote else str(root),
            env={"OWN": "a, b", "FILE": "/mnt/1/file"},
        )
        state, log, ranks = _run(testbed, profile, request, HOME=str(testbed.folder), **charliecloud)
        assert (state, len(ranks)) == ("COMPLETED", 4), log
        _check(ranks, "/mnt/0")
        assert log.count("bound") == 4
        assert bool([*testbed.folder.glob(".cache/slurmgen/images/*.sqfs")]) == remote
