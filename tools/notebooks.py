"""Run the notebooks of the papers, and save their output.

    python -m tools.notebooks                 # writes the outputs into examples/notebooks/*.ipynb
    python -m tools.notebooks olive           # one of them
    python -m tools.notebooks --check         # writes nothing; exit code 1 and a diff if an output changed

tools/tutorials.py says how they run, and which parts of an output are saved.
"""

import argparse
import re
import sys
from pathlib import Path
from typing import Any

import nbformat

from tools import tutorials

FOLDER = Path(__file__).resolve().parent.parent / "examples" / "notebooks"
NAMES = tuple(sorted(path.stem for path in FOLDER.glob("*.ipynb")))


def committed(name: str) -> Any:
    """The notebook as it is in the repository."""
    return nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)


def run(name: str) -> Any:
    """The notebook with the outputs of a run.

    Raises
    ------
    nbclient.exceptions.CellExecutionError
        If a cell fails.
    """
    notebook = tutorials.executed(committed(name))
    notebook.metadata = tutorials.METADATA
    return notebook


def changes(name: str, notebook: Any) -> str:
    """Compare the output of a run with the committed notebook: a diff, or ""."""
    return tutorials.difference(name, committed(name), notebook)


def main(words: list[str]) -> int:
    """Write or check notebooks; returns the exit code."""
    options = argparse.ArgumentParser(prog="python -m tools.notebooks")
    options.add_argument("--check", action="store_true", help="compare with the committed ones, and write nothing")
    options.add_argument("names", nargs="*", help=f"of {', '.join(NAMES)}; default all")
    arguments = options.parse_args(words)
    wrong = ""
    for name in arguments.names or NAMES:
        notebook = run(name)
        if arguments.check:
            wrong += changes(name, notebook)
        else:
            text = re.sub(r"(?m)^ +", "", nbformat.writes(notebook))  # an indentation is a sixth of the file
            (FOLDER / f"{name}.ipynb").write_text(f"{text}\n", encoding="utf-8")
    print(wrong, end="\n" if wrong else "")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
