"""The walk through a project: what is in it, less what is ignored and what holds secrets."""

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from slurmgen.sync.ignore_rules import IGNORE_FILES, Chain, chain_above, chain_in, ignored
from slurmgen.sync.secret_files import patterns, secret

NEVER_SENT = frozenset({".git", ".hg", ".svn", ".jj", ".venv", "__pycache__", ".slurmgen"})


@dataclass
class Found:
    """What a project holds, by names from its folder on; that of a folder ends in a slash."""

    entries: "dict[str, os.DirEntry[str]]" = field(default_factory=dict)
    "All but folders."
    secrets: dict[str, str] = field(default_factory=dict)
    "What is left out for what it holds."
    overruled: list[str] = field(default_factory=list)
    "What .gitignore leaves out and .slurmgenignore includes again."


class _Folder(NamedTuple):
    path: str
    name: str
    chain: Chain
    secrets: int
    "The state of the patterns of secrets, after its name."


def walk(root: Path) -> Found:
    """Look through a project.

    Raises:
        RequestError: an ignore file cannot be used.
        OSError: a folder or an ignore file cannot be read.
    """
    found = Found()
    todo = [_Folder(str(root), "", chain_above(root), patterns().start)]
    while todo:  # not recursive: folders may be thousands deep
        todo += _look(todo.pop(), root, found)
    return found


def _look(folder: _Folder, root: Path, found: Found) -> list[_Folder]:
    """Add what is in a folder; the folders in it are returned."""
    entries, chain = _listed(folder, root)
    of_git = tuple(rules for rules in chain if not rules.is_own)
    may_overrule = len(of_git) < len(chain)
    below = []
    for entry in entries:
        is_folder = entry.is_dir(follow_symlinks=False)
        encoded = os.fsencode(entry.name)
        if ignored(chain, encoded, is_folder=is_folder):
            continue
        name = folder.name + entry.name + "/" * is_folder
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


def _listed(folder: _Folder, root: Path) -> "tuple[list[os.DirEntry[str]], Chain]":
    """What is in a folder, and the rules for it."""
    with os.scandir(folder.path) as listing:
        entries = [entry for entry in listing if entry.name not in NEVER_SENT]
    names = {entry.name for entry in entries}
    if names.isdisjoint(IGNORE_FILES):
        return entries, folder.chain
    return entries, chain_in(Path(folder.path), names, folder.chain, root)
