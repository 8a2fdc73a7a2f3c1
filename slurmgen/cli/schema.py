"""JSON Schemas of what commands print with --json. `python -m slurmgen.cli.schema` writes schemas/output."""

import json
from pathlib import Path
from typing import Any

import msgspec

from slurmgen.cli import job_objects as jobs
from slurmgen.cli import objects
from slurmgen.config.schema import DIALECT, describe, structs_in
from slurmgen.live.gpus import Sample
from slurmgen.status.diagnose import LogDiagnosis
from slurmgen.status.report import JobObject

OUTPUTS: dict[str, tuple[Any, ...]] = {
    "adopt": (objects.AdoptedJobs,),
    "cancel": (JobObject, jobs.JobList),
    "check": (objects.Checked,),
    "diagnose": (LogDiagnosis,),
    "doctor": (jobs.Diagnosis,),
    "explain": (objects.Explained,),
    "fetch": (jobs.FetchedFiles, jobs.FetchedList),
    "forget": (jobs.Forgotten,),
    "init": (objects.Started,),
    "lint": (list[objects.LintFinding], list[objects.LintChange], list[objects.LintRule]),
    "logs": (jobs.Log, jobs.LogList),
    "nodes": (jobs.BadNodeList,),
    "preflight": (jobs.Preflight, jobs.DryRun, jobs.Copied),
    "render": (objects.Rendered,),
    "results": (jobs.Results,),
    "resubmit": (jobs.Resubmitted, jobs.SubmittedList, jobs.ResubmitDryRun),
    "sites": (objects.SiteList,),
    "sites discover": (objects.DiscoveredProfile, objects.Compared, objects.ProbeJob),
    "sites list": (objects.SiteList,),
    "sites new": (objects.NewProfile,),
    "sites show": (objects.Facts,),
    "sites test": (objects.SiteTrial,),
    "sites validate": (objects.Validated,),
    "snapshots": (jobs.Snapshots,),
    "status": (JobObject, jobs.JobList),
    "submit": (jobs.Submitted, jobs.SubmittedFirst, jobs.SubmittedList, jobs.DryRun, jobs.Accepted),
    "twin down": (objects.StoppedTwins,),
    "twin status": (objects.TwinList,),
    "twin up": (objects.TwinObject,),
    "top": (Sample, jobs.JobList),
    "where": (jobs.WhereList,),
    "wait": (JobObject, jobs.JobList),
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
