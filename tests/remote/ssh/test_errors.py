import importlib
import pkgutil
import socket

import paramiko
import pytest

from slurmgen.errors import SlurmgenError
from slurmgen.remote.ssh.config import Destination, HostSpec
from slurmgen.remote.ssh.errors import ERRORS, translated

FAR = Destination(
    spec=HostSpec("far"),
    host="h",
    port=22,
    user="me",
    identity_files=(),
    identities_only=False,
    known_hosts=(),
    host_key_name="h",
)


def foreign() -> list[type[Exception]]:
    """Every exception class that paramiko defines."""
    modules = [
        importlib.import_module(f"paramiko.{module.name}")
        for module in pkgutil.iter_modules(paramiko.__path__)
        if module.name not in {"win_pageant", "win_openssh", "_winapi"}
    ]
    found = {value for module in modules for value in vars(module).values() if isinstance(value, type)}
    return sorted(
        (one for one in found if issubclass(one, Exception) and one.__module__.startswith("paramiko")),
        key=lambda one: one.__name__,
    )


@pytest.mark.parametrize("kind", foreign(), ids=lambda kind: kind.__name__)
def test_every_exception_of_paramiko_is_in_the_table(kind: type[Exception]) -> None:
    assert kind in ERRORS
    assert paramiko.SSHException in foreign()


@pytest.mark.parametrize("kind", ERRORS, ids=lambda kind: kind.__name__)
def test_each_error_is_translated_with_a_fact_and_a_hint(kind: type[Exception]) -> None:
    error = type("Blank", (kind,), {"__init__": lambda self: None, "__str__": lambda self: ""})()
    with pytest.raises(SlurmgenError) as caught, translated(FAR):
        raise error
    assert isinstance(caught.value, ERRORS[kind].kind)
    assert caught.value.hint
    assert "{" not in str(caught.value)


def test_the_nearest_class_counts() -> None:
    with pytest.raises(SlurmgenError, match="did not reply in time"), translated(FAR):
        raise TimeoutError
    with (
        pytest.raises(SlurmgenError, match="cannot connect to far at h port 22: unknown"),
        translated(FAR),
    ):
        raise socket.gaierror("unknown")


def test_errors_of_slurmgen_are_not_translated() -> None:
    with pytest.raises(SlurmgenError, match="as it was"), translated(FAR):
        raise SlurmgenError("as it was")
