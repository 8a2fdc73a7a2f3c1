"""The script looks for files next to itself, but slurmd runs a copy of it.

## What it checks
Checks for `dirname "$0"`, `${BASH_SOURCE[0]}`, `realpath "$0"` and the like in a script with directives for
sbatch. A branch that depends on a variable of Slurm is not reported.

## Why it matters
sbatch copies the script to the spool directory of slurmd, such as /var/spool/slurmd/job123/slurm_script. `$0`
is the path of this copy: files and directories next to the original script are not found.

## Example
    source "$(dirname "$0")/setup.sh"

## Use instead
    source "$SLURM_SUBMIT_DIR/setup.sh"

`scontrol show job "$SLURM_JOB_ID"` prints the path of the original script as Command.

## When to ignore
If the script is run with bash or srun only, and never by sbatch.

## Reference
https://slurm.schedmd.com/sbatch.html (SLURM_SUBMIT_DIR) ; https://slurm.schedmd.com/slurm.conf.html
(SlurmdSpoolDir)
"""

import re
from collections.abc import Iterator

from slurmgen.lint.finding import Finding, Site
from slurmgen.lint.reader import Script, Span

CODE = "SG517"
SEVERITY = "warning"
SUMMARY = "the path of the running script is in the spool directory of slurmd"

_SELF = r"['\"]?\$(?:0\b|\{0\}|\{?BASH_SOURCE\b(?:\[0\]|\})*)"
_FOLDER = re.compile(
    rf"\b(?:dirname|readlink|realpath)\b[^|;)`\n]{{0,40}}?{_SELF}|\$\{{(?:0|BASH_SOURCE(?:\[0\])?)%/\*\}}"
)


_DEFAULT = re.compile(r"\$\{SLURM_\w+:?-[^}]*$")
"The default of a variable that Slurm sets, so that no job uses it."


def check(script: Script, _site: Site | None) -> Iterator[Finding]:
    """Report the first place, unless a condition on a variable of Slurm guards it."""
    if not script.header.directives or "Command=" in script.source.plain:
        return
    guarded = [c.span for c in script.commands if any("SLURM" in text for text in c.conditions)]
    guarded += [command.span for command in script.shell.outside]
    for found in _FOLDER.finditer(script.source.plain, script.header.end):
        text = script.source.plain
        before = text[text.rfind("\n", 0, found.start()) + 1 : found.start()]
        is_guarded = any(span.start <= found.start() < span.end for span in guarded)
        is_guarded = is_guarded or bool(_DEFAULT.search(before))
        if "#" not in before and not is_guarded and not before.lstrip().startswith(("echo", "printf")):
            yield Finding(
                Span(found.start(), found.end()),
                "sbatch runs a copy of the script in the spool directory of slurmd, not the file itself",
                "write `$SLURM_SUBMIT_DIR`, or the path",
            )
            return
