"""What a bind may contain: every engine reads some characters as separators, and none lets them be quoted."""

from slurmgen.containers.base import Engine
from slurmgen.slurm.shell import is_full_path

_NAMES = {",": "a comma", ";": "a semicolon", " ": "a blank", "\t": "a tab"}


def bind_fault(engine: Engine, bind: str) -> tuple[str, str] | None:
    """Why an engine cannot use a bind, and what to do; None if it can."""
    parts = bind.split(":")
    paths = parts[:2]
    if not is_full_path(paths[0]):
        return "is not a full path", "Write SOURCE[:TARGET] with a source that begins with /, ~/ or a $NAME."
    if len(parts) > 1 and not is_full_path(paths[1]):
        fact = f"has the target {paths[1]!r}, which is not a full path"
        return fact, "Write SOURCE:TARGET with a full path; no engine can bind a path with a colon."
    if len(parts) > 2 + engine.bind_options:
        form = "SOURCE:TARGET:OPTIONS" if engine.bind_options else "SOURCE:TARGET"
        return "has too many colons", f"The longest form is {form}; no engine can bind a path with a colon."
    for mark in engine.not_in_binds:
        if mark in "".join(paths):
            return f"has {_NAMES[mark]}, which separates binds", "Bind a folder above it, or a link to it."
    return None
