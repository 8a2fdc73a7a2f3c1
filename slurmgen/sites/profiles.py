"""Site profiles: found in three places and inherited. sites/checks.py checks their facts.

A profile NAME.toml is looked for in the project's `site_profiles/`, then in
`site_profiles/` of your config folder, then among the bundled ones. A profile may
extend the one of its own name from further down that list.

Any function here that reads a profile raises ConfigError if there is none of that name, a file cannot be
read, or a fact is wrong; the error names file and line.
"""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from slurmgen.errors import ConfigError, did_you_mean
from slurmgen.files import bundled, config_folder
from slurmgen.sites.checks import Fault, contradictions, faults
from slurmgen.sites.model import Site
from slurmgen.slurm.shell import unprintable
from slurmgen.toml import has, located, problems, read_own, read_toml, shortened

Layer = tuple[Path, dict[str, Any]]
"A profile's file and its own data."
_UNNAMED = "unnamed"
"Of a site whose name is wrong."


def search_path(project_dir: Path | None = None, *, personal: bool = True) -> list[Path]:
    """The folders of profiles, the nearest first; the user's own only if `personal`."""
    folders = [project_dir / "site_profiles"] if project_dir else []
    if personal:
        folders.append(config_folder() / "site_profiles")
    return list(dict.fromkeys([*folders, bundled("site_profiles")]))


def profile_paths(project_dir: Path | None = None, *, personal: bool = True) -> dict[str, Path]:
    """Every profile by name; the nearest folder wins."""
    return _profiles_in(search_path(project_dir, personal=personal))


def _profiles_in(folders: Sequence[Path]) -> dict[str, Path]:
    found: dict[str, Path] = {}
    for folder in folders:
        for path in sorted(folder.glob("*.toml")):
            found.setdefault(path.stem, path)
    return dict(sorted(found.items()))


def load_site(name: str, project_dir: Path | None = None, *, personal: bool = True) -> Site:
    """The site of that name, with everything it inherits; also from the user's own profiles if `personal`."""
    folders = search_path(project_dir, personal=personal)
    known = _profiles_in(folders)
    if name in known:
        return _loaded(known[name], folders)
    if project_dir and not personal and name in profile_paths(project_dir):  # a public page has no project
        raise ConfigError(
            f"site {name!r} is one of your own, and a script in a file must be the same for every user",
            f"Copy {profile_paths(project_dir)[name]} to site_profiles/ of the project.",
        )
    raise ConfigError(f"there is no site {shortened(name)!r}", did_you_mean(name, known, "site"))


def stated_facts(name: str, project_dir: Path | None = None) -> dict[str, Any]:
    """What the profile of that name states, with everything it inherits, but without defaults."""
    load_site(name, project_dir)
    folders = search_path(project_dir)
    return _merged_layers(_layers(_profiles_in(folders)[name], folders)[0])


def lineage(name: str, project_dir: Path | None = None, *, personal: bool = True) -> tuple[Path, ...]:
    """The file of a known profile, and the files that it extends, nearest first."""
    folders = search_path(project_dir, personal=personal)
    return tuple(path for path, _ in _lineage(_profiles_in(folders)[name], folders))


def load_profile(path: Path, project_dir: Path | None = None) -> Site:
    """The site that one profile file describes, with everything it inherits."""
    return _loaded(path, search_path(project_dir))


def comes_from_project(name: str, project_dir: Path | None) -> bool:
    """Whether a profile, or one that it extends, is a file of the project, which may be untrusted."""
    return bool(_of_project(name, project_dir))


def states_login(name: str, project_dir: Path) -> bool:
    """Whether the login host of a site is stated by a file of the project."""
    return any(has(data, ["login", "host"]) for data in _of_project(name, project_dir))


def _of_project(name: str, project_dir: Path | None) -> list[dict[str, Any]]:
    folders = search_path(project_dir)
    if project_dir is None or name not in (known := _profiles_in(folders)):
        return []
    project = project_dir / "site_profiles"
    if project in search_path():
        return []
    return [data for path, data in _lineage(known[name], folders) if path.parent == project]


def profile_errors(path: Path, project_dir: Path | None = None) -> list[ConfigError]:
    """Every error of a profile file and of those that it extends; each names file and line."""
    try:
        return _read(path, search_path(project_dir))[1]
    except ConfigError as error:  # a file cannot be read at all
        return [error]


def profile_warnings(path: Path, project_dir: Path | None = None) -> list[ConfigError]:
    """What the strict checks find in a valid profile: contradictions, and facts without a source."""
    folders = search_path(project_dir)
    site = _loaded(path, folders)
    layers, _ = _layers(path, folders)
    return [_located(fault, layers) for fault in dict.fromkeys(contradictions(site))]


def _loaded(path: Path, folders: Sequence[Path]) -> Site:
    site, errors = _read(path, folders)
    if errors:
        raise errors[0]
    return site


