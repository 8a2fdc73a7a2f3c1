"""What the profile of a site says about the job; these rules need a site."""

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from slurmgen.errors import did_you_mean
from slurmgen.lint.finding import Edit, Finding, Site, site_rule
from slurmgen.lint.reader import Launch, Script, Span
from slurmgen.lint.reader.header import Directive
from slurmgen.lint.rules.common import loads_module
from slurmgen.lint.rules.requests import MEMORY_OPTIONS, megabytes, seconds
from slurmgen.slurm import units
from slurmgen.text import counted

if TYPE_CHECKING:
    from slurmgen.sites.nodes import Place, Settings

_GPU_OPTIONS = ("gres", "gpus-per-node", "gpus", "gpus-per-task")


def place(script: Script, site: Site) -> "Place":
    """The node that the job gets and the limits that apply to it, according to the site's profile."""
    from slurmgen.sites.nodes import place_of  # takes 20 ms, which a run without a site does not need

    header = script.header
    with_gpus = script.job.has_gpus or site.gpu.request == "none"  # whose jobs do not ask for GPUs
    return place_of(
        site, header.value("partition"), gpu_type(script, site), header.value("qos"), with_gpus=with_gpus
    )


def settings(script: Script, site: Site, launch: Launch | None = None) -> "Settings":
    """What the site's profile sets for the job; `launch` starts its ranks."""
    from slurmgen.sites.nodes import Shape, settings_of

    job = script.job
    nodes = job.nodes or 1
    gpus = job.gpus_per_node or (job.gpus or 0) // nodes or int(job.has_gpus)  # one at least
    container = launch is not None and any(launch.under(kind) for kind in ("apptainer", "podman", "shifter"))
    shape = Shape(nodes, gpus, gpus > 1 and job.ntasks_per_node == gpus, container)
    return settings_of(site, place(script, site), shape)


def gpu_type(script: Script, site: Site) -> str | None:
    """The GPU type that the job requests, else the type whose constraint it names."""
    constraint = script.header.value("constraint") or ""
    words = re.split(r"[^\w.+-]+", constraint)
    by_constraint = (name for name, kind in site.gpu.types.items() if kind.constraint in words)
    return script.job.gpu_type or next(by_constraint, None)


def span_of(script: Script, *options: str) -> Span:
    """Where the header sets the first of these options that it sets; the first line if it sets none."""
    found = script.header.last(*options)
    return found.span if found else Span(0, len(script.first_line))


@site_rule("SG901", "error")
def site_partition(script: Script, site: Site) -> Iterator[Finding]:
    """The site has no such partition, or the partition has no GPUs.

    ## What it checks
    With `--site`: checks for a partition that the site does not have, if its profile says that its list of
    partitions is complete, and for a GPU job in a partition without GPUs.

    ## Why it matters
    sbatch rejects the job, or the job stays pending forever.

    ## Example
        #SBATCH --partition=gpu          # on Olivia

    ## Use instead
        #SBATCH --partition=accel

    ## When to ignore
    If the profile of the site is out of date.
    """
    directive = script.header.last("partition")
    if not directive or not directive.value or "$" in directive.value or not site.partitions:
        return
    from slurmgen.sites.nodes import gpu_partitions, partitions_of  # takes 20 ms; not needed without a site

    useful = gpu_partitions(site) if script.job.has_gpus else site.partitions
    for name in partitions_of(site, directive.value):
        if name not in site.partitions and "partitions" in site.complete:
            fact = f"{site.name} has no partition {name!r}"
            yield Finding(directive.value_span, fact, did_you_mean(name, useful))
            return  # one finding at a place
        elif script.job.has_gpus and name in site.partitions and not site.partitions[name].has_gpus:
            advice = f"use {' or '.join(f'`--partition={name}`' for name in useful)}" if useful else ""
            fact = f"partition {name} of {site.name} has no GPUs"
            yield Finding(directive.value_span, fact, advice)


@site_rule("SG902", "error")
def site_account(script: Script, site: Site) -> Iterator[Finding]:
    """The site requires an account.

    ## What it checks
    With `--site`: checks for a header without `--account`, if the site's profile requires one.

    ## Why it matters
    sbatch rejects the job, or charges it to your default account.

    ## Example
        #SBATCH --partition=all          # on DAIC

    ## Use instead
        #SBATCH --partition=all
        #SBATCH --account=ewi-insy-prb

    ## When to ignore
    If your user has a default account.
    """
    if site.account.required and script.header.directives and not script.header.last("account"):
        hint = f" {site.account.hint}" if site.account.hint else ""
        span = Span(0, len(script.first_line))
        yield Finding(span, f"{site.name} requires an account", f"add `#SBATCH --account=NAME`.{hint}")


