"""Stand-ins for programs, as small shell scripts."""

from pathlib import Path


def write_programs(folder: Path, programs: dict[str, str], start: str = "#!/bin/sh") -> Path:
    """Write an executable for each name with its body; returns the folder, for PATH."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, body in programs.items():
        (folder / name).write_text(f"{start}\n{body}\n")
        (folder / name).chmod(0o755)
    return folder
