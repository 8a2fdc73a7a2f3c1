"""`#SBATCH` lines that sbatch ignores, rejects or misreads."""

import re
from collections.abc import Iterator
from itertools import islice

from slurmgen.lint.finding import Edit, Finding, rule
from slurmgen.lint.reader import Script, Span
from slurmgen.lint.reader.header import Directive, split_words
from slurmgen.lint.rules.common import steps
from slurmgen.slurm import getopt
from slurmgen.slurm.getopt import SBATCH, SRUN


@rule("SG103", "error")
def directive_after_command(script: Script) -> Iterator[Finding]:
    """A `#SBATCH` line follows the first command.

    ## What it checks
    Checks for `#SBATCH` lines below the first line that is neither blank nor a comment.

    ## Why it matters
    sbatch stops reading options at the first command and ignores every later `#SBATCH` line without a
    warning. A `set -euo pipefail` above the header disables all of it.

    ## Example
        #!/bin/bash
        module load cuda
        #SBATCH --gres=gpu:4

    ## Use instead
        #!/bin/bash
        #SBATCH --gres=gpu:4
        module load cuda

    ## When to ignore
    If the lines belong to another script that this one writes or contains as text.

    ## Reference
    https://slurm.schedmd.com/sbatch.html ; NVIDIA-NeMo/Megatron-Bridge pull request 3068
    """
    comments = {span.start for span in script.shell.comments}
    first = script.source.shown_line(script.header.end)
    for span in script.header.late:
        if span.start in comments:
            yield Finding(
                span,
                f"sbatch ignores this line: the first command is on line {first}",
                "move the line above that command, or delete it",
            )


_CLEARLY = 0.03
"The difference of two ratios of difflib: `cpu-per-task` is 0.96 from cpus-per-task, 0.88 from gpus-per-task."


@rule("SG104", "error")
def unknown_option(script: Script) -> Iterator[Finding]:
    """A directive has an unknown or ambiguous option.

    ## What it checks
    Checks for option names that closely resemble a real one, and for abbreviations that match several
    options. A name that resembles no option is not reported: it may belong to a plug-in of the site. Options
    of srun are checked for underscores instead of dashes.

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
    """
    for directive in script.header.directives:
        option = directive.option
        if len(option.matches) > 1:
            yield Finding(
                _name_span(directive),
                f"{option.written} is ambiguous: it matches --{', --'.join(option.matches)}",
                "write the full option name",
            )
        elif not option.matches and (close := _close_names(directive)):
            edit = Edit(_name_span(directive), f"--{close[0]}")
            yield Finding(
                _name_span(directive),
                f"sbatch has no option {option.written} and rejects the script",
                f"write `--{close[0]}`",
                (edit,) if _is_clear(directive.name, close) else (),
                safe=True,
            )

    yield from _underscores(script)


def _underscores(script: Script) -> Iterator[Finding]:
    """The options of srun that are written with underscores."""
    for _, step in steps(script):
        for name, given in step.options.given.items():
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


def _name_span(directive: Directive) -> Span:
    return Span(directive.span.start, directive.span.start + len(directive.option.written))


def _close_names(directive: Directive) -> list[str]:
    from difflib import get_close_matches  # needed only for a finding

    if not directive.option.written.startswith("--"):
        return []
    if (dashed := directive.name.replace("_", "-")) in SBATCH.names:
        return [dashed]
    return get_close_matches(directive.name, SBATCH.names, n=2, cutoff=0.85)


@rule("SG105", "error")
def unreadable_directive(script: Script) -> Iterator[Finding]:
    """sbatch cannot parse a directive.

    ## What it checks
    Checks `#SBATCH` lines for words that belong to no option, for unclosed quotes, and for a colon after
    `#SBATCH`.

    ## Why it matters
    sbatch rejects the script: "Invalid directive found in batch script". Common causes are an unquoted value
    with spaces, spaces around `=`, and a hyphen that an editor replaced with a dash.

    ## Example
        #SBATCH --job-name my job
        #SBATCH --time = 01:00:00

    ## Use instead
        #SBATCH --job-name="my job"
        #SBATCH --time=01:00:00

    ## When to ignore
    Never: sbatch rejects the script.
    """
    for broken in script.header.broken:
        yield Finding(
            broken.span,
            f"sbatch rejects this line: {broken.why}",
            "write `#SBATCH --option=value`, and close every quote",
        )
    for span in script.header.strays:
        if not _follows_unknown_option(script, span):
            yield Finding(
                span,
                f"sbatch rejects the script: {script.source.quote(span)!r} belongs to no option",
                "write `--option=value`, and quote a value that contains spaces",
            )


