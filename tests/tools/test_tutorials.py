"""Tutorials run as written, print what their notebooks show, and say numbers that their blocks printed."""

import os
import re
import shutil
from typing import Any

import pytest

nbformat = pytest.importorskip("nbformat", reason="notebooks need the extra `test`: nbclient, ipykernel")

from nbformat.v4 import new_notebook, new_output  # noqa: E402

from tools import tutorials  # noqa: E402

#: programs that a tutorial calls; research needs the weights of a model, and has its own fixture
PROGRAMS = {"verification": ("iverilog", "make")}
STATED = {"3.2": "docs/studies.md"}  #: numbers of rules, and the page that has them
SAID = re.compile(r"the commands take (\d+) seconds")


SOURCES = tutorials.SOURCES


def page(name: str) -> str:
    return (SOURCES / f"{name}.md").read_text("utf-8")


def code(notebook: Any) -> list[Any]:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def test_every_page_has_a_notebook() -> None:
    assert tutorials.NAMES == ("kernel", "research", "verification")
    assert sorted(path.stem for path in tutorials.NOTEBOOKS.glob("*.ipynb")) == list(tutorials.NAMES)


@pytest.mark.parametrize("name", tutorials.NAMES)
def test_the_notebook_has_the_cells_of_the_page(name: str) -> None:
    made = [(cell.id, cell.cell_type, cell.source) for cell in tutorials.cells(page(name))]
    assert [(cell.id, cell.cell_type, cell.source) for cell in tutorials.committed(name).cells] == made
    assert len([kind for _, kind, _ in made if kind == "code"]) > 5


@pytest.mark.parametrize("name", tutorials.NAMES)
def test_outputs_are_committed_without_errors_or_traces(name: str) -> None:
    notebook = tutorials.committed(name)
    nbformat.validate(notebook)
    assert [cell.execution_count for cell in code(notebook)] == list(range(1, len(code(notebook)) + 1))
    kinds = {output.output_type for cell in code(notebook) for output in cell.outputs}
    assert "error" not in kinds and "stream" in kinds
    assert not re.search(r"stream stderr|Traceback|/(tmp|home|root|work|usr)/", tutorials.outputs(notebook))


@pytest.mark.parametrize("name", tutorials.NAMES)
def test_numbers_of_the_text_are_printed_or_written(name: str) -> None:
    """Numbers from 10 on outside code: a sentence whose number has changed is seen here."""
    notebook = tutorials.committed(name)
    prose = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")
    prose = re.sub(r"`[^`]*`|\]\([^)]*\)|```.*?```", "", SAID.sub("", prose), flags=re.DOTALL)
    shown = "\n".join([tutorials.outputs(notebook), *(cell.source for cell in code(notebook))])
    there = {number.replace(",", "") for number in re.findall(r"\d[\d,]*\.?\d*", shown)}
    numbers = re.findall(r"(?<![\w.-])\d[\d,]*\.?\d+(?![\w-])", prose)
    there |= {number for number, path in STATED.items() if number in (tutorials.ROOT / path).read_text("utf-8")}
    assert [number for number in numbers if number.replace(",", "") not in there] == []


@pytest.mark.parametrize("name", tutorials.NAMES)
def test_the_time_is_the_measured_one(name: str) -> None:
    (said,) = SAID.findall(page(name))
    assert 0.5 < tutorials.committed(name).metadata["refemu"]["seconds"] / int(said) < 2
    assert "Ten minutes" in page(name)


@pytest.mark.parametrize("name", tutorials.NAMES)
def test_the_site_shows_what_blocks_printed(name: str) -> None:
    shown = tutorials.page(name)
    for cell in code(tutorials.committed(name)):
        for output in cell.outputs:
            if output.output_type == "stream" and not output.text.startswith(("Writing", "Overwriting")):
                assert f":class: printed\n\n{output.text.rstrip()}\n```" in shown
    assert not re.search(r"^```\w+ \S+\.\w+$", shown, re.MULTILINE)  # files have captions


@pytest.mark.parametrize("name", tutorials.NAMES)
def test_the_page_shows_the_outputs_of_its_notebook(name: str) -> None:
    assert page(name) == tutorials.with_outputs(name, page(name)) and page(name).count("\n```text\n") > 4


@pytest.mark.parametrize("name", tutorials.NAMES)
def test_each_file_is_named_before_its_block(name: str) -> None:
    files = re.findall(r"^```\w+ (\S+)$", page(name), re.MULTILINE)
    assert [file for file in files if f"Save as `{file}`:\n\n" not in re.sub(r"as\n", "as ", page(name))] == []


