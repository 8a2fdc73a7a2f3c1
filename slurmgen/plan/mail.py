"""Mail: Slurm's options for messages about a job."""

import re

from slurmgen.errors import RequestError, contradiction, did_you_mean
from slurmgen.field_names import option
from slurmgen.request import NONE, Request

EVENTS = frozenset(
    """
    all array_tasks begin end fail invalid_depend requeue stage_out time_limit time_limit_50 time_limit_80
    time_limit_90
    """.split()
)
"Of --mail-type, in lower case. https://slurm.schedmd.com/sbatch.html#OPT_mail-type"
FIELDS = {"mail-type": "mail", "mail-user": "mail_user"}
"The field of the request that sets an option."
_ADDRESS = re.compile(r"[A-Za-z0-9][A-Za-z0-9._%+-]{0,63}(@[A-Za-z0-9][A-Za-z0-9.-]{0,251}[A-Za-z0-9])?")


def with_mail(request: Request, options: dict[str, str]) -> dict[str, str]:
    """The further sbatch options of a job, with those for mail.

    Raises:
        RequestError: an event or the address is not valid, or an option contradicts another one.
    """
    if request.mail_user is not None and not _ADDRESS.fullmatch(request.mail_user):
        raise RequestError(
            f"{option('mail_user')} {request.mail_user!r} is not an address",
            "Write one such as NAME@example.org.",
        )
    if request.mail in (None, NONE):
        return options
    types = ",".join(_event(text.strip()) for text in (request.mail or "").split(","))
    own = {"mail-type": types} | ({"mail-user": request.mail_user} if request.mail_user else {})
    if twice := own.keys() & request.sbatch.keys():
        raise contradiction(option("mail"), option("sbatch", min(twice)))
    return options | own


def _event(name: str) -> str:
    if name.lower() not in EVENTS:
        raise RequestError(
            f"{option('mail')}: {name!r} is not an event", did_you_mean(name.lower(), EVENTS, "mail")
        )
    return name.upper()
