"""Rows that are left out on request: which they are, and that every verdict says so."""

from pathlib import Path

import numpy as np
import pytest

from refemu import golden
from refemu.arith.checks import Refused
from refemu.cli import main
from refemu.golden.compare import waivers
from refemu.testing import hold

MAC = Path("vectors/fp16_mac-fma")
ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def mac() -> golden.Golden:
    return golden.load(ROOT / MAC)


def test_a_flag_waives_the_rows_that_carry_it(mac: golden.Golden) -> None:
    bit = mac.manifest["flags"]["OVERFLOW"]["bit"]

    assert (waivers.rows(mac, ["OVERFLOW"]) == (mac.arrays["flags"] >> bit & 1).astype(bool)).all()


def test_a_decision_waives_the_rows_that_another_answer_changes(mac: golden.Golden) -> None:
    """D-kllm-3: with two roundings other words come out, here computed by NumPy's half precision."""
    a, b, acc = (mac.arrays[f"in.{name}"].view(np.float16) for name in ("a", "b", "acc"))
    with np.errstate(all="ignore"):
        twice = (a * b + acc).view(np.uint16)
    finite = np.isfinite(mac.arrays["out.y"].view(np.float16)) & np.isfinite(twice.view(np.float16))
    unlike = (twice != mac.arrays["out.y"]) & finite

    assert unlike.any()
    assert waivers.rows(mac, ["D-kllm-3"])[unlike].all()


def test_a_case_and_a_block_of_cases(mac: golden.Golden) -> None:
    entry = mac.manifest["cases"][2]

    block, case = waivers.rows(mac, [entry["id"]]), waivers.rows(mac, [f"{entry['id']}/1"])
    assert np.flatnonzero(block).tolist() == list(range(entry["first"], entry["first"] + entry["cases"]))
    assert np.flatnonzero(case).tolist() == [entry["first"] + 1]
    assert (waivers.rows(mac, [entry["id"], "OVERFLOW"]) == block | waivers.rows(mac, ["OVERFLOW"])).all()


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("OVERFLOV", "did you mean 'OVERFLOW'"),
        ("D-kllm-4", "did you mean 'D-kllm-3'"),
        ("edge/zero/3", "did you mean 'edge/zeros'"),
        ("edge/zeros/99999", "has cases 0 to 1727"),
    ],
)
def test_words_that_name_nothing_are_refused(mac: golden.Golden, word: str, message: str) -> None:
    with pytest.raises(Refused, match=message):
        waivers.rows(mac, [word])


def test_something_must_be_left_to_compare(mac: golden.Golden) -> None:
    with pytest.raises(Refused, match="leaves no row to compare"):
        waivers.rows(mac, [entry["id"] for entry in mac.manifest["cases"]])


def test_diff_leaves_them_out_and_says_so(
    mac: golden.Golden, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    waived = waivers.rows(mac, ["OVERFLOW"])
    answer = {name: mac.arrays[name].copy() for name in ("out.y", "out.overflow")}
    answer["out.overflow"][waived] ^= 1
    np.savez(tmp_path / "dut.npz", **answer)
    words = ["diff", str(ROOT / MAC), str(tmp_path / "dut.npz")]

    assert main(words) == 1
    capsys.readouterr()
    assert main([*words, "--waive", "OVERFLOW"]) == 0
    assert f"; {int(waived.sum())} rows waived by OVERFLOW\n" in capsys.readouterr().out
    assert main([*words, "--waive", "OVERFLOW", "--json"]) == 0
    assert f'"rows_waived": {int(waived.sum())}' in capsys.readouterr().out

    row = int(np.flatnonzero(~waived)[5])
    answer["out.y"][row] ^= 1
    np.savez(tmp_path / "dut.npz", **answer)
    found = golden.diff(ROOT / MAC, tmp_path / "dut.npz", waive=["OVERFLOW"])
    assert found.first is not None and (found.first.row, found.rows_differ) == (row, 1)


def test_hold_leaves_them_out_and_says_so() -> None:
    """Words of which one overflows: 65504 + 65504."""
    inputs = {"a": [0x7BFF, 0x3C00], "b": [0x3C00, 0x3C00], "acc": [0x7BFF, 0x3C00]}
    hold("fp16_mac", "fma", inputs, overflow=[False, False], waive=["OVERFLOW"])
    with pytest.raises(AssertionError):
        hold("fp16_mac", "fma", inputs, overflow=[False, False])
    with pytest.raises(AssertionError, match="; 1 rows waived by OVERFLOW"):
        hold("fp16_mac", "fma", inputs, overflow=[False, True], waive=["OVERFLOW"])
    with pytest.raises(Refused, match="unknown flag or decision of fp16_mac 'edge/ties/0'"):
        hold("fp16_mac", "fma", inputs, overflow=[False, False], waive=["edge/ties/0"])


def test_hold_waives_by_decision() -> None:
    """2^-11 of a product that one rounding keeps and two lose."""
    inputs = {"a": [0x3C01, 0x3C00], "b": [0x3C01, 0x3C00], "acc": [0xBC02, 0x3C00]}
    with np.errstate(all="ignore"):
        twice = [0x0000, 0x4000]
    with pytest.raises(AssertionError):
        hold("fp16_mac", "fma", inputs, y=twice)
    hold("fp16_mac", "fma", inputs, y=twice, waive=["D-kllm-3"])
