"""The notebook of every paper runs from top to bottom; its cells assert what they show."""

import json
import re
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
def test_committed_outputs_have_no_warnings_or_paths(paper: str) -> None:
    code = [cell for cell in cells(paper) if cell["cell_type"] == "code"]
    outputs = [output for cell in code for output in cell["outputs"]]

    assert [cell["execution_count"] for cell in code] == list(range(1, len(code) + 1))
    assert len(outputs) >= 4 and all(output["output_type"] in ("execute_result", "stream") for output in outputs)
    assert not re.search(r"stderr|Traceback|/(tmp|home|root|work|usr)/", json.dumps(outputs))


@pytest.mark.parametrize("paper", PAPERS)
def test_text_comes_first_and_something_is_asserted(paper: str) -> None:
    assert cells(paper)[0]["cell_type"] == "markdown"
    assert sum("assert " in "".join(cell["source"]) for cell in cells(paper)) >= 3


@pytest.mark.long
@pytest.mark.parametrize("paper", PAPERS)
@pytest.mark.filterwarnings(
    "ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::RuntimeWarning", "ignore::ResourceWarning"
)  # of Jupyter's own modules
def test_a_run_shows_what_is_committed(paper: str) -> None:
    for name in ("nbclient", "ipykernel", "nbformat"):
        pytest.importorskip(name, reason="notebooks need the extra `test`: nbclient, ipykernel")
    from tools import notebooks

    run = notebooks.run(paper)
    tables = [output.get("data", {}).get("text/html", "") for cell in run.cells for output in cell.get("outputs", [])]

    assert notebooks.changes(paper, run) == ""
    assert sum(text.startswith("<table>") for text in tables) >= 2


def test_a_changed_output_is_seen() -> None:
    pytest.importorskip("nbformat", reason="notebooks need the extra `test`: nbclient, ipykernel")
    from tools import notebooks

    run = notebooks.committed("olive")
    assert notebooks.changes("olive", run) == ""
    last = [output for cell in run.cells for output in cell.get("outputs", []) if "data" in output][-1]
    last.data["text/plain"] += "0"
    assert "+text/plain: " in notebooks.changes("olive", run)
