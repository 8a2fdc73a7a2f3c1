"""Walks through a project: its entries, without those that are ignored, hold secrets, or are logs of jobs."""

import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from slurmgen.sync.ignore_rules import IGNORE_FILES, Chain, chain_above, chain_in, ignored
from slurmgen.sync.secret_files import patterns, secret

NEVER_SENT = frozenset({".git", ".hg", ".svn", ".jj", ".venv", "__pycache__", ".slurmgen"})


@dataclass
class Found:
    """The entries of a project, by relative path; that of a folder ends in a slash."""

    entries: "dict[str, os.DirEntry[str]]" = field(default_factory=dict)
    "All but folders."
    secrets: dict[str, str] = field(default_factory=dict)
    "The kind of secret in each entry that is left out."
    overruled: list[str] = field(default_factory=list)
    "Entries that .gitignore leaves out and .slurmgenignore includes again."


class _Folder(NamedTuple):
    path: str
    name: str
    chain: Chain
    secrets: int
    "The state of `patterns` after its name."


def walk(root: Path, logs: re.Pattern[str] | None = None) -> Found:
    """Find the entries of a project.

    Args:
        root: the folder of the project.
        logs: matches the names of jobs' logs, besides those that Slurm chooses.

    Raises:
        RequestError: an ignore file cannot be used.
        OSError: a folder or an ignore file cannot be read.
    """
    found = Found()
    todo = [_Folder(str(root), "", chain_above(root), patterns().start)]
    while todo:  # not recursive: folders may be thousands deep
        todo += _look(todo.pop(), root, found, logs)
    return found


def _look(folder: _Folder, root: Path, found: Found, logs: re.Pattern[str] | None) -> list[_Folder]:
    """Add the entries of a folder; returns its subfolders."""
    entries, chain = _listed(folder, root)
    of_git = tuple(rules for rules in chain if not rules.is_own)
    may_overrule = len(of_git) < len(chain)
    below = []
    for entry in entries:
        is_folder = entry.is_dir(follow_symlinks=False)
        encoded = os.fsencode(entry.name)
        if verdict := ignored(chain, encoded, is_folder=is_folder):
            continue
        name = folder.name + entry.name + "/" * is_folder
        if verdict is None and _is_log(entry.name, name, logs):
            continue
        secrets = patterns().after(folder.secrets, encoded.lower())
        if what := secret(secrets, entry.path, is_folder=is_folder):
            found.secrets[name] = what
            continue
        if may_overrule and ignored(of_git, encoded, is_folder=is_folder):
            found.overruled.append(name)
        if is_folder:
            inner = tuple(rules.below(encoded) for rules in chain)
            below.append(_Folder(entry.path, name, inner, patterns().after(secrets, b"/")))
        else:
            found.entries[name] = entry
    return below


def _is_log(name: str, path: str, logs: re.Pattern[str] | None) -> bool:
    return (name.startswith("slurm-") and name.endswith(".out")) or bool(logs and logs.fullmatch(path))


def _listed(folder: _Folder, root: Path) -> "tuple[list[os.DirEntry[str]], Chain]":
    """The entries of a folder, and the rules that apply in it."""
    with os.scandir(folder.path) as listing:
        entries = [entry for entry in listing if entry.name not in NEVER_SENT]
    names = {entry.name for entry in entries}
    if names.isdisjoint(IGNORE_FILES):
        return entries, folder.chain
    return entries, chain_in(Path(folder.path), names, folder.chain, root)
