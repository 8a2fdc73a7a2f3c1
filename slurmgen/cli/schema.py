"""JSON Schemas of what commands print with --json. `python -m slurmgen.cli.schema` writes schemas/output."""

import json
from pathlib import Path
from typing import Any

import msgspec

from slurmgen.cli.job_objects import (
    Accepted,
    BadNodeList,
    Copied,
    Diagnosis,
    DryRun,
    FetchedFiles,
    FetchedList,
    Forgotten,
    JobList,
    Log,
    LogList,
    Preflight,
    ResubmitDryRun,
    Resubmitted,
    Results,
    Snapshots,
    Submitted,
    SubmittedFirst,
    SubmittedList,
    WhereList,
)
from slurmgen.cli.objects import (
    AdoptedJobs,
    Checked,
    Compared,
    DiscoveredProfile,
    Explained,
    Facts,
    LintChange,
    LintFinding,
    LintRule,
    NewProfile,
    ProbeJob,
    Rendered,
    SiteList,
    SiteTrial,
    Started,
    StoppedTwins,
    TwinList,
    TwinObject,
    Validated,
)
from slurmgen.config.schema import DIALECT, describe, structs_in
from slurmgen.live.gpus import Sample
from slurmgen.status.diagnose import LogDiagnosis
from slurmgen.status.report import JobObject

OUTPUTS: dict[str, tuple[Any, ...]] = {
    "adopt": (AdoptedJobs,),
    "cancel": (JobObject, JobList),
    "check": (Checked,),
    "diagnose": (LogDiagnosis,),
    "doctor": (Diagnosis,),
    "explain": (Explained,),
    "fetch": (FetchedFiles, FetchedList),
    "forget": (Forgotten,),
    "init": (Started,),
    "lint": (list[LintFinding], list[LintChange], list[LintRule]),
    "logs": (Log, LogList),
    "nodes": (BadNodeList,),
    "preflight": (Preflight, DryRun, Copied),
    "render": (Rendered,),
    "results": (Results,),
    "resubmit": (Resubmitted, SubmittedList, ResubmitDryRun),
    "sites": (SiteList,),
    "sites discover": (DiscoveredProfile, Compared, ProbeJob),
    "sites list": (SiteList,),
    "sites new": (NewProfile,),
    "sites show": (Facts,),
    "sites test": (SiteTrial,),
    "sites validate": (Validated,),
    "snapshots": (Snapshots,),
    "status": (JobObject, JobList),
    "submit": (Submitted, SubmittedFirst, SubmittedList, DryRun, Accepted),
    "twin down": (StoppedTwins,),
    "twin status": (TwinList,),
    "twin up": (TwinObject,),
    "top": (Sample, JobList),
    "where": (WhereList,),
    "wait": (JobObject, JobList),
}
"The types of the object that each command prints; several if its options or the number of jobs decide."
WITHOUT = {
    "port": "forwards a port until it is interrupted",
    "run": "prints the log of the job",
    "path": "prints the folder of a job",
    "ssh": "prints what the shell on the login node prints",
    "shell": "prints what the command in the job prints",
    "lsp": "speaks the Language Server Protocol on stdout",
    "web": "serves pages until it is interrupted",
    "twin": "only has subcommands",
}
"The commands without --json, and why."
FOLDER = Path("schemas", "output")


def file_name(command: str) -> str:
    """The file of the schema of a command.

    >>> file_name("twin up")
    'twin-up.json'
    """
    return f"{command.replace(' ', '-')}.json"


def schema_of(command: str) -> dict[str, Any]:
    """The schema of what a command prints with --json."""
    kinds = OUTPUTS[command]
    types, definitions = msgspec.json.schema_components(kinds, ref_template="#/$defs/{name}")
    structs = structs_of(kinds)
    for name, definition in definitions.items():
        describe(definition, structs[name])
    head = {"$schema": DIALECT, "title": f"slurmgen {command} --json"}
    body = types[0] if len(types) == 1 else {"anyOf": list(types)}
    return head | body | ({"$defs": definitions} if definitions else {})


def structs_of(kinds: tuple[Any, ...]) -> dict[str, type]:
    """The structs that these types consist of, by name."""
    return {name: struct for kind in kinds for name, struct in structs_in(kind).items()}


def schema_text(command: str) -> str:
    """The text of the file of a schema."""
    return json.dumps(schema_of(command), indent=2) + "\n"


if __name__ == "__main__":
    for name in OUTPUTS:
        (FOLDER / file_name(name)).write_text(schema_text(name), encoding="utf-8")
