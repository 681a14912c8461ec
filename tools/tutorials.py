"""Run the blocks of docs/tutorials, and write what they printed into the pages and into notebooks.

    python -m tools.tutorials                 # writes examples/tutorials/*.ipynb and the outputs in docs/tutorials
    python -m tools.tutorials kernel          # one of them
    python -m tools.tutorials --text kernel   # takes over new sentences, runs nothing; an error if a block changed
    python -m tools.tutorials --check kernel  # runs it, writes nothing; exit code 1 and a diff if an output changed

A tutorial is Markdown. A fenced block `python` is Python, and `sh` a command of the shell that must exit with 0. If the
name of a file follows the language, the block is that file. `text` is the output of the block before it. A notebook
runs in an empty folder, with the models that are fetched and without saved measurements.
"""

import argparse
import difflib
import html
import itertools
import os
import re
import sys
import tempfile
import textwrap
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from refemu.home import cache_folder

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ROOT / "docs" / "tutorials"
NOTEBOOKS = ROOT / "examples" / "tutorials"
NAMES = tuple(sorted(path.stem for path in SOURCES.glob("*.md")))
#: text that differs between two runs, and its replacement: only times, except for the folder
VARIES = [(re.compile(r"\b\d+(\.\d+)? s\b"), "N s"), (re.compile(r"\bin \d+\.\d+s\b"), "in N s")]
#: lines of other programs, which differ from version to version: make, Icarus Verilog, pytest
FOREIGN = re.compile(r"^(make(\[\d+\])?: |FATAL: | +Time: |[=_-]{3}|FAILED |[.F] +\[|image/png: )")
#: progress that depends on the machine's speed
PROGRESS = re.compile(r"^refemu: (\d+ s, |study ).*\n", re.MULTILINE)
METADATA = {
    "kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"},
    "language_info": {"name": "python"},
}
_BLOCK = re.compile(r"^```(python|sh|verilog|c)(?: (\S+))?\n(.*?)^```$\n?", re.MULTILINE | re.DOTALL)
_OUTPUT = re.compile(r"\n```text\n.*?^```$\n", re.MULTILINE | re.DOTALL)
_PRINTED = "\n```{code-block} text\n:class: printed\n\n"
_ORDINATE = re.compile(r"(?P<words><!--.*?-->)|(?<![\d.])[1-9]\d*\.\d{3,}")
_COLUMNS = 80  #: of outputs
_LIMIT = 1800  #: seconds of a cell
#: variables that a run keeps: others change what programs print, as CI does with hypothesis, and make with make
_KEPT = (
    "HOME",
    "LANG",
    "LC_ALL",
    "LD_LIBRARY_PATH",
    "PYTHONDONTWRITEBYTECODE",
    "PYTHONPYCACHEPREFIX",
    "TMPDIR",
    "USER",
)
#: formats of an output, best first, and how the site shows each
SHOWN = ("image/svg+xml", "text/html", "image/png", "text/plain")


def cells(page: str) -> list[Any]:
    """The cells of a page, without outputs; numbered ids, so that equal pages give equal notebooks."""
    page = _bare(page)
    made: list[Any] = []
    place = 0
    for block in _BLOCK.finditer(page):
        made += [new_markdown_cell(text) for text in [page[place : block.start()].strip()] if text]
        made.append(new_code_cell(source(*block.groups())))
        place = block.end()
    made += [new_markdown_cell(text) for text in [page[place:].strip()] if text]
    for number, cell in enumerate(made):
        cell["id"] = f"cell-{number}"
    return made


def source(language: str, file: str | None, text: str) -> str:
    """The source of a cell for a block."""
    text = text.rstrip("\n")
    if file:
        return f"%%writefile {file}\n{text}"
    return text if language == "python" else f"%%bash\nset -e -o pipefail\n{text}"


def run(name: str) -> Any:
    """Run a tutorial; returns its notebook with outputs, and the seconds it took.

    Raises
    ------
    nbclient.exceptions.CellExecutionError
        If a block fails.
    """
    began = time.monotonic()
    notebook = executed(new_notebook(cells=cells((SOURCES / f"{name}.md").read_text("utf-8"))))
    known = {"seconds": round(time.monotonic() - began), "hypothesis": version("hypothesis")}
    notebook.metadata = METADATA | {"refemu": known}
    return notebook


def executed(notebook: Any) -> Any:
    """Run a notebook in an empty folder, and store the outputs without text that differs between two runs.

    Raises
    ------
    nbclient.exceptions.CellExecutionError
        If a cell fails.
    """
    import nbclient

    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as home:
        resources = {"metadata": {"path": folder}}
        client = nbclient.NotebookClient(notebook, timeout=_LIMIT, kernel_name="python3", resources=resources)
        client.execute(env=environment(Path(home)))
        for cell in notebook.cells:
            if cell.cell_type == "code":
                cell.metadata = {}
                shown = [plain(output, folder) for output in joined(cell.outputs)]
                cell.outputs = [output for output in shown if output.get("text", "-")]
    return notebook