def _follows_unknown_option(script: Script, span: Span) -> bool:
    """Whether the word follows an unknown option, which may be a plug-in's and may take a value."""
    before = [d for d in script.header.directives if d.span.end <= span.start]
    return bool(before) and not before[-1].option.matches


_MAY_BE_EMPTY = frozenset(
    """
    account chdir comment constraint dependency exclude job-name mail-user nodelist output qos reservation
    """.split()
)
"Slurm 22.05 runs a job with an empty value of these as one without the option."


@rule("SG106", "error")
def blank_value(script: Script) -> Iterator[Finding]:
    """A directive has no value.

    ## What it checks
    Checks for `--option=` with nothing after the equals sign, and for an option that requires a value but is
    the last word of the header or is followed by another option. Options that sbatch accepts without a value,
    such as `--mail-user=`, are not reported, nor templates of JUBE, such as `--nodes=#NODES#`.

    ## Why it matters
    sbatch rejects an empty partition, time, memory or number of nodes. Without the `=`, sbatch takes the next
    word of the header as the value, even from the next line.

    ## Example
        #SBATCH --partition=

    ## Use instead
        #SBATCH --partition=gpu

    ## When to ignore
    If a template fills in the value before the script is submitted.
    """
    for directive in script.header.directives:
        option = directive.option
        swallowed = option.at != option.value_at and directive.value.startswith("--")
        is_empty = option.value == "" and directive.name in SBATCH.names - _MAY_BE_EMPTY
        if option.lacks_value or swallowed or (is_empty and not _is_template(script, directive)):
            yield Finding(
                directive.span,
                f"{option.written} has no value",
                f"write `--{directive.name}=VALUE`, or delete the line",
            )


def _is_template(script: Script, directive: Directive) -> bool:
    return bool(re.match(r"#\w+#", script.source.plain[directive.span.end :]))


_EXPANSION = r"\$[A-Za-z_{(]|`"
_PLAIN_TEXT = ("comment", "wrap")


@rule("SG107", "error")
def variable_in_directive(script: Script) -> Iterator[Finding]:
    """A directive contains a shell variable.

    ## What it checks
    Checks the values of options for `$NAME`, `${NAME}`, `$(command)` and backticks. `--comment` and `--wrap`
    are not checked.

    ## Why it matters
    sbatch reads the header itself and expands nothing. A log is written to a file whose name contains a
    literal dollar sign, and a number is rejected.

    ## Example
        #SBATCH --output=$HOME/logs/%j.out

    ## Use instead
        #SBATCH --output=/home/me/logs/%j.out

    In file names, Slurm expands its own patterns, such as `%j`, `%x` and `%u`.

    ## When to ignore
    If a template expands the variable before the script is submitted.

    ## Reference
    https://slurm.schedmd.com/sbatch.html ; mila-iqia/mila-docs issue 6
    """
    for directive in script.header.directives:
        if re.search(_EXPANSION, directive.value) and directive.name not in _PLAIN_TEXT:
            yield Finding(
                directive.value_span,
                f"sbatch does not expand {directive.value!r}",
                "write the literal value; in a file name, use %j (job ID), %x (job name) or %u (user)",
            )


_GPUS = {"gres", "gpus", "gpus-per-node", "gpus-per-task"}
_TASKS = {"ntasks", "ntasks-per-node", "tasks-per-node"}
_CPUS = {"cpus-per-task", "cpus-per-gpu"}
_NEEDED = (_GPUS, _TASKS, _CPUS, {"nodes"}, {"time"}, {"partition"}, {"account"})
"Options that a job often needs, with those that replace each other."
_SPACED = re.compile(r"^(# +|#)S?BATCH (?=--?[A-Za-z])", re.MULTILINE | re.IGNORECASE)
_MISSPELT = re.compile(r"^#[A-Z]{5,7} (?=--?[A-Za-z])", re.MULTILINE)
_MOST = 1000
"Comments that are compared."
_SIMILAR = 0.7
"Similarity of a misspelt mark, from 0 to 1: #SBTACH, #SBACTH and #SBATH have more, #PRAGMA has less."


