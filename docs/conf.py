"""Sphinx configuration. `make docs` builds the site into build/docs, with warnings as errors."""

import os
import re
import sys
from importlib import metadata
from pathlib import Path

import click
from docutils import nodes
from sphinx.application import Sphinx

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
html_static_path = ["_static"]
html_css_files = ["guide.css"]


def setup(app: Sphinx) -> None:
    """Show the options and examples of docs/cli.md as `--help` does, and the files of a diff by name."""
    app.connect("doctree-read", _shorten_diffs)
    app.connect("sphinx-click-process-description", _describe)
    app.connect("sphinx-click-process-options", _list_options)
    app.connect("sphinx-click-process-epilog", _add_examples)


def _shorten_diffs(_app: Sphinx, page: nodes.document) -> None:
    """The header of a diff that Sphinx makes has the paths of this machine."""
    for block in page.findall(nodes.literal_block):
        if block.get("language") == "udiff":
            text = re.sub(r"^(---|\+\+\+) .*/", r"\1 ", block.astext(), flags=re.MULTILINE)
            block.rawsource, block.children = text, [nodes.Text(text)]


def _describe(_app: Sphinx, _ctx: click.Context, lines: list[str]) -> None:
    lines[:] = map(_rst, lines)


def _list_options(_app: Sphinx, ctx: click.Context, lines: list[str]) -> None:
    from slurmgen.cli.output import OWN, grouped

    lines.clear()
    for title, rows in grouped(ctx.command, ctx).items():
        lines += [] if title == OWN else [f".. rubric:: {title}", ""]
        for names, text in rows:
            if names.endswith("--help"):
                continue
            lines += [f".. option:: {names.replace(' / ', ', ')}", "", f"   {_rst(text)}", ""]


def _add_examples(_app: Sphinx, ctx: click.Context, lines: list[str]) -> None:
    from slurmgen.cli.output import example_lines

    examples = [f"   {line}" for line in example_lines(getattr(ctx.command, "examples", {}))]
    lines[:] = [".. rubric:: Examples", "", ".. code-block:: shell", "", *examples, ""] if examples else []


def _rst(text: str) -> str:
    """Plain text as reStructuredText: code and options are literals."""
    text = text.replace("*", r"\*")
    code = r"`([^`]+)`|(?<![\w-])(--[a-z][a-z-]*(?:=[\w:]+)?)"
    return re.sub(code, lambda match: f"``{match[1] or match[2]}``", text)
