"""The file does not begin with `#!`.

## What it finds
A script whose first line names no interpreter.

## Why it is bad
sbatch refuses it: "This does not look like a batch script".

## Example
    #SBATCH --nodes=1
    srun python train.py

## Use instead
    #!/bin/bash
    #SBATCH --nodes=1
    srun python train.py

## Reference
https://slurm.schedmd.com/sbatch.html
"""

from collections.abc import Iterator

from slurmgen.lint.finding import Edit, Finding, Site
from slurmgen.lint.reader import Script, Span

CODE = "SG101"
SEVERITY = "error"
SUMMARY = "the file does not begin with #!"


def check(script: Script, _site: Site | None) -> Iterator[Finding]:
    """Look at the first two characters."""
    if not script.source.text.startswith("#!"):
        yield Finding(
            Span(0, len(script.first_line)),
            "the first line names no interpreter, so sbatch refuses the file",
            "begin it with `#!/bin/bash`",
            (Edit(Span(0, 0), "#!/bin/bash\n"),),
        )
