"""`slurmgen submit --all`: the jobs of slurmgen.toml in the order of their dependencies, as one group."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import structs

from slurmgen.cli.job_output import say
from slurmgen.cli.submit_output import print_ids, say_result, show, warn
from slurmgen.config.dependencies import with_dependencies
from slurmgen.config.project import find_project, require_project
from slurmgen.errors import RequestError
from slurmgen.job_options import JobOptions
from slurmgen.job_spec import JobSpec, load_spec

if TYPE_CHECKING:
    from slurmgen.jobs.prepare import Prepared
    from slurmgen.remote.background import BackgroundLogin

Prepare = Callable[[JobSpec], "tuple[Prepared, tuple[str, ...]]"]


def check_all(options: JobOptions, others: dict[str, object]) -> None:
    """Refuse what belongs to one job.

    Args:
        options: those of the jobs.
        others: whether further options are given, by their names.

    Raises:
        RequestError: an option is that of one job only.
    """
    asked = options.request
    if asked.names_program or asked.name or asked.script_args is not None:
        raise RequestError(
            "--all submits several jobs, and a program, its arguments or a name belong to one",
            "Write them into slurmgen.toml.",
        )
    for option, is_given in others.items():
        if is_given:
            raise RequestError(f"--all and {option} exclude each other", "Leave one out.")


def load_all(options: JobOptions) -> list[JobSpec]:
    """The jobs of slurmgen.toml in their order, or one job and those that it depends on.

    Raises:
        RequestError: there is no such job.
    """
    folder, project = find_project(Path.cwd())
    require_project(folder)
    names = with_dependencies(project, options.job)
    if not names:
        raise RequestError("slurmgen.toml has no jobs", "Add a [job.NAME].")
    return [load_spec(structs.replace(options, job=name), Path.cwd()) for name in names]


def submit_all(
    connecting: "BackgroundLogin",
    specs: Sequence[JobSpec],
    prepare: Prepare,
    *,
    again: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Submit the jobs as one group, or show what would be submitted."""
    from slurmgen.cli.submit_progress import Printer
    from slurmgen.jobs.graph import group
    from slurmgen.jobs.submission import submissions

    made = {str(spec.name): prepare(spec) for spec in specs}
    prepared = group({name: one for name, (one, _) in made.items()}, specs[0].project)
    all_notes = [notes for _, notes in made.values()]
    if dry_run:
        _show(prepared, list(made), all_notes)
        return
    notes = tuple(dict.fromkeys(note for notes in all_notes for note in notes))
    printer = Printer(prepared[0], notes, lambda outcomes: print_ids(outcomes, as_json))
    with submissions(prepared, connecting.transport, again=again, observer=printer) as outcomes:
        for one, outcome in zip(prepared, outcomes, strict=True):
            say_result(one, outcome)
        key = outcomes[0].record.part_of
        say(f"these jobs are the group {key}, which status, wait and cancel take like an id")


def _show(prepared: "Sequence[Prepared]", names: Sequence[str], all_notes: Sequence[tuple[str, ...]]) -> None:
    for one, notes in zip(prepared, all_notes, strict=True):
        warn(one, notes)
        show(one, as_json=False)
        for place, kind in one.needs:
            say(f"would depend on {names[place]} ({kind})")