def _read(path: Path, folders: Sequence[Path]) -> tuple[Site, list[ConfigError]]:
    layers, errors = _layers(path, folders)
    site = msgspec.convert(_merged_layers([_quoted(layer, folders) for layer in layers]), Site)
    stem = _UNNAMED if site.name == _UNNAMED else path.stem
    return site, errors + [_located(fault, layers) for fault in faults(site, stem)]


_TEXTS = (
    ("account", "hint"),
    ("login", "note"),
    ("notes", "*"),
    ("refusals", "*"),
    ("refused_options", "*"),
    ("when", "*", "note"),
    ("when", "*", "refuse"),
)
"Sentences of a profile, which errors, findings and notes repeat."


def _quoted(layer: Layer, folders: Sequence[Path]) -> Layer:
    path, data = layer
    is_bundled = path.parent == bundled("site_profiles")
    if is_bundled or path.parent not in folders or path.parent in search_path():
        return layer
    for keys in _TEXTS:
        data = _changed(data, keys, f"{path.parent.name}/{path.name} says: ")
    return path, data


def _changed(data: Any, keys: Sequence[str], source: str) -> Any:
    """The data with the texts under these keys quoted; `*` is every key."""
    if isinstance(data, str) and not keys:
        return f"{source}“{re.sub('[“”]', chr(34), data)}”"  # no quote ends early
    if not isinstance(data, dict) or not keys:
        return data
    names = data if keys[0] == "*" else data.keys() & {keys[0]}
    return data | {name: _changed(data[name], keys[1:], source) for name in names}


def _merged_layers(layers: Sequence[Layer]) -> dict[str, Any]:
    merged: dict[str, Any] = {}
    for _, data in reversed(layers):
        if data["name"] != merged.get("name"):
            merged.pop("title", None)  # another site's
        merged = _merged(merged, data)
    return merged


def _layers(path: Path, folders: Sequence[Path]) -> tuple[list[Layer], list[ConfigError]]:
    layers: list[Layer] = []
    errors: list[ConfigError] = []
    try:
        for layer_path, data in _lineage(path, folders):
            errors += _control_characters(layer_path, data)
            found, right = problems({"name": layer_path.stem, **data}, Site, layer_path, {"name": _UNNAMED})
            errors += found
            layers.append((layer_path, right))
    except ConfigError as error:
        if not layers:
            raise
        errors.append(error)
    return layers, errors


def _control_characters(path: Path, data: Any, keys: tuple[str, ...] = ()) -> Iterator[ConfigError]:
    if isinstance(data, dict):
        for key, value in data.items():
            yield from _control_characters(path, key if unprintable(key) else value, (*keys, key))
    elif (text := unprintable(data)) is not None:
        fact = f"a value has a control character: {shortened(repr(text))}"
        yield ConfigError(f"{located(path, keys)}: {'.'.join(keys)}: {fact}", "Remove it.")


def _located(fault: Fault, layers: Sequence[Layer]) -> ConfigError:
    for end in range(len(fault.keys), 0, -1):
        keys = fault.keys[:end]
        for path, data in layers:
            if has(data, keys):
                return ConfigError(f"{located(path, keys)}: {'.'.join(fault.keys)}: {fault.fact}", fault.hint)
    return ConfigError(f"{layers[0][0]}: {fault.fact}", fault.hint)


def _lineage(path: Path, folders: Sequence[Path]) -> Iterator[Layer]:
    seen: list[Path] = []
    while True:
        if path in seen:
            raise ConfigError(f"{located(path, ['extends'])}: it extends itself", "Remove one `extends`.")
        seen.append(path)
        data = read_own(path) if _is_own(path) else read_toml(path)
        yield path, data
        parent = data.get("extends")
        if not isinstance(parent, str) or Path(parent).name != parent:  # none, or reported as wrong
            return
        path = _parent(parent, path, folders, seen)


def _is_own(path: Path) -> bool:
    """Whether a profile is the user's own; a bundled one is not, also for a user without a home directory."""
    return path.parent != bundled("site_profiles") and path.absolute().is_relative_to(config_folder())


def _parent(name: str, child: Path, folders: Sequence[Path], seen: list[Path]) -> Path:
    candidates = [folder / f"{name}.toml" for folder in [child.parent, *folders]]
    existing = [path for path in dict.fromkeys(candidates) if path.is_file()]
    if not existing:
        place = located(child, ["extends"])
        raise ConfigError(
            f"{place}: extends unknown site {name!r}", did_you_mean(name, _profiles_in(folders))
        )
    return next((path for path in existing if path not in seen), existing[0])


def _merged(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    both = {**base, **over}
    for key in base.keys() & over.keys():
        if isinstance(base[key], dict) and isinstance(over[key], dict):
            both[key] = _merged(base[key], over[key])
    return both
