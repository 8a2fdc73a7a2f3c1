"""Measures the linter on public batch scripts, which this repository names but does not contain.

    python benchmarks/lint_public.py fetch FOLDER      download the scripts that are still available
    python benchmarks/lint_public.py measure FOLDER    precision and recall by rule, the speed, and the fixes

`lint_public.toml` gives for each script its address, the faults that a reader labelled before the
linter ran, and the findings that a reader accepted afterwards. Recall counts the labels only. `folders`
are those of its repository that its header names.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parent.parent))

from slurmgen.lint import Report, all_rules, fix, lint_text

HERE = Path(__file__).parent
TABLE = tomllib.loads((HERE / "lint_public.toml").read_text())
RULES: dict[str, list[str]] = TABLE["rules"]
"The rules that report each label; no rule for labels that the linter does not know."
ADDRESS = "https://raw.githubusercontent.com/{repository}/{commit}/{path}"
TIMEOUT = 30  # seconds


class Sample(NamedTuple):
    """A script with the codes of the labelled faults and of the findings accepted later."""

    path: Path
    labels: frozenset[str]
    accepted: frozenset[str]

    @property
    def name(self) -> str:
        """The id of the script."""
        return self.path.parent.name

    @property
    def text(self) -> str:
        """The script."""
        return self.path.read_bytes().decode()

    @property
    def right(self) -> frozenset[str]:
        """The codes of all correct findings."""
        return self.accepted.union(*(RULES[label] for label in self.labels))

    def reports(self) -> tuple[Report, ...]:
        """The findings of the rules that are on by default."""
        return lint_text(self.text, path=self.path)


def fetch(folder: Path) -> int:
    """Download every script into `folder` and check its hash."""
    missing = 0
    for entry in TABLE["script"]:
        try:
            with urllib.request.urlopen(ADDRESS.format(**entry), timeout=TIMEOUT) as reply:  # noqa: S310
                data = reply.read()
        except (urllib.error.URLError, TimeoutError) as error:
            print(f"{entry['repository']} {entry['path']}: {error}", file=sys.stderr)
            missing += 1
            continue
        if hashlib.sha256(data).hexdigest() == entry["sha256"]:
            store(folder, entry, data)
        else:
            print(f"{entry['repository']} {entry['path']}: not the labelled text", file=sys.stderr)
            missing += 1
    print(f"{len(TABLE['script']) - missing} of {len(TABLE['script'])} scripts are in {folder}")
    return int(missing > 0)


def store(folder: Path, entry: dict[str, Any], data: bytes) -> None:
    """Write a script and the folders of its repository that it needs."""
    path = place(folder, entry)
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(data)
    for name in entry.get("folders", ()):
        (path.parent / name).mkdir(exist_ok=True)


def place(folder: Path, entry: dict[str, Any]) -> Path:
    """Where a script is: a folder of its own, since rules look beside the script."""
    return folder / f"{entry['id']:03}" / "job.sbatch"


def samples(folder: Path) -> list[Sample]:
    """The scripts in `folder`."""
    return [
        Sample(path, frozenset(entry["labels"]), frozenset(entry.get("accepted", ())))
        for entry in TABLE["script"]
        if (path := place(folder, entry)).exists()
    ]


def measure(folder: Path) -> int:
    """Print the accuracy by level and by label, the speed, and the faults of fixes; 1 if a fix is faulty."""
    scripts = samples(folder)
    print_precision(scripts)
    print_recall(scripts)
    print_speed(scripts)
    faults = [fault for script in scripts for fault in fix_faults(script)]
    print(f"\nfixes: {len(faults)} faults")
    print(*faults, sep="\n")
    return int(bool(faults))


def print_precision(scripts: list[Sample]) -> None:
    """Print the share of findings that are right, by level, and every wrong one."""
    right: Counter[str] = Counter()
    wrong: Counter[str] = Counter()
    spoiled = set()
    for script in scripts:
        for code in dict.fromkeys(report.rule.code for report in script.reports()):
            is_right = code in script.right
            (right if is_right else wrong)[all_rules()[code].severity] += 1
            if not is_right:
                spoiled.add(script.name)
                print(f"wrong: {script.name} {code}")
    for level in sorted(right | wrong):
        print(f"precision of {level}s: {share(right[level], wrong[level])}")
    print(f"precision: {share(right.total(), wrong.total())}")
    print(f"scripts with a wrong finding: {len(spoiled)} of {len(scripts)}")


def print_recall(scripts: list[Sample]) -> None:
    """Print the share of labels that a rule reports, by label, and every missed one."""
    found: Counter[str] = Counter()
    missed: Counter[str] = Counter()
    for script in scripts:
        codes = {report.rule.code for report in script.reports()}
        for label in script.labels:
            hit = not codes.isdisjoint(RULES[label])
            (found if hit else missed)[label] += 1
            if not hit:
                print(f"missed: {script.name} {label}")
    known = [label for label in found | missed if RULES[label]]
    for label in sorted(found | missed):
        print(f"recall of {label}: {share(found[label], missed[label])}")
    print(f"recall: {share(found.total(), missed.total())}")
    hits, misses = (sum(counts[label] for label in known) for counts in (found, missed))
    print(f"recall of the labels that have a rule: {share(hits, misses)}")


def print_speed(scripts: list[Sample]) -> None:
    """Print how many scripts one core checks in a second, with the time of the processes that it starts."""
    texts = [(script.text, script.path) for script in scripts]
    before = cpu_seconds()
    for text, path in texts:
        lint_text(text, path=path)
    seconds = cpu_seconds() - before
    if seconds:
        print(f"speed: {len(texts) / seconds:.0f} scripts per second of CPU time")


def cpu_seconds() -> float:
    """The CPU time of this process and of those that it started and that ended."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def share(part: int, rest: int) -> str:
    """`part` of the sum as a ratio."""
    return f"{part / (part + rest):.3f} ({part} of {part + rest})" if part + rest else "none"


