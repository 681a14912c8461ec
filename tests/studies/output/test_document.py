"""Documents of studies hold to their schema, and the schema can fail."""

import copy
from typing import Any

import pytest

from refemu import models
from refemu.arith.checks import Refused
from refemu.studies.evaluation import Setting
from refemu.studies.output import document
from refemu.studies.output.figure import Figure
from refemu.studies.output.table import Column, Table

NOTHING = {"text": None, "calibration": None}
TABLE = Table("t", "a table", (Column("n", "integer", "n", "how many"), Column("x", "number", "x", "x")), ((1, None),))


@pytest.fixture
def whole() -> dict[str, Any]:
    setting = Setting(models.load("tiny"), (1, 2, 3, 4), 2)
    figure = Figure("fig1", "[leankv Fig. 1]", "a title", (), "a caption")
    return document.document("leankv", setting, "refemu study leankv", "ids.txt", [TABLE], [figure], (3, 1), NOTHING)


def test_a_document_says_what_was_run(whole: dict[str, Any]) -> None:
    assert whole["model"] == {"name": "tiny", "sha256": models.load("tiny").sha256, "seeded": True}
    assert whole["text"] == {
        "tokens": 4,
        "windows": 2,
        "win": 2,
        "prefill": 0,
        "ids_sha256": whole["text"]["ids_sha256"],
        "source": "ids.txt",
        "sha256": None,
        "calibration_sha256": None,
    }
    assert whole["tables"][0]["rows"] == [{"n": 1, "x": None}]
    assert {"python", "platform", "numpy", "numba"} <= set(whole["versions"])


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("schema",), "refemu.study/2"),
        (("model", "seeded"), "yes"),
        (("model", "sha256"), "abc"),
        (("text", "windows"), -1),
        (("text", "more"), 1),
        (("tables", 0, "columns", 0, "type"), "float"),
        (("tables", 0, "rows", 0, "n"), 1.5),
        (("tables", 0, "rows", 0, "n"), "1"),
        (("tables", 0, "rows", 0, "more"), 1),
        (("tables", 0, "rows", 0, "x"), [1]),
        (("measured",), 1.5),
    ],
)
def test_another_document_is_rejected(place: tuple[Any, ...], value: Any, whole: dict[str, Any]) -> None:
    other = copy.deepcopy(whole)
    part: Any = other
    for key in place[:-1]:
        part = part[key]
    part[place[-1]] = value
    document.check(whole)
    with pytest.raises(Refused, match="study: "):
        document.check(other)


def test_encoders_have_texts_and_weights_alone_no_window() -> None:
    encoder = Setting(models.load("tiny-encoder"), (1, 2, 3), 8, texts=((1,), (2, 3)))
    alone = Setting(models.load("tiny"), (), 8)
    counted = [document.document("olive", each, "", "", [], [], (0, 0), NOTHING)["text"] for each in (encoder, alone)]

    assert [(text["windows"], text["win"]) for text in counted] == [(2, 8), (0, 0)]
