"""The files that a twin's daemons and jobs read, written before they start."""

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from slurmgen.twin import accounting, database
from slurmgen.twin.layout import Layout
from slurmgen.twin.slurm_config import DAEMONS_CONF, SLURM_FILES, bash_env, plugin_folder
from slurmgen.twin.ssh_config import known_hosts, ssh_config, sshd_config

STAND_INS = {
    "module": "module.sh",
    "ml": "module.sh",
    "apptainer": "apptainer.py",
    "singularity": "apptainer.py",
    "podman-hpc": "engines.py",
    "shifter": "engines.py",
    "shifterimg": "engines.py",
    "enroot": "srun.py",
    "twin-nvidia-smi": "nvidia_smi.sh",
}
"They come last in PATH."
SRUN = "srun.py"
"It comes first in PATH, where a plug-in of Slurm runs the containers."
EXECUTABLE = 0o700


def write(layout: Layout, programs: Mapping[str, str]) -> None:
    """Make a twin's two folders and their content."""
    layout.folder.mkdir(mode=0o700)
    (layout.folder / "state").mkdir()
    for name, text in SLURM_FILES.items():
        (layout.folder / name).write_text(text(layout))
    if layout.daemons_conf.name not in SLURM_FILES:
        layout.daemons_conf.write_text(DAEMONS_CONF)
    (layout.folder / "task_prolog").chmod(EXECUTABLE)
    if layout.bash_env:
        layout.bash_env.write_text(bash_env(layout))
    _write_stand_ins(layout.folder / "stand_ins", STAND_INS)
    if plugins := plugin_folder(layout):
        _write_stand_ins(plugins, {"srun": SRUN})
    _write_run(layout)
    if layout.accounting:
        _write_accounting(layout, programs)
    if "sshd" in programs:
        _write_ssh(layout)


def _write_accounting(layout: Layout, programs: Mapping[str, str]) -> None:
    (layout.folder / "job_submit.lua").write_text(accounting.job_submit_lua(layout))
    (layout.folder / "slurmdbd.conf").touch(mode=0o600)  # slurmdbd refuses one that others may read
    (layout.folder / "slurmdbd.conf").write_text(accounting.slurmdbd_conf(layout))
    (layout.run / "slurmdbd").symlink_to(programs["slurmdbd"])
    database.create(layout, programs["mariadbd"], programs["mariadb-install-db"])


def _write_stand_ins(folder: Path, names: dict[str, str]) -> None:
    folder.mkdir()
    for name, source in names.items():
        shutil.copyfile(Path(__file__).parent / "stand_ins" / source, folder / name)
        (folder / name).chmod(EXECUTABLE)


def _write_run(layout: Layout) -> None:
    run = layout.run
    for node in layout.nodes:
        (run / "spool" / node).mkdir(parents=True)
    for number in range(max(group.shape.gpus for group in layout.groups)):
        # Slurm counts GPUs by character devices, which it does not open; it follows links.
        (run / f"gpu{number}").symlink_to("/dev/null")
    (run / "munge.key").touch(mode=0o600)
    (run / "munge.key").write_bytes(os.urandom(1024))


def _write_ssh(layout: Layout) -> None:
    folder = layout.folder
    for name in ("host_key", "id"):
        argv = [
            "ssh-keygen",
            "-q",
            "-t",
            "ed25519",
            "-N",
            "",
            "-C",
            "slurmgen twin",
            "-f",
            f"{folder}/{name}",
        ]
        subprocess.run(argv, check=True, timeout=60)
    (folder / "sshd_config").write_text(sshd_config(layout))
    (folder / "ssh_config").write_text(ssh_config(layout))
    (folder / "known_hosts").write_text(known_hosts(layout, (folder / "host_key.pub").read_text()))
    if os.getuid() == 0:
        # The folder for sshd's privilege separation; Debian's service makes it when it starts.
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
