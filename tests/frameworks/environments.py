"""The environments that `make test-frameworks` builds for these tests."""

import os

from tests.guide.running import REPOSITORY

BUILT = REPOSITORY / "build" / "frameworks"
_NAMES = ("deepspeed", "jax", "mpi4py", "ray", "tensorflow", "transformers")
PYTHON = {name: BUILT / name / "bin" / "python" for name in _NAMES}


def variables(name: str) -> dict[str, str]:
    """The programs of the environment first, no GPU, and a cache of compiled extensions beside it."""
    path = f"{PYTHON[name].parent}:{os.environ['PATH']}"
    cache = str(BUILT / "torch_extensions")
    quiet = {"TF_CPP_MIN_LOG_LEVEL": "2", "no_proxy": "localhost"}  # gRPC would use http_proxy
    return {"PATH": path, "CUDA_VISIBLE_DEVICES": "", "TORCH_EXTENSIONS_DIR": cache} | quiet