@rule("SG108", "warning")
def mark_misspelt(script: Script) -> Iterator[Finding]:
    """A line intended for sbatch does not start with `#SBATCH`.

    ## What it checks
    Checks the header for comments that look like directives, such as `# SBATCH --option` or `#BATCH
    --option`, and for commands named `SBATCH` or `!#SBATCH`. A directive that was disabled on purpose is not
    reported: one that starts with `##SBATCH`, a command line such as `# sbatch --time=5 job.sh`, one whose
    option another directive sets, or that a job does not need, such as `--mail-type`.

    ## Why it matters
    sbatch ignores the comment. `SBATCH` without the `#`, or with a `!` before it, is a command that does not
    exist, and sbatch ignores every directive after it.

    ## Example
        # SBATCH --gres=gpu:4
        SBATCH --signal=USR2@90

    ## Use instead
        #SBATCH --gres=gpu:4
        #SBATCH --signal=USR2@90

    ## When to ignore
    If the directive was disabled on purpose. `##SBATCH` shows this to the reader and to the linter.
    """
    for match in _marks(script):
        if not match[0].startswith("#SBATCH") and not _is_disabled(script, match):
            span = Span(match.start(), match.end() - 1)
            yield Finding(
                span, "sbatch treats this line as a comment", "write `#SBATCH`", (Edit(span, "#SBATCH"),)
            )
    for command in script.commands:
        if command.name == "SBATCH":
            yield _not_a_command(command.words[0].span, "SBATCH")
    for match in re.finditer(r"^!#\s*SBATCH\b", script.source.plain, re.MULTILINE):
        yield _not_a_command(Span(*match.span()), match[0])


def _marks(script: Script) -> Iterator[re.Match[str]]:
    """The comments of the header that look like directives."""
    text, end = script.source.plain, script.header.end
    yield from _SPACED.finditer(text, 0, end)
    for match in islice(_MISSPELT.finditer(text, 0, end), _MOST):
        from difflib import SequenceMatcher  # needed only for a finding

        if "BATCH" not in match[0] and SequenceMatcher(None, match[0].strip(), "#SBATCH").ratio() > _SIMILAR:
            yield match


def _not_a_command(span: Span, name: str) -> Finding:
    return Finding(
        span,
        f"{name} is a command that does not exist, and sbatch ignores the directives after it",
        "write `#SBATCH`, above the first command",
    )


def _is_disabled(script: Script, match: re.Match[str]) -> bool:
    """Whether a directive was probably disabled on purpose: it is not needed, or another one replaces it."""
    if match[0].replace(" ", "").upper() != "#SBATCH":
        return False
    line = script.source.plain[match.end() : script.source.line_span(match.end()).end]
    words = [word for word, _, _ in split_words(line)[0]]
    options, end = getopt.parse(words, getopt.SBATCH)
    if "sbatch" in match[0] and end < len(words):
        return True  # a command line, with the script that it submits
    if not script.header.directives and options and match[0].startswith(("# SBATCH", "#SBATCH")):
        return False
    given = {directive.name for directive in script.header.directives}
    return not any(option.name in group and not given & group for option in options for group in _NEEDED)


_FILLED_IN = ("account", "partition", "qos", "reservation", "constraint")
_THINGS = r"(account|project|partition|queue|qos|group|allocation|name|reservation)"
_PLACEHOLDER = re.compile(
    r"<[^>]*>|\[[A-Za-z _-]+\]|x{1,2}|(\w*[-_])?x{3,}\w*|xyz(@\w+)?|todo|fixme|placeholder|example|foo|bar"
    r"|.*\b(change|replace|fill)[-_ ]?(me|this|in)\b.*"
    rf"|(.*[-_ ])?your?[-_ ]?(\w*[-_ ])?{_THINGS}\w*"
    r"|(account|project|partition|queue|qos)([-_]?(name|here|id|number|code|billing[-_]group))?"
    r"|(def|rrg|aip)-(some\w+|supervisor|sponsor|user(name)?|pi|prof)",
    re.IGNORECASE,
)


@rule("SG115", "error")
def placeholder(script: Script) -> Iterator[Finding]:
    """A directive contains a placeholder that was not filled in.

    ## What it checks
    Checks the account, partition, QOS, reservation and constraint for values such as `<your-account>`,
    `YOUR_PARTITION` or `CHANGEME`.

    ## Why it matters
    sbatch rejects a partition that does not exist, and on most clusters also such an account.

    ## Example
        #SBATCH --account=<your-account>

    ## Use instead
        #SBATCH --account=nn1234k

    ## When to ignore
    In an example or a template that is filled in before it is submitted.
    """
    for directive in script.header.directives:
        if directive.name in _FILLED_IN and _PLACEHOLDER.fullmatch(directive.value.strip("'\"")):
            yield Finding(
                directive.value_span,
                f"{directive.value!r} looks like a placeholder",
                f"write the {directive.name} of your project",
            )


