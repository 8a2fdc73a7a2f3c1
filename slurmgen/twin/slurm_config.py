"""The text of a twin's Slurm configuration. Pure: the same layout gives the same bytes.

Which parameters a Slurm on one machine needs was found by running it, 22.05 to 24.11.
"""

from collections.abc import Callable
from pathlib import Path

from slurmgen.containers import ENGINES, bind_variables
from slurmgen.twin import accounting
from slurmgen.twin.layout import LOCALHOST, Group, Layout
from slurmgen.twin.shape import DEFAULT_PARTITIONS, features, licenses, partitions, temporary_disk

# Without it, on every address of the machine.
_LISTENS_ON_HOST_NAME = "CommunicationParameters=NoCtldInAddrAny,NoInAddrAny"
# For slurmctld and slurmd if the host name resolves to an address such as 127.0.1.1. srun must not listen
# there: slurmd would reply to 127.0.0.1, from where srun connects.
DAEMONS_CONF = f"Include slurm.conf\n{_LISTENS_ON_HOST_NAME}\n"
_MANY_LICENSES = 1000
"Of each license that the profile names; how many the site has is not known."


def slurm_conf(layout: Layout) -> str:
    """slurm.conf: the cluster, its nodes and its partitions."""
    default = layout.site.default_partition if layout.site.partitions else next(iter(DEFAULT_PARTITIONS))
    by_name = {name: group for group in layout.groups for name in group.partitions}
    return "\n".join(
        [
            _cluster(layout),
            *(_nodes(layout, group) for group in layout.groups),
            *(
                _partition(layout, name, by_name[name], is_default=name == default)
                for name in partitions(layout.site)
            ),
            "",
        ]
    )


def gres_conf(layout: Layout) -> str:
    """gres.conf: the GPUs, each a character device that is never opened."""
    lines = ["AutoDetect=off"]
    for group in layout.groups:
        if group.shape.gpus:
            kind = f" Type={group.shape.gpu_type}" if group.shape.gpu_type else ""
            last = group.shape.gpus - 1
            files = f"{layout.run}/gpu{f'[0-{last}]' if last else '0'}"
            lines.append(f"NodeName={group.hostlist} Name=gpu{kind} File={files}")
    return "\n".join([*lines, ""])


def cgroup_conf(layout: Layout) -> str:
    """cgroup.conf: no use of cgroups, which containers and ordinary users cannot change."""
    # CgroupPlugin=disabled came with 23.11; CgroupAutomount is gone from 24.05's manual page.
    return "CgroupPlugin=disabled\n" if layout.slurm.version >= (23, 11) else "CgroupAutomount=no\n"


def plugin_folder(layout: Layout) -> Path | None:
    """The folder of an srun with the options of the site's containers; None if they add none."""
    container = layout.site.container
    engines = (container.engine, *container.engines) if container else ()
    return layout.folder / "plugins" if any(ENGINES[name].srun_option for name in engines) else None


def task_prolog(layout: Layout) -> str:
    """Slurm's TaskProlog: what it prints becomes the environment of batch scripts and steps alike."""
    stand_ins = layout.folder / "stand_ins"
    container = layout.site.container
    set_by_modules = "".join(
        f'echo "export {name}=${{{name}:-{stand_ins}}}"\n'
        for name in (bind_variables(container) if container else ())
    )
    first = f"{folder}:" if (folder := plugin_folder(layout)) else ""
    path = first + layout.slurm.path("${PATH:-/usr/local/bin:/usr/bin:/bin}")
    bash_env = f'echo "export BASH_ENV={layout.bash_env}"\n' if layout.bash_env else ""
    return f"""#!/bin/sh
# Stand-ins come last in PATH, so that installed programs are used.
case ":$PATH:" in
  *":{stand_ins}:"*) ;;
  *) echo "export PATH={path}:{stand_ins}" ;;
esac
# Many CPUs of a node may exist in name only: one thread per rank, unless the job sets another number.
echo "export OMP_NUM_THREADS=${{OMP_NUM_THREADS:-1}}"
# Its GPUs exist in name only too; without this, accelerate would start processes without a group.
echo "export ACCELERATE_USE_CPU=${{ACCELERATE_USE_CPU:-true}}"
# Not that of the daemons.
echo "export SLURM_CONF={layout.folder}/slurm.conf"
{bash_env}{set_by_modules}"""


