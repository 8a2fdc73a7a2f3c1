"""Draw the packages of slurmgen and their imports.

`python docs/picture.py` writes docs/architecture.dot, and docs/architecture.svg with Graphviz. A test
compares architecture.dot with the code.
"""

import subprocess
from collections import defaultdict
from pathlib import Path

import grimp

HERE = Path(__file__).parent
PACKAGE = "slurmgen"
HIDDEN = {"errors", "text", "paths", "files", "__main__"}
"Nearly every module imports these; their arrows would hide the others."


def dot() -> str:
    """The graph for Graphviz: a node per package or top-level module, an arrow to each that it imports."""
    imports = _imports()
    names = sorted(set(imports) | {name for found in imports.values() for name in found})
    lines = [f'  "{name}"' for name in names]
    lines += [f'  "{name}" -> "{other}"' for name in names for other in sorted(_direct(name, imports))]
    return "\n".join(
        [
            "digraph slurmgen {",
            "  rankdir=TB; ranksep=0.4; nodesep=0.25;",
            '  node [shape=box, style="rounded,filled", fillcolor="#eef3fa", color="#4a6fa5"];',
            '  edge [color="#7a8699", arrowsize=0.7];',
            *lines,
            "}\n",
        ]
    )


def _imports() -> dict[str, set[str]]:
    graph = grimp.build_graph(PACKAGE, cache_dir=None)
    found: dict[str, set[str]] = defaultdict(set)
    for module in graph.modules:
        for other in graph.find_modules_directly_imported_by(module):
            pair = _part(module), _part(other)
            if pair[0] != pair[1] and "" not in pair and not HIDDEN & set(pair):
                found[pair[0]].add(pair[1])
    return found


def _part(module: str) -> str:
    return module.removeprefix(PACKAGE).lstrip(".").partition(".")[0]


def _direct(name: str, imports: dict[str, set[str]]) -> set[str]:
    """The imports of a part that do not follow from its other imports."""
    return {
        other
        for other in imports.get(name, set())
        if not any(other in _reached(step, imports) for step in imports[name] - {other})
    }


def _reached(name: str, imports: dict[str, set[str]]) -> set[str]:
    found: set[str] = set()
    waiting = list(imports.get(name, ()))
    while waiting:
        if (other := waiting.pop()) not in found:
            found.add(other)
            waiting += imports.get(other, ())
    return found


if __name__ == "__main__":
    (HERE / "architecture.dot").write_text(dot())
    subprocess.run(["dot", "-Tsvg", "-o", "architecture.svg", "architecture.dot"], cwd=HERE, check=True)  # noqa: S607