_REFUSED = frozenset("c m n N t".split())
"Letters whose values have a form that no name of an option has, so that sbatch rejects the script."


@rule("SG117", "error")
def one_dash(script: Script) -> Iterator[Finding]:
    """An option of sbatch is written with one dash, or a short one with `=`.

    ## What it checks
    Checks the header for long options with a single dash, such as `-nodes=2`, and for short options with an
    equals sign, such as `-N=2`.

    ## Why it matters
    sbatch takes the first letter as a short option and the rest of the word as its value: `-constraint=gpu`
    requests "onstraint=gpu" CPUs per task, and `-o=train.log` writes to the file "=train.log".

    ## Example
        #SBATCH -nodes=2
        #SBATCH -t=01:00:00

    ## Use instead
        #SBATCH --nodes=2
        #SBATCH -t 01:00:00

    ## When to ignore
    Never: sbatch reads another option or another value.
    """
    for directive in script.header.directives:
        word = directive.option.written + directive.value
        if is_misread(directive) and script.source.quote(directive.span) == word:
            name = word[1:].partition("=")[0]
            right = f"-{word}" if len(name) > 1 else f"-{name} {directive.value[1:]}"
            end = directive.span.start + (1 if len(name) > 1 else len("-N="))
            edit = Edit(Span(directive.span.start, end), "--" if len(name) > 1 else f"-{name} ")
            yield Finding(
                directive.span,
                f"sbatch reads {word} as {directive.option.written} with the value {directive.value!r}",
                f"write `{right}`",
                (edit,),
                safe=word[1] in _REFUSED,
            )


def is_misread(directive: Directive) -> bool:
    """Whether a short option and its value were meant as something else."""
    written, value = directive.option.written, directive.value
    if written.startswith("--"):
        return False
    name = (written[1:] + value).partition("=")[0]
    return value.startswith("=") or (len(name) > 2 and name in SBATCH.names)


_NUMBER = (r"0*[1-9]\d*", "a number from 1")
_SIZE = (r"\d+[KMGT]?B?", "a number with the unit K, M, G or T")
_NUMBERS = """
    ntasks cpus-per-task ntasks-per-node tasks-per-node ntasks-per-gpu ntasks-per-socket ntasks-per-core
    cpus-per-gpu cores-per-socket sockets-per-node threads-per-core mincpus
""".split()
_FORMS: dict[str, tuple[str, str]] = {
    **dict.fromkeys(_NUMBERS, _NUMBER),
    **dict.fromkeys(("mem", "mem-per-cpu", "mem-per-gpu"), _SIZE),
    # Newer releases take lists of node counts and steps, as in 2,4 and 2-8:2.
    "nodes": (r"\d[\dkKmM,:-]*", "a number, or a range such as 2-4"),
    "open-mode": (r"a(ppend)?|t(runcate)?", "append or truncate"),
    "signal": (r"([RB]+:)?[A-Z]*\d*(@\d{1,5})?", "a signal and seconds, such as USR1@90"),
    "gres": (r"[^=]*[^:=]|.*\(.*", "names with counts, such as gpu:2"),
}
"The pattern of values that some release takes, seen with sbatch 22.05, and what to write."


@rule("SG118", "error")
def refused_value(script: Script) -> Iterator[Finding]:
    """sbatch refuses the value of an option.

    ## What it checks
    Checks the values of options that are numbers, sizes of memory, signals, or one of a few words, such as
    `--nodes=N`, `--cpus-per-task=0`, `--mem=16GiB` or `--open-mode=add`, and options such as `--requeue=1`
    that take no value. SG110 checks times.

    ## Why it matters
    sbatch rejects the script, for example with "Invalid numeric value".

    ## Example
        #SBATCH --mem=16.5G
        #SBATCH --cpus-per-task=0

    ## Use instead
        #SBATCH --mem=16896M
        #SBATCH --cpus-per-task=8

    ## When to ignore
    Never: sbatch rejects the script. A template that is filled in before it is submitted is not a script.
    """
    for directive in script.header.directives:
        value, name = directive.value, directive.name
        if not value or "$" in value or is_misread(directive):
            continue
        pattern, form = _FORMS.get(name, ("", ""))
        if pattern and not re.fullmatch(pattern, value, re.IGNORECASE):
            yield Finding(directive.value_span, f"sbatch refuses {value!r} for --{name}", f"write {form}")
        elif name in SBATCH.flags:
            yield Finding(
                directive.span, f"--{name} takes no value, and sbatch refuses {value!r}", f"write `--{name}`"
            )