@site_rule("SG903", "error")
def site_time(script: Script, site: Site) -> Iterator[Finding]:
    """The time limit exceeds the maximum of the site.

    ## What it checks
    With `--site`: compares `--time` with the limits of the partition and of the QOS.

    ## Why it matters
    sbatch rejects the job, or the job stays pending forever with the reason PartitionTimeLimit.

    ## Example
        #SBATCH --qos=devel
        #SBATCH --time=12:00:00          # on Olivia, where devel has a limit of two hours

    ## Use instead
        #SBATCH --qos=devel
        #SBATCH --time=02:00:00

    ## When to ignore
    If a reservation or a QOS extends the limit.
    """
    directive = script.header.last("time")
    requested = seconds(directive.value) if directive else None
    if directive is None or requested is None:
        return
    for name, limit in place(script, site).limits.items():
        longest = limit.time_for(script.job.nodes or 1)
        if (most := units.time_limit(longest)) is not None and requested > most:
            yield Finding(
                directive.value_span,
                f"--time={directive.value} exceeds the limit of {name} on {site.name}: {longest}",
                f"request at most `--time={longest}`",
            )


@site_rule("SG904", "error")
def site_gpus(script: Script, site: Site) -> Iterator[Finding]:
    """The job requests more GPUs or nodes than the site allows.

    ## What it checks
    With `--site`: checks for more GPUs per node than the nodes have, and for more GPUs or nodes in total than
    the partition or the QOS allows for a job.

    ## Why it matters
    sbatch rejects the job, or the job stays pending forever.

    ## Example
        #SBATCH --gres=gpu:8             # on a site with 4 GPUs per node

    ## Use instead
        #SBATCH --nodes=2
        #SBATCH --gres=gpu:4

    ## When to ignore
    If the profile of the site is out of date.
    """
    job, available = script.job, place(script, site).node.gpus
    if job.gpus_per_node and available and job.gpus_per_node > available:
        yield Finding(
            span_of(script, *_GPU_OPTIONS),
            f"the job requests {job.gpus_per_node} GPUs per node, but a node of {site.name} has {available}",
            f"request at most {available} GPUs per node, on more nodes",
        )
    for name, limit in place(script, site).limits.items():
        counts = (("GPUs", job.gpus, limit.max_gpus), ("nodes", job.nodes, limit.max_nodes))
        for what, requested, most in counts:
            if requested and most and requested > most:
                yield Finding(
                    span_of(script, "nodes", "gpus", "gres"),
                    f"the job requests {requested} {what}, but {name} of {site.name} allows {most} per job",
                    f"request at most {most} {what}",
                )


@site_rule("SG905", "error")
def site_gpu_type(script: Script, site: Site) -> Iterator[Finding]:
    """The GPU type does not exist on the site, or is missing.

    ## What it checks
    With `--site`: checks for a GPU type that the site does not have, if its profile says that its list of
    types is complete, and for a missing GPU type if the site requires one.

    ## Why it matters
    sbatch rejects the job: "Requested node configuration is not available".

    ## Example
        #SBATCH --gres=gpu:h100:2        # on DAIC

    ## Use instead
        #SBATCH --gres=gpu:a40:2

    ## When to ignore
    If the profile of the site is out of date.
    """
    directive = script.header.last(*_GPU_OPTIONS)
    if directive is None or not script.job.gpus_per_node:
        return
    kind, types = gpu_type(script, site), site.gpu.types
    if kind and types and kind not in types and "gpu.types" in site.complete:
        fact = f"{site.name} has no GPU type {kind!r}"
        yield Finding(directive.value_span, fact, did_you_mean(kind, types))
    elif kind is None and site.gpu.type_required:
        advice = f"add a type: {', '.join(types)}"
        yield Finding(directive.value_span, f"{site.name} requires a GPU type", advice)


@site_rule("SG906", "error")
def site_memory(script: Script, site: Site) -> Iterator[Finding]:
    """The site does not accept this memory option, or has less memory per node.

    ## What it checks
    With `--site`: checks for any memory option if the site allocates memory by itself, for `--mem` if the
    site requires memory per CPU or per GPU, and for more memory than a node has.

    ## Why it matters
    sbatch rejects the job, or the job stays pending forever.

    ## Example
        #SBATCH --mem=2T                 # on a site whose nodes have 808G

    ## Use instead
        #SBATCH --mem=440G

    ## When to ignore
    If the profile of the site is out of date.

    ## Reference
    `slurmgen sites show NAME` ; bessagroup/f3dasm issue 352
    """
    for directive in script.header.directives:
        if directive.name in MEMORY_OPTIONS and (texts := _memory_texts(script, site, directive)):
            line = script.source.line_span(directive.span.start)
            alone = script.source.quote(line).strip() == f"#SBATCH {script.source.quote(directive.span)}"
            forbidden = site.memory.form == "none" and alone
            yield Finding(directive.span, *texts, (Edit(line, ""),) if forbidden else (), safe=True)


