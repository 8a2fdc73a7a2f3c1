"""Faults of the file as a whole: its encoding, its first line, its scheduler, its syntax."""

import re
from collections.abc import Iterator

from slurmgen.lint.finding import Edit, Finding, rule
from slurmgen.lint.reader import Script, Span
from slurmgen.lint.reader.source import BYTE_ORDER_MARK
from slurmgen.text import counted


@rule("SG101", "error")
def no_shebang(script: Script) -> Iterator[Finding]:
    """The file does not start with `#!`.

    ## What it checks
    Checks that the first line of the script names an interpreter, and that no byte order mark precedes it. Of
    a file in UTF-16 nothing else is checked.

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
    """
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


@rule("SG102", "error")
def dos_line_ends(script: Script) -> Iterator[Finding]:
    """The script has Windows line endings.

    ## What it checks
    Checks for carriage returns at the ends of lines.

    ## Why it matters
    sbatch rejects the file: "Batch script contains DOS line breaks".

    ## Example
        #!/bin/bash\\r\\n

    ## Use instead
        #!/bin/bash\\n

    ## When to ignore
    Never: sbatch rejects the file.
    """
    places = [match.start() for match in re.finditer("\r\n", script.source.text)]
    if places:
        yield Finding(
            Span(places[0], places[0] + 1),
            f"{counted(len(places), 'line')} with Windows line endings, so sbatch rejects the file",
            "convert the file to Unix line endings, for example with `dos2unix`",
            tuple(Edit(Span(at, at + 1), "") for at in places),
            safe=True,
        )


@rule("SG119", "error")
def other_scheduler(script: Script) -> Iterator[Finding]:
    """The script is for another scheduler.

    ## What it checks
    Checks for directives of PBS, Grid Engine, LSF, Flux and other schedulers in a script without `#SBATCH`
    lines. No other rule applies to such a script.

    ## Why it matters
    The job gets none of the resources that the directives request. sbatch translates some of those of PBS,
    but not the variables of PBS that the commands use.

    ## Example
        #PBS -l select=2:ngpus=4

    ## Use instead
        #SBATCH --nodes=2
        #SBATCH --gpus-per-node=4

    ## When to ignore
    If the script is submitted to that scheduler.

    ## Reference
    https://slurm.schedmd.com/rosetta.pdf
    """
    if script.other_scheduler:
        name, span = script.other_scheduler
        yield Finding(
            span,
            f"the script is for {name}: it has no #SBATCH line",
            f"write its directives for Slurm, or submit it to {name}",
        )


@rule("SG518", "error")
def unparsable(script: Script) -> Iterator[Finding]:
    """The shell cannot parse the script.

    ## What it checks
    If the commands do not fit the grammar of bash, asks `bash -n`, which runs none of them. The rules about
    commands do not apply to a script that bash cannot parse.

    ## Why it matters
    The job runs up to the fault, often only to the end of the header, and fails there.

    ## Example
        if [ -d data ]; then
          srun python train.py

    ## Use instead
        if [ -d data ]; then
          srun python train.py
        fi

    ## When to ignore
    In a template that is filled in before it is submitted.

    ## Reference
    https://www.gnu.org/software/bash/manual/html_node/The-Set-Builtin.html (-n)
    """
    if fault := script.shell.fault:
        line = min(fault.line, len(script.source.line_starts))
        span = script.source.line_span(script.source.line_starts[line - 1])
        yield Finding(
            span._replace(end=max(span.start, span.end - 1)),
            f"bash cannot parse the script: {fault.message}",
            "close each quote, bracket and block, and check the script with `bash -n`",
        )


@rule("SG801", "error")
def too_large(script: Script) -> Iterator[Finding]:
    """The script is too large to be checked completely.

    ## What it checks
    Checks for scripts with more than about 20,000 commands, with commands nested or chained more than 50
    deep, or with strings, arrays and functions that expand to as much. Only the `#SBATCH` lines of such a
    script are checked. Also reported if a rule has more than 1,000 findings, of which only the first 1,000
    are reported.

    ## Why it matters
    The other rules do not check the rest of the script, so the absence of findings does not mean that it is
    correct.

    ## Example
        f1() { f2; f2; f2; f2; f2; f2; f2; f2; f2; f2; }
        f2() { f3; f3; f3; f3; f3; f3; f3; f3; f3; f3; }
        f3() { f4; f4; f4; f4; f4; f4; f4; f4; f4; f4; }
        f4() { f5; f5; f5; f5; f5; f5; f5; f5; f5; f5; }
        f5() { date; date; date; date; date; date; date; date; date; date; }
        f1

    ## Use instead
        for i in $(seq 100000); do date; done

    ## When to ignore
    If the remainder of the script is generated and known to be correct.

    ## Reference
    https://github.com/tree-sitter/tree-sitter/issues/4019
    """
    if script.budget.exhausted:
        yield Finding(
            Span(0, len(script.first_line)),
            "the script is too large or too deeply nested to be checked completely",
            "move generated commands to another file, or check the script manually and add `--ignore SG801`",
        )
