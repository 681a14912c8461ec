"""The notebook of every paper runs from top to bottom; its cells assert what they show."""

import json
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "notebooks"
PAPERS = ("olive", "kllm", "harmonia", "leankv")


def cells(paper: str) -> list[dict[str, Any]]:
    return json.loads((FOLDER / f"{paper}.ipynb").read_text(encoding="utf-8"))["cells"]


def test_every_paper_has_one() -> None:
    assert sorted(PAPERS) == sorted(path.stem for path in FOLDER.glob("*.ipynb"))


@pytest.mark.parametrize("paper", PAPERS)
def test_no_outputs_are_committed(paper: str) -> None:
    assert all(
        cell["outputs"] == [] and cell["execution_count"] is None
        for cell in cells(paper)
        if cell["cell_type"] == "code"
    )


@pytest.mark.parametrize("paper", PAPERS)
def test_text_comes_first_and_something_is_asserted(paper: str) -> None:
    assert cells(paper)[0]["cell_type"] == "markdown"
    assert sum("assert " in "".join(cell["source"]) for cell in cells(paper)) >= 3


@pytest.mark.long
@pytest.mark.parametrize("paper", PAPERS)
@pytest.mark.filterwarnings(
    "ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::RuntimeWarning", "ignore::ResourceWarning"
)  # of Jupyter's own modules
def test_notebook_runs_and_shows_tables(paper: str) -> None:
    nbclient = pytest.importorskip("nbclient", reason="notebooks need the extra `test`: nbclient, ipykernel")
    pytest.importorskip("ipykernel", reason="notebooks need the extra `test`: nbclient, ipykernel")
    nbformat = pytest.importorskip("nbformat")
    notebook = nbformat.read(FOLDER / f"{paper}.ipynb", as_version=4)
    nbclient.NotebookClient(
        notebook, timeout=120, kernel_name="python3", resources={"metadata": {"path": str(FOLDER)}}
    ).execute()
    shown = [
        output.data
        for cell in notebook.cells
        if cell.cell_type == "code"
        for output in cell.outputs
        if output.output_type == "execute_result"
    ]

    assert len([data for data in shown if data.get("text/html", "").startswith("<table>")]) >= 2
    assert all(cell.execution_count for cell in notebook.cells if cell.cell_type == "code")
