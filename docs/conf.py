"""Sphinx configuration. `make docs` builds the site into build/docs, with warnings as errors."""

import os
import sys
from importlib import metadata
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))
os.environ.setdefault("XDG_CONFIG_HOME", "/nonexistent")  # the builder's own settings change no page

project = "slurmgen"
author = "The slurmgen authors"
copyright = author  # noqa: A001  (Sphinx reads this name)
release = version = metadata.version("slurmgen-torch")

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_click"]
exclude_patterns = ["_build"]
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 4

autodoc_typehints = "description"
autodoc_member_order = "bysource"

html_theme = "furo"
html_title = "slurmgen"
