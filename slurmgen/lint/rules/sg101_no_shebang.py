"""The file does not start with `#!`.

## What it checks
Checks that the first line of the script names an interpreter.

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

CODE = "SG101"
SEVERITY = "error"
SUMMARY = "the file does not start with #!"


def check(script: Script, _site: Site | None) -> Iterator[Finding]:
    """Check the first two characters."""
    if not script.source.text.startswith("#!"):
        yield Finding(
            Span(0, len(script.first_line)),
            "the first line does not start with #!, so sbatch rejects the file",
            "insert `#!/bin/bash` as the first line",
            (Edit(Span(0, 0), "#!/bin/bash\n"),),
            safe=True,
        )
