"""The first difference, decoded, and no difference where there is none."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from refemu import golden
from refemu.arith.checks import Refused
from refemu.golden.compare import diff_text
from refemu.golden.compare.decode import Value
from refemu.golden.files import sets


@pytest.fixture
def folder(made: Path) -> Path:
    return made / "blender-wrap"


def answer(folder: Path, change: Any, names: tuple[str, ...] = ("out.both", "out.ratio", "out.odd")) -> Path:
    """The right answer with `change` applied to copies of its arrays."""
    loaded = sets.load(folder)
    arrays = {name: loaded.arrays[name].copy() for name in names}
    change(arrays)
    path = folder.parent / "dut.npz"
    np.savez(path, **arrays)
    return path


def flip(name: str, row: int, lane: int | None, bit: int) -> Any:
    def change(arrays: dict[str, np.ndarray]) -> None:
        arrays[name][row if lane is None else (row, lane)] ^= 1 << bit

    return change


def test_equal_answer_has_no_difference(folder: Path) -> None:
    found = golden.diff(folder, answer(folder, lambda arrays: None))

    assert found.equal
    assert (found.first, found.rows_differ, found.ports, found.flags, found.remark, found.explanations) == (
        None,
        0,
        {},
        {},
        "",
        (),
    )
    assert (found.rows, found.compared, found.not_compared) == (28, ("out.both", "out.ratio", "out.odd"), ())
    assert (found.set, found.unit, found.config) == ("blender-wrap", "blender", "wrap")


def test_first_difference_is_decoded(folder: Path) -> None:
    """Row 9 of random: the sweep's words are (i * 7919) & 255."""
    row, word = 4 + 9, (9 * 7919) & 255
    first, second = word & 15, (word >> 4) - 8
    want = first - second
    found = golden.diff(folder, answer(folder, flip("out.both", row, 1, 0)))
    mismatch = found.first

    assert mismatch is not None
    assert ("out.both", "both", row, row, 1) == (
        mismatch.array,
        mismatch.port,
        mismatch.case,
        mismatch.row,
        mismatch.lane,
    )
    assert (mismatch.kind, mismatch.why, mismatch.decision, mismatch.flags) == ("random", "some of everything", "", ())
    assert Value(f"0x{want & 31:02x}", f"{want & 31:05b}"[0] + " " + f"{want & 31:05b}"[1:], str(want)) == mismatch.want
    assert str(want ^ 1) == mismatch.got.decoded
    assert {"first": str(first), "second": str(second)} == {
        name: lanes[0].decoded for name, lanes in mismatch.stimulus.items()
    }


def test_order_is_row_then_port_then_lane(folder: Path) -> None:
    def change(arrays: dict[str, np.ndarray]) -> None:
        arrays["out.odd"][3] ^= 1
        arrays["out.both"][5] ^= 3
        arrays["out.odd"][5] ^= 1
        arrays["out.both"][7, 1] ^= 1

    found = golden.diff(folder, answer(folder, change))

    assert found.first is not None
    assert (found.first.array, found.first.row) == ("out.odd", 3)
    assert (found.ports, found.rows_differ) == ({"out.both": 2, "out.odd": 2}, 3)
    found = golden.diff(
        folder, answer(folder, lambda arrays: arrays["out.both"].__setitem__(5, arrays["out.both"][5] ^ 3))
    )
    assert found.first is not None
    assert (found.first.array, found.first.row, found.first.lane) == ("out.both", 5, 0)


def test_every_flipped_bit_in_the_mask_differs(folder: Path) -> None:
    """A flipped bit outside the mask is not a difference."""
    loaded = sets.load(folder)
    for name, bits in (("out.both", 5), ("out.ratio", 16), ("out.odd", 1)):
        for index in np.ndindex(loaded.arrays[name][:6].shape):
            for bit in range(bits):
                lane = index[1] if len(index) > 1 else None
                found = golden.diff(folder, answer(folder, flip(name, index[0], lane, bit)))
                compared = name != "out.ratio" or loaded.arrays["out.ratio.care"][index] >> bit & 1

                assert found.equal != bool(compared)
                assert found.first is None or (name, index[0], lane or 0) == (
                    found.first.array,
                    found.first.row,
                    found.first.lane,
                )


def test_flags_of_differing_rows_are_counted(folder: Path) -> None:
    both = golden.diff(folder, answer(folder, lambda arrays: arrays["out.odd"].__setitem__(slice(2, 4), 0)))

    assert both.first is not None
    assert (both.first.flags, both.first.decision, both.first.kind) == (("OVERFLOW", "UNSPECIFIED"), "D-fake-1", "edge")
    assert (both.flags, both.remark) == ({"OVERFLOW": 2, "UNSPECIFIED": 2}, "all 2 are OVERFLOW and UNSPECIFIED")
    mixed = golden.diff(folder, answer(folder, lambda arrays: arrays["out.odd"].__setitem__(slice(0, 4), 0)))
    assert (mixed.flags, mixed.remark) == ({"OVERFLOW": 2, "UNSPECIFIED": 2, "": 1}, "")


