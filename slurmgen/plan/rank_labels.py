"""Each line of the log begins with the rank that wrote it, by `srun --label` or by --tee of torchrun."""

from slurmgen.errors import RequestError
from slurmgen.field_names import option
from slurmgen.hints import leave_it_out
from slurmgen.launchers import Launcher
from slurmgen.request import Request
from slurmgen.slurm.shell import Variable, literal

# Without it, the label is the rank within its node. https://docs.pytorch.org/docs/stable/elastic/run.html
_TEMPLATE = "[rank${rank}]:"
NAME = "TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE"


def srun_labels(request: Request, launcher: Launcher) -> tuple[str, ...]:
    """The options of srun that label lines.

    Raises:
        RequestError: the ranks of this launcher share the output of one process.
    """
    if not request.label_ranks:
        return ()
    if launcher.labels is None:
        raise RequestError(
            f"{option('label_ranks')} has no effect with {launcher.name}: "
            "its ranks write to the output of one process",
            leave_it_out("label_ranks", text="Leave it out, and have the script write the rank."),
        )
    return ("--label",) if launcher.labels == "srun" else ()


def launcher_labels(request: Request, launcher: Launcher) -> tuple[str, ...]:
    """The options of torchrun that label lines; it writes them to files on the node, too."""
    return ("--tee=3",) if request.label_ranks and launcher.labels == "torchrun" else ()


def label_variables(request: Request, launcher: Launcher, prefix: str) -> dict[str, Variable]:
    """The variable that gives torchrun the form of the label; `prefix` is what a container engine needs."""
    if not launcher_labels(request, launcher):
        return {}
    why = "torchrun labels each line with its rank."
    return {NAME: Variable(NAME, _TEMPLATE, literal(_TEMPLATE), why, prefix)}
