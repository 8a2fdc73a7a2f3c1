"""Site profiles: found in three places, inherited, validated.

A profile NAME.toml is looked for in the project's `site_profiles/`, then in
`site_profiles/` of your config folder, then among the bundled ones. A profile may
extend the one of its own name from further down that list.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from slurmgen.config import convert, read_toml, shortened
from slurmgen.errors import ConfigError, SlurmgenError, did_you_mean
from slurmgen.paths import bundled, config_folder
from slurmgen.personal import read_own
from slurmgen.site import Site
from slurmgen.slurm import durations, options, sizes
from slurmgen.slurm.shell import unprintable
from slurmgen.software import setup_lines


def search_path(project_dir: Path | None = None, *, personal: bool = True) -> list[Path]:
    """The folders that profiles are looked for in, the nearest first; yours only if `personal`."""
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
    """The site of that name, with everything it inherits; from your own profiles too, if `personal`.

    Raises:
        ConfigError: there is no such profile, or it is wrong.
    """
    folders = search_path(project_dir, personal=personal)
    known = _profiles_in(folders)
    if name in known:
        return _loaded(known[name], folders)
    if not personal and name in profile_paths(project_dir):
        raise ConfigError(
            f"site {name!r} is one of your own, and a script in a file must be the same for everybody",
            f"Copy {profile_paths(project_dir)[name]} to site_profiles/ of the project.",
        )
    raise ConfigError(f"there is no site {name!r}", did_you_mean(name, known))


def load_profile(path: Path, project_dir: Path | None = None) -> Site:
    """The site that one profile file describes, with everything it inherits.

    Raises:
        ConfigError: the file or one that it extends is wrong.
    """
    return _loaded(path, search_path(project_dir))


def _loaded(path: Path, folders: Sequence[Path]) -> Site:
    layers = list(_lineage(path, folders))
    merged: dict[str, Any] = {}
    for _, data in reversed(layers):
        if data.get("name") != merged.get("name"):
            merged.pop("title", None)  # another site's
        merged = _merged(merged, data)
    site = convert(merged, Site, path)
    _check(site, path)
    return site


def _lineage(path: Path, folders: Sequence[Path]) -> Iterator[tuple[Path, dict[str, Any]]]:
    """The profile, then what it extends, then what that extends."""
    seen: list[Path] = []
    while True:
        if path in seen:
            raise ConfigError(f"{path} extends itself", "Take one `extends` out.")
        seen.append(path)
        data = read_own(path) if path.absolute().is_relative_to(config_folder()) else read_toml(path)
        text = unprintable(data)
        if text is not None:
            raise ConfigError(
                f"{path}: a value has a control character: {shortened(repr(text))}", "Take it out."
            )
        convert({**data, "name": data.get("name", path.stem)}, Site, path)
        yield path, data
        if "extends" not in data:
            return
        path = _parent(str(data["extends"]), path, folders, seen)


def _parent(name: str, child: Path, folders: Sequence[Path], seen: list[Path]) -> Path:
    candidates = [folder / f"{name}.toml" for folder in [child.parent, *folders]]
    existing = [path for path in dict.fromkeys(candidates) if path.is_file()]
    if not existing:
        raise ConfigError(
            f"{child}: extends unknown site {name!r}", did_you_mean(name, _profiles_in(folders))
        )
    return next((path for path in existing if path not in seen), existing[0])


def _merged(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    """Tables are merged key by key; everything else is replaced."""
    both = {**base, **over}
    for key in base.keys() & over.keys():
        if isinstance(base[key], dict) and isinstance(over[key], dict):
            both[key] = _merged(base[key], over[key])
    return both


def _check(site: Site, path: Path) -> None:
    """Refuse values that the types let through: file name, times and sizes."""
    if site.name != path.stem:
        raise ConfigError(
            f"{path}: name is {site.name!r}",
            f"A profile is found by its file name; call it {site.name}.toml.",
        )
    for key, text in _texts(site):
        try:
            (durations.seconds if key.endswith("time") else sizes.megabytes)(text)
        except ValueError:
            form = "a Slurm time such as 1-12:00:00" if key.endswith("time") else "a size such as 64G"
            raise ConfigError(f"{path}: {key}: {text!r} is not {form}", "Mend that value.") from None
    image = site.container.image if site.container else None
    if image and image.startswith("-"):
        raise ConfigError(f"{path}: container.image: {image!r} begins with a dash", "Write its full path.")
    try:
        setup_lines(site.python_env or "none")
        for key, value in site.sbatch.items():
            options.checked(key, value)
    except SlurmgenError as error:
        raise ConfigError(f"{path}: {error.fact}", error.hint) from None
    defaults = [name for name, partition in site.partitions.items() if partition.default]
    if len(defaults) > 1:
        raise ConfigError(f"{path}: several default partitions: {', '.join(defaults)}", "Keep one.")


def _texts(site: Site) -> Iterator[tuple[str, str]]:
    """Every time and size of a profile with the key it stands under."""
    pairs: list[tuple[str, str | None]] = [("time", site.time), ("memory.per_gpu", site.memory.per_gpu)]
    pairs.append(("node.memory", site.node.memory))
    pairs += [(f"gpu.types.{name}.memory", kind.memory) for name, kind in site.gpu.types.items()]
    pairs += [(f"qos.{name}.max_time", qos.max_time) for name, qos in site.qos.items()]
    for name, partition in site.partitions.items():
        pairs.append((f"partitions.{name}.max_time", partition.max_time))
        pairs.append((f"partitions.{name}.node.memory", partition.node.memory if partition.node else None))
    yield from ((key, text) for key, text in pairs if text is not None)