def fix_faults(script: Sample) -> Iterator[str]:
    """What is wrong with the safe fixes of a script, and with all of its fixes."""
    for options in ((), ("--unsafe-fixes",)):
        fixed = fix(script.text, path=script.path, unsafe=bool(options)).text
        name = " ".join([script.name, *options])
        new = codes_of(lint_text(fixed, path=script.path)) - codes_of(script.reports())
        if new:
            yield f"{name}: fixing adds {', '.join(sorted(new))}"
        if parses(script.text) and not parses(fixed):
            yield f"{name}: bash does not parse the fixed script"
        if fixed != script.text:
            yield from (f"{name}: {fault}" for fault in patch_faults(script, fixed, options))


def codes_of(reports: Iterable[Report]) -> set[str]:
    """The codes of findings."""
    return {report.rule.code for report in reports}


def parses(text: str) -> bool:
    """Whether bash accepts the syntax."""
    return subprocess.run(["bash", "-n"], input=text.encode(), capture_output=True).returncode == 0


def patch_faults(script: Sample, fixed: str, options: Iterable[str]) -> Iterator[str]:
    """What is wrong with the output of `--diff`, and with what `--fix` writes."""
    with tempfile.TemporaryDirectory() as name:
        copy = Path(name) / script.path.name
        # Rules look for folders beside the script.
        shutil.copytree(script.path.parent, name, dirs_exist_ok=True)
        lint = [sys.executable, "-m", "slurmgen", "lint", *options, copy.name]
        patch = subprocess.run([*lint, "--diff"], cwd=name, capture_output=True, check=False).stdout
        done = subprocess.run(["git", "apply", "-"], cwd=name, input=patch, capture_output=True)
        if done.returncode or copy.read_bytes().decode() != fixed:
            yield "git does not apply the patch of --diff"
        copy.write_bytes(script.path.read_bytes())
        subprocess.run([*lint, "--fix"], cwd=name, capture_output=True, check=False)
        if copy.read_bytes().decode() != fixed:
            yield "--fix writes another script"


if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[1] not in ("fetch", "measure"):
        sys.exit(__doc__)
    target = Path(sys.argv[2])
    target.mkdir(parents=True, exist_ok=True)
    sys.exit({"fetch": fetch, "measure": measure}[sys.argv[1]](target))