def _memory_texts(script: Script, site: Site, directive: Directive) -> tuple[str, str] | None:
    """The message and the advice for an option that the site does not accept."""
    form, node = site.memory.form, place(script, site).node
    most = node.memory
    if form == "none":
        return f"{site.name} allocates memory with the GPUs and accepts no memory option", "delete the option"
    if directive.name == "mem" and form not in ("mem", "optional"):
        size = (node.memory_per_gpu or site.memory.per_gpu) if form == "mem-per-gpu" else None
        return f"{site.name} requires --{form} instead of --mem", f"write `--{form}={size or 'SIZE'}`"
    if directive.name == "mem" and most and megabytes(directive.value) > units.megabytes(most):
        return (
            f"--mem={directive.value} exceeds the memory of a node of {site.name}: {most}",
            f"request at most `--mem={most}`",
        )
    return None


@site_rule("SG907", "error")
def site_cpus(script: Script, site: Site) -> Iterator[Finding]:
    """The site cannot allocate this number of CPUs.

    ## What it checks
    With `--site`: checks for CPUs per task that are not a multiple of the unit in which the site allocates
    CPUs, and for more CPUs per node than a node has.

    ## Why it matters
    The job is allocated more CPUs than its tasks use, or is rejected.

    ## Example
        #SBATCH --cpus-per-task=5        # on DAIC, which allocates CPUs in pairs

    ## Use instead
        #SBATCH --cpus-per-task=6

    ## When to ignore
    If the profile of the site is out of date.
    """
    directive, cpus = script.header.last("cpus-per-task"), script.job.cpus_per_task
    if directive is None or not cpus:
        return
    multiple, most = site.cpu.multiple_of, place(script, site).node.cpus
    on_node = cpus * (script.job.ntasks_per_node or 1)
    if cpus % multiple:
        yield Finding(
            directive.span,
            f"{site.name} allocates CPUs in multiples of {multiple}, not {cpus}",
            f"request `--cpus-per-task={cpus // multiple * multiple + multiple}`",
        )
    elif most and on_node > most:
        yield Finding(
            directive.span,
            f"the job requests {on_node} CPUs per node, but a node of {site.name} has {most}",
            f"request at most `--cpus-per-task={most // (script.job.ntasks_per_node or 1)}`",
        )


@site_rule("SG908", "warning")
def site_idle_cpus(script: Script, site: Site) -> Iterator[Finding]:
    """The job requests all GPUs of a node, but few of its CPUs.

    ## What it checks
    With `--site`, if the site's profile has a number of CPUs per GPU: checks for a job with all GPUs of a
    node and less than half of the CPUs that belong to them. Jobs with `--exclusive` are not reported.

    ## Why it matters
    GPU jobs of other users cannot use the remaining CPUs, because the node has no free GPUs. The data loaders
    of all ranks share the few CPUs of the job.

    ## Example
        #SBATCH --gpus=4
        #SBATCH --cpus-per-task=72       # on Olivia: 72 CPUs for each GPU

    ## Use instead
        #SBATCH --gpus=4
        #SBATCH --cpus-per-task=288

    ## When to ignore
    If the training needs few CPUs, and no other job could use the GPUs.
    """
    job, directive = script.job, script.header.last("cpus-per-task")
    if directive is None or script.header.last("exclusive"):
        return
    node = place(script, site).node
    gpus, per_gpu = node.gpus, node.cpus_per_gpu or site.cpu.per_gpu
    if not (gpus and per_gpu and job.gpus_per_node == gpus and job.cpus_per_task and job.ntasks_per_node):
        return
    used, belong = job.cpus_per_task * job.ntasks_per_node, gpus * per_gpu
    if used * 2 < belong:
        yield Finding(
            directive.span,
            f"the job has {used} of the {belong} CPUs that belong to {counted(gpus, 'GPU')} on {site.name}",
            f"request `--cpus-per-task={belong // job.ntasks_per_node}`",
        )


