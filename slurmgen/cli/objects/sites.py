"""Objects of the commands for sites and twins."""

from typing import Any, Literal

from msgspec import Struct


class SiteRow(Struct, frozen=True, kw_only=True):
    """One site."""

    name: str
    title: str
    "What the profile calls it; empty if the profile is not valid."
    path: str
    "The file of its profile."
    error: str
    "Why the profile is not valid, else empty."


class SiteList(Struct, frozen=True, kw_only=True):
    """All sites that slurmgen knows."""

    sites: list[SiteRow]


class ValidatedProfile(Struct, frozen=True, kw_only=True):
    """One profile."""

    path: str
    errors: list[str]
    warnings: list[str]
    "With --strict: facts that contradict each other, have no effect or no source."


class Validated(Struct, frozen=True, kw_only=True):
    """Profiles and their faults."""

    profiles: list[ValidatedProfile]


class NewProfile(Struct, frozen=True, kw_only=True):
    """A new profile."""

    name: str
    path: str
    errors: list[str]
    "What is wrong in it, until the open questions are answered."


class DiscoveredProfile(Struct, frozen=True, kw_only=True):
    """A profile from what a cluster reports."""

    name: str
    path: str | None
    "The new file; null without --output."
    profile: str
    "The text of the profile, in TOML."
    unknown: list[str]
    "What Slurm does not report."


class ProfileDifference(Struct, frozen=True, kw_only=True):
    """A fact that a profile and the cluster state differently."""

    key: str
    "The key of the profile, with dots between tables."
    profile: str
    "Its value in the profile."
    cluster: str
    "Its value on the cluster."


class Compared(Struct, frozen=True, kw_only=True):
    """The comparison of a profile with its cluster."""

    site: str
    differences: list[ProfileDifference]
    failed: list[str]
    "The commands that failed on the cluster; what they report was not compared."


class ProbeJob(Struct, frozen=True, kw_only=True):
    """The job of --probe, which --dry-run does not submit."""

    script: str
    "The batch script."
    program: str
    "What it runs on the node."


class TrialResult(Struct, frozen=True, kw_only=True):
    """A shape of a job on a site, and its result."""

    shape: str
    "Such as `ddp on 2 nodes`."
    result: Literal["passed", "refused", "failed"]
    "`refused`: it is beyond a limit of the profile, which is not a failure."
    reason: str
    script: str
    "The batch script; empty if there is none."


class SiteTrial(Struct, frozen=True, kw_only=True):
    """The trial of a profile."""

    site: str
    twin: bool
    "Whether the trials ran on a twin too."
    trials: list[TrialResult]


class TwinObject(Struct, frozen=True, kw_only=True):
    """A running twin."""

    site: str
    folder: str
    nodes: list[str]
    "The names of its nodes."
    partitions: dict[str, str]
    "What a node of each partition has, in words."
    assumptions: list[str]
    "What was assumed because the profile does not say it."
    environment: dict[str, str]
    "The variables with which the ordinary Slurm commands use it."
    ssh_host: str | None
    "Its host name for `ssh -F ssh_config`; null without --ssh."
    ssh_config: str | None


class TwinList(Struct, frozen=True, kw_only=True):
    """The running twins."""

    twins: list[TwinObject]


class StoppedTwins(Struct, frozen=True, kw_only=True):
    """The twins that were stopped."""

    stopped: list[str]
    "Their sites."


Facts = dict[str, Any]
"""What a profile states, with what it inherits; `schemas/site.json` describes its keys."""
