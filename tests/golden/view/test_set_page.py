"""The page of a set: every row, port and flag, the device's answers, and the explanation."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from refemu import golden
from refemu.arith.checks import Refused
from refemu.golden.view import set_page
from tests.golden.view import reader

SETS = Path(__file__).resolve().parents[3] / "vectors"
SET = SETS / "ovp_decoder-int4"


@pytest.fixture
def answers(tmp_path: Path) -> Path:
    """Answers of a device that takes the left element from the high half (D-olive-1)."""
    loaded = golden.load(SET)
    pair = loaded.arrays["in.pair"].astype(np.uint16)
    from refemu.units import ovp_decoder

    result = ovp_decoder.run((pair >> 4 | pair << 4) & 255, bias=loaded.arrays["in.bias"])
    arrays = {"exponent": result.exponent, "base_int": result.base_int & 15, "illegal": result.illegal}
    np.savez(tmp_path / "dut.npz", **{f"out.{name}": array.astype(np.uint8) for name, array in arrays.items()})
    return tmp_path / "dut.npz"


def columns(data: dict[str, Any]) -> dict[tuple[str, str], np.ndarray]:
    stream, rows = reader.inflated(data["stream"]), data["rows"]
    found, at = {("flags", "value"): np.frombuffer(stream, "<u4", rows)}, 4 * rows
    found["differ", "value"] = np.frombuffer(stream, np.uint8, rows, at)
    at += rows
    for column in data["columns"]:
        count = rows * column["lanes"]
        found[column["array"], column["part"]] = np.frombuffer(stream, f"<u{column['bytes']}", count, at)
        at += count * column["bytes"]
    assert at == len(stream)
    return found


@pytest.mark.parametrize("name", ["ovp_decoder-int4", "bfp_pe-paper", "page_table-paper", "index_counter-w4a4"])
def test_every_row_is_on_the_page(name: str) -> None:
    loaded = golden.load(SETS / name)
    written = set_page.written(SETS / name)
    data = reader.checked(written.data)
    found = columns(data)

    assert (written.rows, written.differ) == (loaded.rows, None)
    for array, words in loaded.arrays.items():
        key = (array.removesuffix(".care"), "care" if array.endswith(".care") else "value")
        assert (found[key].reshape(words.shape) == words).all()
    assert sum(case["cases"] * case["rows"] for case in data["cases"]) == loaded.rows
    assert [case["why"] for case in data["cases"]] == [case["why"] for case in loaded.manifest["cases"]]
    assert written.data == set_page.written(SETS / name).data


def test_answers_are_next_to_the_rows(answers: Path) -> None:
    difference = golden.diff(SET, answers, explain=True)
    written = set_page.written(SET, answers)
    data = reader.checked(written.data)
    found = columns(data)

    assert written.differ == difference.rows_differ == int(found["differ", "value"].sum()) > 0
    assert difference.first is not None and data["firstdiffer"] == difference.first.row
    assert any("D-olive-1" in line for line in data["diagnosis"])
    assert (found["out.exponent", "answer"] == np.load(answers)["out.exponent"].ravel()).all()


def test_page_has_the_requested_rows() -> None:
    data = reader.checked(set_page.written(SET, None, 100, 200).data)

    assert (data["first"], data["rows"], data["total"]) == (100, 100, 1032)
    assert (columns(data)["in.pair", "value"] == golden.load(SET).arrays["in.pair"][100:200]).all()
    for first, last in ((1032, None), (5, 5), (0, 1033)):
        with pytest.raises(Refused, match="--rows must be in 0:1032"):
            set_page.written(SET, None, first, last)


def test_a_full_page_holds_the_first_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(set_page, "LIMIT", set_page.SPARE + 1000)
    written = set_page.written(SET)

    assert 0 < written.rows < 1032 and reader.checked(written.data)["rows"] == written.rows
    monkeypatch.setattr(set_page, "LIMIT", set_page.SPARE + 1)
    with pytest.raises(Refused, match="one row must fit"):
        set_page.written(SET)
