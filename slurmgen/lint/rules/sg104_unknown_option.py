"""A directive has an unknown or ambiguous option.

## What it checks
Checks for option names that closely resemble a real one, and for abbreviations that match several options. A
name that resembles no option is not reported: it may belong to a plug-in of the site. Options of srun are
checked for underscores instead of dashes.

## Why it matters
sbatch rejects the script at submission; srun ends with an error.

## Example
    #SBATCH --cpu-per-task=8
    #SBATCH --ntask=4

## Use instead
    #SBATCH --cpus-per-task=8
    #SBATCH --ntasks=4

## When to ignore
If the option belongs to a plug-in of the site.

## Reference
https://slurm.schedmd.com/sbatch.html
"""

from collections.abc import Iterator

from slurmgen.lint.finding import Edit, Finding, Site
from slurmgen.lint.reader import Script, Span
from slurmgen.lint.reader.header import Directive
from slurmgen.lint.rules.common import steps
from slurmgen.slurm.getopt import SBATCH, SRUN

CODE = "SG104"
SEVERITY = "error"
SUMMARY = "the option does not exist or is ambiguous"
_CLEARLY = 0.03
"The difference of two ratios of difflib: `cpu-per-task` is 0.96 from cpus-per-task, 0.88 from gpus-per-task."


def check(script: Script, _site: Site | None) -> Iterator[Finding]:
    """Check every option that does not match exactly one known option."""
    for directive in script.header.directives:
        option = directive.option
        if len(option.matches) > 1:
            yield Finding(
                _name(directive),
                f"{option.written} is ambiguous: it matches --{', --'.join(option.matches)}",
                "write the full option name",
            )
        elif not option.matches and (close := _close_names(directive)):
            edit = Edit(_name(directive), f"--{close[0]}")
            yield Finding(
                _name(directive),
                f"sbatch has no option {option.written} and rejects the script",
                f"write `--{close[0]}`",
                (edit,) if _is_clear(directive.name, close) else (),
                safe=True,
            )

    yield from _underscores(script)


def _underscores(script: Script) -> Iterator[Finding]:
    """The options of srun that are written with underscores."""
    for launch in steps(script):
        for name, given in launch.step.options.given.items() if launch.step else ():
            dashed = name.replace("_", "-")
            if name not in SRUN.names and dashed in SRUN.names:
                yield Finding(
                    given.word.span, f"srun has no option --{name}, and fails", f"write `--{dashed}`"
                )


def _is_clear(name: str, close: list[str]) -> bool:
    """Whether the first of two real options is closer to a name than the other."""
    from difflib import SequenceMatcher

    ratios = [SequenceMatcher(None, name, other).ratio() for other in close]
    return len(ratios) == 1 or ratios[0] - ratios[1] > _CLEARLY


def _name(directive: Directive) -> Span:
    return Span(directive.span.start, directive.span.start + len(directive.option.written))


def _close_names(directive: Directive) -> list[str]:
    from difflib import get_close_matches  # needed only for a finding

    if not directive.option.written.startswith("--"):
        return []
    if (dashed := directive.name.replace("_", "-")) in SBATCH.names:
        return [dashed]
    return get_close_matches(directive.name, SBATCH.names, n=2, cutoff=0.85)