def environment(home: Path) -> dict[str, str]:
    """Environment of the kernel: this environment's programs, tables of one width, no colours, no saved results."""
    (home / "models").symlink_to(cache_folder() / "models")
    words = {key: os.environ[key] for key in _KEPT if key in os.environ}
    words |= {"PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])}
    words |= {"REFEMU_CACHE": os.environ.get("REFEMU_CACHE") or str(cache_folder() / "kernels")}
    return words | {"REFEMU_HOME": str(home), "COLUMNS": str(_COLUMNS), "NO_COLOR": "1", "TERM": "dumb"}


def joined(outputs: list[Any]) -> list[Any]:
    """Outputs of a cell, with the text of each stream joined, streams first: their interleaving depends on time."""
    streams: dict[str, Any] = {}
    for output in outputs:
        if output.output_type == "stream" and output is not streams.setdefault(output.name, output):
            streams[output.name].text += output.text
    others = [output for output in outputs if output.output_type != "stream"]
    return [*(streams[name] for name in sorted(streams)), *others]


def plain(output: Any, folder: str) -> Any:
    """An output without text that differs between two runs."""
    if output.output_type == "stream":
        output.text = settled(output.text, folder)
    elif "data" in output:
        output.data = {
            kind: settled(text, folder) if kind.startswith("text/") else light(text) if kind == SHOWN[0] else text
            for kind, text in output.data.items()
        }
    return output


def light(svg: str) -> str:
    """A drawing with a line for each group and lengths in hundredths; words and factors below 1 do not change."""
    svg = _ORDINATE.sub(lambda found: found["words"] or f"{float(found[0]):.2f}", svg)
    return re.sub(r"\s*\n\s*(?!\s|<g id)", "", re.sub(r"(?<!>)\s*\n\s*", " ", svg))


def settled(text: str, folder: str) -> str:
    """Text with `~/tutorial` for the folder of a run, and without lines of progress."""
    for path in (os.path.realpath(folder), folder):
        text = text.replace(path, "~/tutorial")
    return PROGRESS.sub("", text)


def committed(name: str) -> Any:
    """The notebook as it is in the repository."""
    return nbformat.read(NOTEBOOKS / f"{name}.ipynb", as_version=4)


def reworded(name: str) -> Any:
    """The committed notebook with the current sentences of its page.

    Raises
    ------
    SystemExit
        If a block changed and must be run.
    """
    notebook, now = committed(name), cells((SOURCES / f"{name}.md").read_text("utf-8"))
    if [_block(cell) for cell in notebook.cells] != [_block(cell) for cell in now]:
        raise SystemExit(f"{name}: a block changed; run it: python -m tools.tutorials {name}")
    for cell, new in zip(notebook.cells, now, strict=True):
        cell.source = new.source
    return notebook


def _block(cell: Any) -> str:
    return cell.source if cell.cell_type == "code" else ""


def outputs(notebook: Any) -> str:
    """All outputs of a notebook as one text, for comparison."""
    lines: list[str] = []
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            lines.append(f"--- {cell['id']} {output.output_type} {output.get('name', '')}")
            lines += [f"{kind}: {drawn(text)}" for kind, text in sorted(output.get("data", {}).items())]
            lines.append(output.get("text", ""))
    return "\n".join(lines)


def drawn(text: str) -> str:
    """Words and numbers of a plot, which do not depend on the version of matplotlib; other text unchanged."""
    return "\n".join(re.findall(r"<!-- (.*?) -->", text)) if "Matplotlib v" in text else text


def comparable(text: str) -> list[str]:
    """Lines without those of other programs and without pictures of times, with N for a time."""
    for pattern, word in VARIES:
        text = pattern.sub(word, text)
    return [line for line in text.splitlines() if not FOREIGN.match(line)]


def changes(name: str, notebook: Any) -> str:
    """Compare the output of a run of a tutorial with its committed notebook: a diff, or ""."""
    return difference(name, committed(name), notebook)


def difference(name: str, before: Any, after: Any) -> str:
    """A diff of the outputs of two runs of a notebook."""
    then, now = (comparable(outputs(each)) for each in (before, after))
    return "\n".join(difflib.unified_diff(then, now, f"{name}.ipynb", "this run", lineterm=""))


def page(name: str) -> str:
    """A tutorial for the site: its text, with the full output of each block after it."""
    text = _bare((SOURCES / f"{name}.md").read_text("utf-8"))
    printed = iter([cell.outputs for cell in committed(name).cells if cell.cell_type == "code"])
    return _BLOCK.sub(lambda block: _listing(*block.groups()) + "".join(map(_result, next(printed))), text)


def with_outputs(name: str, page: str) -> str:
    """A page with the outputs of the committed notebook, in 80 columns."""
    printed = iter([cell.outputs for cell in committed(name).cells if cell.cell_type == "code"])
    return _BLOCK.sub(lambda block: block[0] + "".join(_plain(name, each) for each in next(printed)), _bare(page))


def _bare(page: str) -> str:
    return _OUTPUT.sub("", page)


def _plain(name: str, output: Any) -> str:
    if output.output_type == "stream":
        text = "" if output.text.startswith(("Writing ", "Overwriting ")) else output.text
    else:
        other = output.data.keys() - {"text/plain"}
        text = f"(shown in examples/tutorials/{name}.ipynb)" if other else output.data["text/plain"]
    shown = narrow(text.strip("\n"))
    return f"\n```text\n{shown}\n```\n" if text else ""


def narrow(text: str) -> str:
    """Text in 80 columns: long lines are wrapped, and tables continue below with their first column repeated."""
    made: list[str] = []
    for part in re.split(r"(?<=\n)\n", text):
        lines = part.rstrip("\n").split("\n")
        rule = next((at for at, line in enumerate(lines) if set(line) == {"─"}), 0)
        wide = rule and max(map(len, lines[rule - 1 :])) > _COLUMNS
        head = lines[: rule - 1] if wide else lines
        made.append("\n".join(folded for line in head for folded in _wrapped(line)))
        made[-1] += "".join(f"\n{line}" for line in (_tables(lines[rule - 1 :]) if wide else ()))
    return "\n\n".join(made)


def _wrapped(line: str) -> list[str]:
    indent = " " * (len(line) - len(line.lstrip()) + 2)
    return textwrap.wrap(line, _COLUMNS, subsequent_indent=indent, break_on_hyphens=False) or [""]


def _tables(lines: list[str]) -> list[str]:
    """The columns of a table that fit next to each other, and below them the others."""
    width = max(map(len, lines))
    cells = [line.ljust(width) for line in lines if set(line) != {"─"}]
    gaps = [at for at in range(width) if all(line[at : at + 2].isspace() for line in cells)]
    starts = [0, *(at + 2 for at in gaps if at + 1 not in gaps and at + 2 < width), width]
    columns = [[line[begin:end].rstrip() for line in cells] for begin, end in itertools.pairwise(starts)]
    sizes = [max(map(len, column)) for column in columns]
    blocks, taken = [[0]], sizes[0]
    for at in range(1, len(columns)):
        if taken + 2 + sizes[at] > _COLUMNS:
            blocks, taken = [*blocks, [0]], sizes[0]
        blocks[-1].append(at)
        taken += 2 + sizes[at]
    made: list[str] = []
    for block in blocks:
        rows = ["  ".join(columns[at][row].ljust(sizes[at]) for at in block).rstrip() for row in range(len(cells))]
        made += ["", rows[0], "─" * (sum(sizes[at] for at in block) + 2 * len(block) - 2), *rows[1:]]
    return made[1:]


def _listing(language: str, file: str | None, text: str) -> str:
    return f"```{{code-block}} {language}\n:caption: {file}\n\n{text}```\n" if file else f"```{language}\n{text}```\n"


def _result(output: Any) -> str:
    if output.output_type == "stream":
        hidden = output.text.startswith(("Writing ", "Overwriting "))
        return "" if hidden else f"{_PRINTED}{output.text.rstrip()}\n```\n"
    kind = next(kind for kind in SHOWN if kind in output.data)
    content = output.data[kind]
    if kind == "text/plain":
        return f"{_PRINTED}{content}\n```\n"
    if kind == "image/png":
        content = f'<img alt="{html.escape(output.data["text/plain"])}" src="data:image/png;base64,{content.strip()}">'
    return f"\n```{{raw}} html\n{content}\n```\n"


def main(words: list[str]) -> int:
    """Write or check notebooks; returns the exit code."""
    options = argparse.ArgumentParser(prog="python -m tools.tutorials")
    options.add_argument("--check", action="store_true", help="compare with the committed ones, and write nothing")
    options.add_argument("--text", action="store_true", help="update sentences, and run nothing")
    options.add_argument("names", nargs="*", help=f"of {', '.join(NAMES)}; default all")
    arguments = options.parse_args(words)
    wrong = ""
    for name in arguments.names or NAMES:
        if arguments.check:
            wrong += changes(name, run(name))
            continue
        notebook = reworded(name) if arguments.text else run(name)
        nbformat.write(notebook, NOTEBOOKS / f"{name}.ipynb")
        source = SOURCES / f"{name}.md"
        source.write_text(with_outputs(name, source.read_text("utf-8")), "utf-8")
        print(f"examples/tutorials/{name}.ipynb: {notebook.metadata['refemu']['seconds']} s")
    print(wrong, end="\n" if wrong else "")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
