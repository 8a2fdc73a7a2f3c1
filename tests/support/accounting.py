"""A twin with accounting that soon forgets jobs which have ended.

with twin("generic", accounts=[ACCOUNT]) as testbed:
    limit(testbed)
    testbed.run("sacct", "--jobs=12")
"""

from getpass import getuser

from slurmgen.twin import daemons
from tests.support.twins import Testbed, eventually

ACCOUNT = "ours"
"The account that our user is charged to when none is named."
REMEMBERED = 10
"Seconds for which slurmctld remembers a job that ended; after that, only accounting does."
FEW_GPUS = "few"
"A QoS with one GPU a user."
CONFIGURATION = f"""JobAcctGatherFrequency=task=1
JobAcctGatherParams=OverMemoryKill
MinJobAge={REMEMBERED}
"""


def forgetful(testbed: Testbed) -> None:
    """Have a twin forget ended jobs, kill those that use more memory than they have, and limit GPUs."""
    conf = testbed.twin.slurm_conf
    kept = [line for line in conf.read_text().splitlines() if not line.startswith("MinJobAge=")]
    conf.write_text("\n".join([*kept, CONFIGURATION]))
    restart(testbed)
    add(testbed, "qos", FEW_GPUS, "MaxTRESPerUser=gres/gpu=1")
    user = f"modify user where name={getuser()} set QOS=normal,{FEW_GPUS}"
    testbed.run("sacctmgr", "--immediate", *user.split())


def add(testbed: Testbed, *words: str) -> None:
    """Have sacctmgr add something; it shows no prompt."""
    testbed.run("sacctmgr", "--immediate", "add", *words)


def restart(testbed: Testbed) -> None:
    """Restart the twin's controller and nodes, which read these options at their start."""
    slurm = [daemon for daemon in testbed.twin.daemons if daemon.name.startswith(("slurmctld", "slurmd-"))]
    daemons.stop(*slurm)
    for daemon in slurm:
        daemons.start(daemon)
    nodes = set(testbed.twin.nodes)
    idle = ("sinfo", "--noheader", "--Node", "--states=idle", "--format=%N")
    eventually(lambda: nodes == set(testbed.tried(*idle).split()))
