"""The fields of the form: their groups, labels and kinds. Their names are those of a request."""

from typing import Literal, NamedTuple, get_args

from slurmgen.launchers import LAUNCHERS
from slurmgen.request import Precision, Rendezvous

Kind = Literal["text", "number", "lines", "select", "switch"]


class Field(NamedTuple):
    """One field."""

    name: str
    label: str
    kind: Kind = "text"
    placeholder: str = ""
    help: str = ""
    options: tuple[str, ...] = ()
    "Of a select, besides an empty one for the default."
    narrow: bool = False
    "Two such fields are beside each other."


class Group(NamedTuple):
    """Fields that belong together."""

    title: str
    fields: tuple[Field, ...]

    @property
    def rows(self) -> list[tuple[Field, ...]]:
        """The fields that are beside each other: two narrow ones, or one alone."""
        rows: list[tuple[Field, ...]] = []
        for one in self.fields:
            pairs = one.narrow and rows and len(rows[-1]) == 1 and rows[-1][0].narrow
            rows = [*rows[:-1], (*rows[-1], one)] if pairs else [*rows, (one,)]
        return rows


COMMON = Group(
    "",
    (
        Field("framework", "Framework", "select", options=tuple(LAUNCHERS), narrow=True),
        Field("time", "Time limit", placeholder="01:00:00", help="HH:MM:SS or D-HH:MM:SS.", narrow=True),
        Field("gpus", "GPUs in total", "number", "1", narrow=True),
        Field("nodes", "Nodes", "number", "as few as fit", narrow=True),
        Field("gpu_type", "GPU type", narrow=True),
        Field("partition", "Partition", narrow=True),
        Field("account", "Account", narrow=True),
        Field("qos", "QoS", narrow=True),
        Field("script", "Script", placeholder="train.py", help="Python, or shell if it ends with .sh."),
        Field("script_args", "Arguments", placeholder="--epochs 20", help="Quoted as in a shell."),
    ),
)
GROUPS = (
    Group(
        "Module or command instead of a script",
        (
            Field("module", "Python module", placeholder="package.train", narrow=True),
            Field("command", "Command", placeholder="./simulate --steps 100", narrow=True),
        ),
    ),
    Group(
        "Container and Python",
        (
            Field("container", "Container image", placeholder="/path/image.sif", help="none: no container."),
            Field("container_engine", "Container engine", narrow=True),
            Field("python_env", "Python environment", placeholder="venv:/path/.venv", narrow=True),
            Field("binds", "Folders to bind", "lines", "/data:/data"),
            Field("modules", "Modules", "lines", help="Instead of the site's; none: no modules."),
        ),
    ),
    Group(
        "Environment variables",
        (
            Field("env", "Variables", "lines", "NAME=value", "$NAME in a value expands in the job."),
            Field("secrets", "Secret variables", "lines", "HF_TOKEN", "Names only; submit asks for values."),
            Field("not_secret", "Not secret", "lines", help="Variables that look secret and are not."),
        ),
    ),
    Group(
        "CPUs and memory",
        (
            Field("cpus_per_gpu", "CPUs per GPU", "number", narrow=True),
            Field("cpus", "CPUs per task", "number", narrow=True),
            Field("mem", "Memory per node", placeholder="64G", narrow=True),
            Field("ntasks_per_node", "Tasks per node", "number", narrow=True),
        ),
    ),
    Group(
        "Longer than one job",
        (
            Field("requeue", "Requeue if unfinished", "switch", narrow=True),
            Field("segments", "Segments", "number", "1", narrow=True),
            Field("requeue_signal", "How ranks are asked to stop", placeholder="USR2@120"),
        ),
    ),
    Group(
        "Sweep of parameters",
        (
            Field("sweep", "Grid", "lines", "lr=1e-3,3e-4", "A parameter per line; a run per combination."),
            Field("sweep_limit", "Tasks at a time", "number"),
        ),
    ),
    Group(
        "Checks of nodes",
        (
            Field("preflight", "Check nodes first", "switch", narrow=True),
            Field("on_bad_node", "On a bad node", "select", options=("stop", "retry"), narrow=True),
            Field("exclude", "Nodes not to use", "lines", "gpu012=slow network"),
        ),
    ),
    Group(
        "Name, log and mail",
        (
            Field("name", "Job name", placeholder="name of the script", narrow=True),
            Field("log_dir", "Folder for the log", placeholder="logs", narrow=True),
            Field("mail", "Mail on", placeholder="end,fail", narrow=True),
            Field(
                "mail_user", "Mail address", placeholder="name@example.org", help="For Mail on.", narrow=True
            ),
            Field("label_ranks", "Rank on each line of the log", "switch", narrow=True),
        ),
    ),
    Group(
        "Launcher and sbatch options",
        (
            Field("rendezvous", "Rendezvous", "select", options=get_args(Rendezvous), narrow=True),
            Field("mixed_precision", "Precision", "select", options=get_args(Precision), narrow=True),
            Field("launcher_config", "Configuration file", placeholder="accelerate.yaml"),
            Field("launcher_args", "Options of the launcher", "lines", "--max-restarts=3"),
            Field("sbatch", "Further sbatch options", "lines", "comment=first try"),
        ),
    ),
)

LABELS = {"site": "Site"} | {one.name: one.label for group in (COMMON, *GROUPS) for one in group.fields}
"The label of each field."