def test_long_lines_wrap_and_wide_tables_continue() -> None:
    row, rule = "name  " + "a" * 40 + "  " + "b" * 40, "─" * 88
    assert tutorials.narrow(f"  {'x ' * 40}y\n\ntitle\n{row}\n{rule}\n{row}\nend").split("\n") == [
        *("  " + "x " * 38 + "x", "    x y", "", "title"),
        *("name  " + "a" * 40, "─" * 46, "name  " + "a" * 40, "end", ""),
        *("name  " + "b" * 40, "─" * 46, "name  " + "b" * 40, "end"),
    ]
    assert tutorials.narrow("short\n\nlines") == "short\n\nlines"


def test_sentences_are_taken_over_and_blocks_are_not(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    name = tutorials.NAMES[0]
    monkeypatch.setattr(tutorials, "SOURCES", tmp_path)
    (tmp_path / f"{name}.md").write_text(page(name).replace("# For kernel writers", "# Other words"), "utf-8")
    assert tutorials.reworded(name).cells[0].source.startswith("# Other words")
    assert tutorials.outputs(tutorials.reworded(name)) == tutorials.outputs(tutorials.committed(name))
    (tmp_path / f"{name}.md").write_text(page(name).replace("bits=4", "bits=8"), "utf-8")
    with pytest.raises(SystemExit, match="a block changed; run it"):
        tutorials.reworded(name)


def test_changed_output_of_refemu_alone_is_detected() -> None:
    name = tutorials.NAMES[-1]
    notebook = tutorials.committed(name)
    stream = next(output for cell in code(notebook) for output in cell.outputs if "make: ***" in output.get("text", ""))
    assert tutorials.changes(name, notebook) == ""
    stream.text = stream.text.replace("make: ***", "make: +++")
    assert tutorials.changes(name, notebook) == ""
    stream.text = stream.text.replace("FAIL row 3", "FAIL row 4")
    assert "+FAIL row 42" in tutorials.changes(name, notebook)


def test_stream_pieces_are_joined_paths_and_times_normalized() -> None:
    pieces = [
        new_output("stream", name=name, text=text) for name, text in (("stdout", "a"), ("stderr", "!"), ("stdout", "b"))
    ]
    assert [(each.name, each.text) for each in tutorials.joined(pieces)] == [("stderr", "!"), ("stdout", "ab")]
    assert (
        tutorials.settled("in /x/y/bench\nrefemu: 10 s, weights\nrefemu: no\n", "/x/y")
        == "in ~/tutorial/bench\nrefemu: no\n"
    )
    assert tutorials.comparable("a 12.5 s, 3 passed in 0.12s, 1s\nmake: x\nimage/png: y") == [
        "a N s, 3 passed in N s, 1s"
    ]


def test_block_with_file_name_is_a_file() -> None:
    cells = tutorials.cells("# T\n\n```python mine.py\nx = 1\n```\n\nand\n\n```sh\nls\n```\n```\nno code\n```\n")
    assert [cell.source for cell in cells] == [
        "# T",
        "%%writefile mine.py\nx = 1",
        "and",
        "%%bash\nset -e -o pipefail\nls",
        "```\nno code\n```",
    ]
    assert new_notebook(cells=cells) == new_notebook(cells=cells)


@pytest.mark.long
@pytest.mark.timeout(3000)
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.model] * (name == "research")) for name in tutorials.NAMES]
)
@pytest.mark.filterwarnings(
    "ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::RuntimeWarning", "ignore::ResourceWarning"
)  # of Jupyter's own modules
def test_a_run_prints_what_is_committed(name: str, request: pytest.FixtureRequest) -> None:
    pytest.importorskip("nbclient", reason="notebooks need the extra `test`: nbclient, ipykernel")
    pytest.importorskip("ipykernel", reason="notebooks need the extra `test`: nbclient, ipykernel")
    if name == "research":
        request.getfixturevalue("smollm2")
    missing = [program for program in PROGRAMS.get(name, ()) if shutil.which(program) is None]
    if missing:
        (pytest.fail if os.environ.get("CI") else pytest.skip)(f"no {' and no '.join(missing)} here")

    run = tutorials.run(name)
    written, here = (each.metadata["refemu"]["hypothesis"] for each in (tutorials.committed(name), run))
    if "hypothesis" in page(name) and written != here:
        pytest.skip(f"it ran; its outputs are those of hypothesis {written}, which shrinks otherwise than {here}")
    assert tutorials.changes(name, run) == ""


def test_light_drawing_has_the_same_words_and_factors() -> None:
    path = '<path d="M 1.23456 0.015625 \nL 10.0 -401.367573"\n   id="p"/>'
    svg = f'<g id="a">\n  <!-- 1.23456  a -->\n  {path}\n <g id="b"/>\n</g>\n'
    assert tutorials.light(svg) == (
        '<g id="a"><!-- 1.23456  a --><path d="M 1.23 0.015625 L 10.0 -401.37" id="p"/>\n <g id="b"/></g>'
    )
