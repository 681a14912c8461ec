"""Text forms: written text reads back as the same answers, and errors name row and port."""

import json
from pathlib import Path

import numpy as np
import pytest

from refemu.arith.checks import Refused
from refemu.golden.compare import answer_files
from refemu.golden.files import exchange, sets

SUFFIX = {"testfloat": ".tf", "csv": ".csv", "jsonl": ".jsonl"}


@pytest.fixture(params=["blender-wrap", "meter-w4"])
def a_set(request: pytest.FixtureRequest, made: Path) -> sets.Golden:
    return sets.load(made / request.param)


@pytest.mark.parametrize("form", exchange.FORMS)
def test_exported_text_reads_back(form: str, a_set: sets.Golden, tmp_path: Path) -> None:
    answer = tmp_path / f"answer{SUFFIX[form]}"
    answer.write_text("".join(exchange.export(a_set, form)))
    read = answer_files.read(answer, a_set).arrays

    roles = ("expected",) if form == "testfloat" else ("expected", "state")
    assert sorted(read) == sorted(e["name"] for e in a_set.manifest["arrays"] if e["role"] in roles)
    assert all(np.array_equal(read[name], a_set.arrays[name]) for name in read)


def test_forms_have_their_fixed_text(made: Path) -> None:
    """[meter] three lanes of 40 bits, a register; case ids are first rows."""
    meter = sets.load(made / "meter-w4")
    lines = {form: list(exchange.export(meter, form)) for form in exchange.FORMS}

    assert lines["testfloat"][0] == "5 0 0000000005 0140000000 FFFFFFFFFA 00\n"
    assert lines["csv"][:2] == [
        "case,in.add,in.clear,out.wide.0,out.wide.1,out.wide.2,st.total,flags\n",
        "0,5,0,5,5368709120,1099511627770,5,0\n",
    ]
    assert json.loads(lines["jsonl"][4]) == {
        "row": 4,
        "case": 3,
        "in": {"add": 3, "clear": 0},
        "out": {"wide": [3, 3 << 30, (1 << 40) - 4]},
        "st": {"total": 3},
        "flags": [],
    }


@pytest.mark.parametrize(
    ("form", "spoil", "message"),
    [
        pytest.param(
            "testfloat", lambda text: text.replace("5 0 0000000005", "5 0", 1), "row 1 has 6 words", id="words"
        ),
        pytest.param(
            "testfloat",
            lambda text: "4" + text[1:],
            "stimulus in.add differs from meter-w4's from row 0",
            id="stimulus",
        ),
        pytest.param(
            "testfloat",
            lambda text: text.replace("00C0000000", "00C000000G", 1),
            "'00C000000G', which is no",
            id="digit",
        ),
        pytest.param(
            "csv",
            lambda text: text.replace("1099511627770", "1099511627776", 1),
            "out.wide.2 in row 0 must be in",
            id="beyond the port",
        ),
        pytest.param(
            "csv", lambda text: text.rpartition("\n")[0].rpartition("\n")[0], "has 11 rows, meter-w4 has 12", id="short"
        ),
        pytest.param(
            "csv", lambda text: text.replace("0,5,0,5,", "0,5,0,", 1), "row 0 has more or fewer", id="columns"
        ),
        pytest.param(
            "csv", lambda text: text.replace("out.wide.2", "out.wide.x", 1), "out.wide lacks its lane 2", id="lane"
        ),
        pytest.param(
            "csv",
            lambda text: text.replace("out.wide.1,out.wide.2", "a,b", 1),
            "out.wide lacks its lane 1",
            id="one lane of three",
        ),
        pytest.param(
            "csv",
            lambda text: text.replace("\n", "\r"),
            "not a text of form csv: Error: new-line character",
            id="old line ends",
        ),
        pytest.param(
            "csv",
            lambda text: text.replace("5,0,5,", f"{'5' * 200_000},0,5,", 1),
            "not a text of form csv: Error: field larger",
            id="very long field",
        ),
        pytest.param(
            "csv",
            lambda text: text.replace("5,0,5,", f"5,0,0x{'f' * 5000},", 1),
            "row 0 has '0xfff",
            id="very long number",
        ),
        pytest.param(
            "testfloat",
            lambda text: text.replace("5 0 0000000005", f"5 0 {'F' * 5000}", 1),
            "row 0 has 'FFF",
            id="very long word",
        ),
        pytest.param("jsonl", lambda text: "[" * 100_000, "not a text of form jsonl: nested too deep", id="nested"),
        pytest.param(
            "jsonl",
            lambda text: text.replace('"total":5', f'"total":{"[" * 500}{"]" * 500}', 1),
            "st.total in row 0 must be an integer",
            id="nested a little",
        ),
        pytest.param("jsonl", lambda text: "[" + text, "row 0 must be a JSON object", id="no object"),
        pytest.param(
            "jsonl",
            lambda text: text.replace('"total":5', '"total":0.5', 1),
            "must be an integer, got 0.5",
            id="fraction",
        ),
        pytest.param("jsonl", lambda text: text.replace('"total":5', '"totel":5', 1), "", id="register not compared"),
    ],
)
def test_invalid_answers_are_rejected(form: str, spoil: object, message: str, made: Path, tmp_path: Path) -> None:
    meter, answer = sets.load(made / "meter-w4"), tmp_path / f"answer{SUFFIX[form]}"
    answer.write_text(spoil("".join(exchange.export(meter, form))))  # type: ignore[operator]
    if message:
        with pytest.raises(Refused, match=message.replace("(", r"\(")):
            answer_files.read(answer, meter)
    else:
        assert list(answer_files.read(answer, meter).arrays) == ["out.wide"]