def bash_env(layout: Layout) -> str:
    """The file for BASH_ENV: Bash reads it after a login shell's profile, which may set PATH anew."""
    return f"""case ":$PATH:" in
  ":{layout.slurm.bin}:"*) ;;
  *) export PATH="{layout.slurm.path("$PATH")}" ;;
esac
"""


SLURM_FILES: dict[str, Callable[[Layout], str]] = {
    "slurm.conf": slurm_conf,
    "gres.conf": gres_conf,
    "cgroup.conf": cgroup_conf,
    "task_prolog": task_prolog,
}


def _cluster(layout: Layout) -> str:
    folder, run = layout.folder, layout.run
    communication = f"\n{_LISTENS_ON_HOST_NAME}" if layout.loopback == LOCALHOST else ""
    plugins = f'\nPluginDir="{layout.slurm.plugins}"' if layout.slurm.plugins else ""
    return f"""# A twin of {layout.site.name}, written by slurmgen.
ClusterName={layout.site.name}
SlurmctldHost={layout.hostname}({layout.address})
SlurmctldPort={layout.port}{communication}
SlurmUser={layout.user}
SlurmdUser={layout.user}
AuthType=auth/munge
AuthInfo=socket={run}/munge.socket{plugins}
StateSaveLocation="{folder}/state"
SlurmdSpoolDir={run}/spool/%n
SlurmctldPidFile={run}/slurmctld.pid
SlurmdPidFile={run}/slurmd-%n.pid
SlurmctldLogFile="{folder}/slurmctld.log"
SlurmdLogFile="{folder}/slurmd-%n.log"
TaskProlog="{folder}/task_prolog"
# Job ids of several twins differ, and with them the MASTER_PORT that scripts derive from them:
# a thousand ids for each port, and twins are at least three ports apart.
FirstJobId={layout.port}000
# A day, not minutes: without accounting only slurmctld knows the state of an ended job.
MinJobAge=86400
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
ReturnToService=2
# A job that no partition would ever run is refused, not left pending.
EnforcePartLimits=ANY
SlurmdParameters=config_overrides
# The backfill scheduler starts the first job; until three seconds have passed the other one does not.
SchedulerParameters=batch_sched_delay=0,sched_interval=1,bf_interval=1
GresTypes=gpu{_licenses(layout)}{accounting.slurm_conf(layout) if layout.accounting else ""}"""


def _licenses(layout: Layout) -> str:
    names = licenses(layout.site)
    return f"\nLicenses={','.join(f'{name}:{_MANY_LICENSES}' for name in names)}" if names else ""


def _nodes(layout: Layout, group: Group) -> str:
    size = group.shape
    kind = f"{size.gpu_type}:" if size.gpu_type else ""
    feature = f" Feature={','.join(names)}" if (names := features(layout.site)) else ""
    gres = f" Gres=gpu:{kind}{size.gpus}" if size.gpus else ""
    disk = f" TmpDisk={mebibytes}" if (mebibytes := temporary_disk(layout.site)) else ""
    return (
        f"NodeName={group.hostlist} NodeHostname={layout.hostname} NodeAddr={layout.address}"
        f" Port={layout.node_ports(group)} CPUs={size.cpus} RealMemory={size.memory}{disk}{feature}{gres}"
    )


def _partition(layout: Layout, name: str, group: Group, *, is_default: bool) -> str:
    partition, every = partitions(layout.site)[name], layout.site.limits
    most = partition.max_nodes or every.max_nodes
    nodes = f" MaxNodes={most}" if most else ""
    least = f" MinNodes={partition.min_nodes}" if partition.min_nodes else ""
    whole = " OverSubscribe=EXCLUSIVE" if partition.whole_nodes else ""
    qos = accounting.partition_qos(name, partition) if layout.accounting else None
    limits = f" QOS={qos}" if qos else ""
    default = " Default=YES" if is_default else ""
    limit = partition.max_time or every.max_time or "UNLIMITED"
    return (
        f"PartitionName={name} Nodes={group.hostlist} MaxTime={limit}{nodes}{least}{whole}{limits}{default}"
    )