def test_registers_in_the_answer_are_compared(made: Path) -> None:
    folder = made / "meter-w4"
    without = golden.diff(folder, answer(folder, lambda arrays: None, ("out.wide",)))
    wrong = golden.diff(folder, answer(folder, flip("st.total", 4, None, 2), ("out.wide", "st.total")))

    assert (without.equal, without.not_compared) == (True, ("st.total",))
    assert wrong.first is not None
    assert (wrong.first.array, wrong.first.case, wrong.first.row, wrong.first.lane) == ("st.total", 3, 4, 0)


def test_text_like_gold_mem_is_read(folder: Path) -> None:
    text = (folder / "hex" / "gold.mem").read_text().splitlines()
    row = 11
    dut = folder.parent / "dut.mem"
    dut.write_text("\n".join([*text[: row + 1], "x" + text[row + 1][1:], *text[row + 2 :]]))

    assert golden.diff(folder, folder / "hex" / "gold.mem").equal
    found = golden.diff(folder, dut)
    assert found.first is not None
    assert (row, "unknown") == (found.first.row, found.first.got.decoded)
    assert "x" in found.first.got.hex


def test_answer_may_be_another_set(made: Path) -> None:
    assert golden.diff(made / "blender-wrap", made / "blender-wrap").equal
    assert not golden.diff(made / "blender-wrap", made / "blender-saturate").equal


def test_empty_comparison_is_rejected(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = sets.load(folder)
    outputs = {name: array for name, array in loaded.arrays.items() if name in ("out.both", "out.ratio", "out.odd")}
    blind = sets.Golden(
        loaded.manifest, loaded.arrays | {f"{name}.care": np.zeros_like(array) for name, array in outputs.items()}
    )
    monkeypatch.setattr(sets, "load", lambda path: blind)

    with pytest.raises(Refused, match="blender-wrap: nothing was compared"):
        golden.diff(folder, folder / "hex" / "gold.mem")


def test_difference_is_explained_on_request(folder: Path, made: Path) -> None:
    found = golden.diff(folder, made / "blender-saturate", explain=True)

    (part,) = found.explanations
    assert (part.kind, part.parameters, part.rows_explained) == (
        "decision",
        {"overflow": "'saturate'"},
        found.rows_differ,
    )
    assert golden.diff(folder, made / "blender-saturate").explanations == ()


def test_json_has_every_field(folder: Path) -> None:
    found = golden.diff(folder, answer(folder, flip("out.odd", 1, None, 0)))

    assert found.first is not None
    assert json.loads(json.dumps(asdict(found.first)))["port"] == "odd"
    assert json.loads(json.dumps(asdict(found.where)))["ports"] == {"odd": found.rows_differ}


def test_ports_select_compared_outputs(made: Path) -> None:
    """A device with one port is compared in that port; `ports` excludes others and must be there."""
    folder = made / "blender-wrap"
    dut = answer(folder, lambda arrays: None, ("out.odd",))
    found = golden.diff(folder, dut)
    lacking = ("out.both", "out.ratio")
    assert (found.equal, found.compared, found.not_compared, found.excluded) == (True, ("out.odd",), lacking, ())
    whole = golden.diff(folder, answer(folder, lambda arrays: None), ports=["odd"])
    assert (whole.equal, whole.not_compared, whole.excluded) == (True, lacking, lacking)
    assert diff_text.lines(whole)[0] == "not compared (excluded by --ports): out.both, out.ratio"
    with pytest.raises(Refused, match=r"has no out.both, which --ports names; it has odd"):
        golden.diff(folder, answer(folder, lambda arrays: None, ("out.odd",)), ports=["odd", "both"])
    assert not golden.diff(folder, answer(folder, flip("out.odd", 1, None, 0)), ports=["odd"]).equal
    assert golden.diff(folder, answer(folder, flip("out.both", 1, 0, 0)), ports=["odd"]).equal
    with pytest.raises(Refused, match="did you mean 'odd'"):
        golden.diff(folder, dut, ports=["old"])


def test_arrays_in_memory_are_compared_and_measured(folder: Path) -> None:
    """An answer needs no file; every wrong port is counted and measured."""
    loaded = sets.load(folder)
    both = loaded.arrays["out.both"].copy()
    both[[2, 5, 7], 1] ^= np.array([1, 4, 1], both.dtype)
    found = golden.diff(folder, {"both": both})
    far = found.distances["out.both"]
    assert (found.rows_differ, list(found.distances)) == (3, ["out.both"])
    assert (far.wrong, far.elements, far.median, far.largest, far.at, far.nan) == (3, 56, 1, 4, (5, 1), 0)
    with pytest.raises(Refused, match=r"array out.none is not an output"):
        golden.diff(folder, {"none": both})
