"""Studies as functions: the tables of the command, typed, and rejected arguments."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from refemu import studies
from refemu.arith.checks import Refused
from refemu.cli import main
from refemu.cli.arguments import parser
from refemu.studies.run import CUTS

CUT: dict[str, Any] = {"windows": 2, "win": 32, "prefill": 16}


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REFEMU_HOME", str(tmp_path / "home"))


def test_tables_are_those_of_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    found = studies.study("mix", "tiny", schemes=["fp16", "harmonia-kv8"], **CUT)
    line = "study mix --model tiny --windows 2 --win 32 --prefill 16 --schemes fp16 harmonia-kv8 --json"
    assert main(line.split()) == 0
    document = json.loads(capsys.readouterr().out)

    assert [table.document() for table in found.tables] == document["tables"]
    assert (found.measured, found.cached) == (4, 0) and (document["measured"], document["cached"]) == (0, 4)


def test_other_calibration_is_another_measurement(tmp_path: Path) -> None:
    words = tmp_path / "a.txt"
    words.write_text("Vanity was the beginning and the end of Sir Walter Elliot's character.")
    options = {"schemes": ["olive-4:low=90,high=130,step=10"], **CUT}
    found = [studies.study("mix", "tiny", calibration=each, **options) for each in (None, words, words.read_text())]

    assert [each.cached for each in found] == [0, 0, 2]
    assert found[0].tables != found[1].tables == found[2].tables


def test_edited_scheme_file_is_measured_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    source = "from dataclasses import dataclass\nfrom refemu import models\n@dataclass(frozen=True)\n"
    source += "class Half(models.LinearScheme):\n    def weight(self, name, rows):\n        return rows * 0.5\n"
    counts = []
    for content in (source, source, source.replace("0.5", "0.75")):
        Path("own.py").write_text(content)
        counts.append(studies.study("mix", "tiny", schemes=["own.py:Half"], **CUT).measured)

    assert counts == [2, 0, 2]


OWN = """
import sys
from dataclasses import dataclass
from pathlib import Path
sys.path.insert(0, str(Path(__file__).parent))
{start}
from refemu import models
@dataclass(frozen=True)
class Half(models.LinearScheme):
    def weight(self, name, rows):
        {body}
        return rows * factor
"""


@pytest.mark.parametrize(
    ("start", "body", "counts"),
    [
        pytest.param("from own_helper import factor", "", [0, 2, 0], id="imports"),
        pytest.param("", "from own_helper import factor", [0, 2, 0], id="imports in a hook"),
        pytest.param("factor = __import__('own_helper').factor", "", [0, 0, 0], id="imports without a statement"),
        pytest.param("factor = float(Path('own_helper.py').read_text()[9:])", "", [0, 2, 0], id="reads"),
    ],
)
def test_edited_helper_of_scheme_is_measured_again(start: str, body: str, counts: list[int], tmp_path: Path) -> None:
    """In processes of their own, which is how an edit is seen."""
    (tmp_path / "own.py").write_text(OWN.format(start=start, body=body))
    line = "study mix --model tiny --windows 2 --win 6 --prefill 3 --schemes own.py:Half --json"
    found, values = [], []
    for factor in (0.5, 0.5, 0.75):
        (tmp_path / "own_helper.py").write_text(f"factor = {factor}")
        run = subprocess.run(
            [sys.executable, "-m", "refemu", *line.split()], cwd=tmp_path, capture_output=True, text=True
        )
        assert run.returncode == 0, run.stderr
        document = json.loads(run.stdout)
        found.append(document["cached"])
        values.append(document["tables"][0]["rows"][0]["perplexity"])

    assert found == counts
    assert values[0] == values[1] != values[2]


@pytest.mark.parametrize("name", CUTS)
def test_defaults_are_those_of_the_command(name: str) -> None:
    arguments = parser().parse_args(["study", name])

    assert (arguments.windows, arguments.win) == (CUTS[name].windows, CUTS[name].win)
    assert getattr(arguments, "prefill", 0) == CUTS[name].prefill


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        pytest.param("mixed", {}, "name must be one of 'olive', .*, got 'mixed'", id="name"),
        pytest.param("mix", {"windows": -1}, r"study mix: windows must be in \[1, .*, got -1", id="windows"),
        pytest.param("mix", {"parts": ["x"]}, "part must be one of 'pairs', got 'x'", id="part"),
        pytest.param("mix", {"parts": ["pairs"], "schemes": ["fp16"]}, "schemes must be left out for parts", id="both"),
        pytest.param("olive", {"schemes": ["fp16"]}, "schemes must be left out for this study", id="olive"),
        pytest.param("mix", {"model": "tiny-encoder"}, "predicts no next token", id="encoder"),
    ],
)
def test_invalid_arguments_of_study_are_rejected(name: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(Refused, match=message):
        studies.study(name, **{"model": "tiny", **CUT, **options})
