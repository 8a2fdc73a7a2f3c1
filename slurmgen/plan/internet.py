"""What a job cannot do on compute nodes that do not reach the internet."""

import re

from slurmgen.errors import RequestError
from slurmgen.sites.model import EngineName, Site

_REMOTE = re.compile(r"[a-z]+://")
_LOCAL = re.compile(r"(file|docker-archive|oci-archive|docker-daemon|containers-storage)://?")
_NOTES = {
    "no": "Compute nodes do not reach the internet: download data and packages on a login node first.",
    "proxy": "Compute nodes reach the internet over HTTP only, by the proxy in http_proxy and https_proxy.",
}


def check_python_env(python_env: str, site: Site) -> None:
    """Refuse an environment that the job would download.

    Raises:
        RequestError: the compute nodes do not reach the internet.
    """
    if python_env.partition(":")[0] == "uv" and site.internet == "no":
        raise RequestError(
            f"--python-env {python_env} needs the internet, "
            f"which the compute nodes of {site.name} do not reach",
            "Make the environment on a login node and use --python-env venv:FOLDER, or use --container.",
        )


def check_image(image: str, engine: EngineName, site: Site) -> None:
    """Refuse an image that each task would download.

    Raises:
        RequestError: the compute nodes do not reach the internet.
    """
    if site.internet == "no" and _is_remote(image, engine):
        raise RequestError(
            f"the image {image} is on the internet, which the compute nodes of {site.name} do not reach",
            "Save it to a file on a login node (such as `apptainer pull`), and name that file.",
        )


def notes_of_internet(site: Site) -> dict[str, str]:
    """What users should know about the internet on compute nodes."""
    return {"internet": _NOTES[site.internet]} if site.internet in _NOTES else {}


def _is_remote(image: str, engine: EngineName) -> bool:
    """Whether an engine downloads an image: enroot takes any name that is not a file's."""
    if engine == "pyxis" and not image.endswith(".sqsh"):
        return not image.startswith(("/", "./", "~", "$"))
    return _REMOTE.match(image) is not None and _LOCAL.match(image) is None