@site_rule("SG909", "error")
def site_environment(script: Script, site: Site) -> Iterator[Finding]:
    """A variable that the site requires is not set.

    ## What it checks
    With `--site`: checks that a script that starts Python or a launcher sets the environment variables that
    the site's profile requires of such a job: always, with several GPUs, with several nodes, or in a
    container. A script that sources a file, or loads a module whose name contains "nccl", is not reported:
    either may set them. SG911 reports the variables that the profile only recommends.

    ## Why it matters
    The profile gives the reason for each variable. For example, NCCL may hang between GPUs, or the network
    may corrupt data.

    ## Example
        srun python train.py             # two GPUs on DAIC

    ## Use instead
        export NCCL_P2P_DISABLE=1
        srun python train.py

    ## When to ignore
    If the environment of the user or a module sets the variables.
    """
    yield from _missing_variables(script, site, required=True)


def _missing_variables(script: Script, site: Site, required: bool) -> Iterator[Finding]:
    """Report the missing variables that the site's profile requires, or the others."""
    if not script.launches or script.shell.sourced or loads_module(script, "nccl"):
        return
    in_steps = (launch for launch in script.launches if launch.under("srun"))
    launch = next(in_steps, script.launches[0])
    missing = {
        name: value
        for name, value in _needed_variables(script, site, launch).items()
        if (name in site.env.required) is required and not _is_set(script, name)
    }
    if missing:
        from slurmgen.slurm.shell import word  # takes 20 ms; not needed without a site

        notes = " ".join(note for name in missing if (note := site.env.notes.get(name)))
        exports = [f"export {name}={word(value)}" for name, value in missing.items()]
        yield Finding(
            launch.span,
            f"{site.name} {'requires' if required else 'recommends'} {', '.join(missing)}. {notes}".rstrip(
                ". "
            )
            + ("." if notes else ""),
            f"add `{'; '.join(exports)}` before this line",
            _exports_before(script, launch, exports),
        )


def _needed_variables(script: Script, site: Site, launch: Launch) -> dict[str, str]:
    found = settings(script, site, launch).env
    return found | (site.env.container if launch.under("apptainer") is not None else {})


def _is_set(script: Script, name: str) -> bool:
    return any(script.sets(prefix + name) for prefix in ("", "APPTAINERENV_", "SINGULARITYENV_"))


def _exports_before(script: Script, launch: Launch, exports: list[str]) -> tuple[Edit, ...]:
    command = launch.command
    at = script.source.line_span(command.span.start).start
    in_front = script.source.plain[at : command.span.start].strip()
    if in_front or {"function", "pipe", "or", "and"} & set(command.place):
        return ()
    return (Edit(Span(at, at), "".join(f"{line}\n" for line in exports)),)


@site_rule("SG910", "error")
def site_refusal(script: Script, site: Site) -> Iterator[Finding]:
    """The site refuses the job.

    ## What it checks
    With `--site`: checks for sbatch options that the site refuses, and for combinations of nodes, GPUs,
    partition, QOS and GPU type that it refuses, as its profile states them.

    ## Why it matters
    sbatch rejects the job, or the site stops it.

    ## Example
        #SBATCH --gres=gpu:1             # on Vista, whose partitions bring the GPUs

    ## Use instead
        #SBATCH --nodes=1

    ## When to ignore
    Where the site no longer refuses this. Correct its profile then.
    """
    for option, reason in site.refused_options.items():
        if directive := script.header.last(option):
            yield Finding(directive.span, f"--{option} on {site.name}: {reason}", "leave the option out")
    if not script.job.gpus_per_node or _has_unknown_partition(script, site):
        return
    found = settings(script, site)
    where = span_of(script, "nodes", "partition", "gpus-per-node", "gres", "gpus", "gpus-per-task")
    for name, reason in found.refusals.items():
        advice = found.notes.get(name, "change the GPUs, nodes or partition of the job").rstrip(".")
        yield Finding(where, f"{site.name} refuses such a job: {reason}", advice)


def _has_unknown_partition(script: Script, site: Site) -> bool:
    """Whether the partition is not one of the site, which SG901 reports: its nodes are unknown."""
    named = script.header.value("partition")
    return bool(named and site.partitions and not site.partitions.keys() >= {*named.split(",")})


@site_rule("SG911", "note")
def site_recommends(script: Script, site: Site) -> Iterator[Finding]:
    """A variable that the site's profile recommends is not set.

    ## What it checks
    With `--site`: the same as SG909, for the variables that the profile sets without requiring them.

    ## Why it matters
    Such values come from a center's tutorials or from other users. Jobs run without them, often more slowly.
    The rule is opt-in, because the scripts of the centers themselves often lack them.

    ## Example
        srun python train.py             # on two nodes of LUMI

    ## Use instead
        export NCCL_SOCKET_IFNAME=hsn0,hsn1,hsn2,hsn3
        srun python train.py

    ## When to ignore
    If the environment of the user or a module sets the variables, or the job runs well without them.
    """
    yield from _missing_variables(script, site, required=False)
