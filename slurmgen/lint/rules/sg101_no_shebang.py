"""The file does not start with `#!`.

## What it checks
Checks that the first line of the script names an interpreter, and that no byte order mark precedes it. Of a
file in UTF-16 nothing else is checked.

## Why it matters
sbatch rejects the file: "This does not look like a batch script".

## Example
    #SBATCH --nodes=1
    srun python train.py

## Use instead
    #!/bin/bash
    #SBATCH --nodes=1
    srun python train.py

## When to ignore
If the file is not submitted, but sourced by another script.

## Reference
https://slurm.schedmd.com/sbatch.html
"""

from collections.abc import Iterator

from slurmgen.lint.finding import Edit, Finding, Site
from slurmgen.lint.reader import Script, Span
from slurmgen.lint.reader.source import BYTE_ORDER_MARK

CODE = "SG101"
SEVERITY = "error"
SUMMARY = "the file does not start with #!"


def check(script: Script, _site: Site | None) -> Iterator[Finding]:
    """Check the first characters."""
    line, mark = Span(0, len(script.first_line)), Span(0, len(BYTE_ORDER_MARK))
    has_mark = script.source.text.startswith(BYTE_ORDER_MARK)
    if script.source.is_utf16:
        yield Finding(line, "the file is encoded in UTF-16, so sbatch rejects it", "save it as UTF-8")
    elif not script.source.text.removeprefix(BYTE_ORDER_MARK).startswith("#!"):
        yield Finding(
            line,
            "the first line does not start with #!, so sbatch rejects the file",
            "insert `#!/bin/bash` as the first line",
            (Edit(mark if has_mark else Span(0, 0), "#!/bin/bash\n"),),
            safe=True,
        )
    elif has_mark:
        yield Finding(
            line,
            "a byte order mark precedes #!, so sbatch rejects the file",
            "save it as UTF-8 without a byte order mark",
            (Edit(mark, ""),),
            safe=True,
        )
