"""Waivers: the bits that they leave out, and the remark in every result."""

from pathlib import Path

import numpy as np
import pytest

from refemu import golden, units
from refemu.arith.checks import Refused
from refemu.cli import main
from refemu.golden.compare import waivers
from refemu.golden.files import fields
from refemu.testing import hold
from refemu.units import variant

MAC = Path("vectors/fp16_mac-fma")
ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def mac() -> golden.Golden:
    return golden.load(ROOT / MAC)


@pytest.fixture
def decoder() -> golden.Golden:
    return golden.load(ROOT / "vectors/ovp_decoder-int4")


def rows(left: waivers.Left) -> np.ndarray:
    """Rows without any compared bit."""
    return np.all([(bits == np.iinfo(bits.dtype).max).reshape(len(bits), -1).all(axis=1) for bits in left.values()], 0)


def test_flag_waives_its_rows(mac: golden.Golden) -> None:
    bit = mac.manifest["flags"]["OVERFLOW"]["bit"]

    assert (rows(waivers.bits(mac, ["OVERFLOW"], True)) == (mac.arrays["flags"] >> bit & 1).astype(bool)).all()


def test_decision_waives_bits_that_a_variant_changes(mac: golden.Golden) -> None:
    """D-kllm-3: two roundings give different words, computed here by NumPy's half precision."""
    a, b, acc = (mac.arrays[f"in.{name}"].view(np.float16) for name in ("a", "b", "acc"))
    with np.errstate(all="ignore"):
        twice = (a * b + acc).view(np.uint16)
    finite = np.isfinite(mac.arrays["out.y"].view(np.float16)) & np.isfinite(twice.view(np.float16))
    unlike = twice ^ mac.arrays["out.y"]

    assert unlike[finite].any()
    assert (waivers.bits(mac, ["D-kllm-3"])["out.y"][finite] == unlike[finite]).all()


@pytest.mark.parametrize("lane", [0, 1])
def test_waiver_of_victims_hides_no_outlier(decoder: golden.Golden, lane: int, tmp_path: Path) -> None:
    """D-olive-19 is about the victim's exponent: a decoder that loses the top bit of an outlier's still fails."""
    own, other = (decoder.arrays["in.pair"] >> 4 * each & 0xF for each in (lane, 1 - lane))
    answer = {name: decoder.arrays[name].copy() for name in ("out.exponent", "out.base_int", "out.illegal")}
    answer["out.exponent"][(other == 8) & (own & 7 != 0), lane] &= 7
    wrong = answer["out.exponent"] != decoder.arrays["out.exponent"]
    np.savez(tmp_path / "dut.npz", **answer)

    difference = golden.diff(ROOT / "vectors/ovp_decoder-int4", tmp_path / "dut.npz", waive=["D-olive-19"])
    assert difference.rows_differ == int(wrong.any(axis=1).sum()) > 50
    assert (difference.rows_waived, difference.undetected) == (0, ())
    assert difference.bits_masked > 1000


def test_two_decisions_waive_their_combined_changes() -> None:
    """An aligner that counts the sign and rounds half to even changes bits that neither variant changes alone."""
    aligner, unit = golden.load(ROOT / "vectors/bfp_aligner-paper"), units.find("bfp_aligner")
    words = ["D-harmonia-1", "D-harmonia-2"]
    chosen = [next(each for each in unit.variants if each.decision == word) for word in words]
    device = variant.device(unit, unit.config("paper"), chosen)
    assert device is not None
    inputs = {port.name: aligner.arrays[f"in.{port.name}"] for port in unit.ports(unit.config("paper")).inputs}
    answers, left = device.evaluate(inputs), waivers.bits(aligner, words)
    alone = [waivers.bits(aligner, [word]) for word in words]
    neither = 0
    for port in unit.ports(unit.config("paper")).outputs:
        name = f"out.{port.name}"
        wrong = fields.encode(getattr(answers, port.name), port, "") ^ aligner.arrays[name]
        wrong &= aligner.arrays.get(f"{name}.care", ~np.zeros_like(wrong))
        assert not (wrong & ~left[name]).any()
        neither += int(np.count_nonzero(wrong & ~(alone[0][name] | alone[1][name])))
    assert neither > 0


def test_flag_with_too_many_rows_is_rejected(decoder: golden.Golden, capsys: pytest.CaptureFixture[str]) -> None:
    place = str(ROOT / "vectors/ovp_decoder-int4")
    with pytest.raises(Refused, match="UNSPECIFIED leaves out 484 of 1032 rows, more than a tenth"):
        waivers.bits(decoder, ["UNSPECIFIED"])

    assert main(["diff", place, place, "--waive", "UNSPECIFIED", "--force"]) == 0
    said = capsys.readouterr().out
    assert "; waived by UNSPECIFIED: compared 548 of 1032 rows, 0 bits masked\n" in said
    assert "coverage under the waiver: 76 of 97 faults detected; no longer stuck_at_0/out.exponent/0/0, " in said


def test_case_and_block_waive_their_rows(mac: golden.Golden) -> None:
    entry = mac.manifest["cases"][2]

    block, case = (rows(waivers.bits(mac, [word])) for word in (entry["id"], f"{entry['id']}/1"))
    assert np.flatnonzero(block).tolist() == list(range(entry["first"], entry["first"] + entry["cases"]))
    assert np.flatnonzero(case).tolist() == [entry["first"] + 1]
    overflow = rows(waivers.bits(mac, ["OVERFLOW"], True))
    assert (rows(waivers.bits(mac, [entry["id"], "OVERFLOW"], True)) == block | overflow).all()


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("OVERFLOV", "did you mean 'OVERFLOW'"),
        ("D-kllm-4", "did you mean 'D-kllm-3'"),
        ("edge/zero/3", "did you mean 'edge/zeros'"),
        ("edge/zeros/99999", "has cases 0 to 1727"),
    ],
)
def test_unknown_words_are_rejected(mac: golden.Golden, word: str, message: str) -> None:
    with pytest.raises(Refused, match=message):
        waivers.bits(mac, [word])


def test_waiver_of_all_rows_is_rejected(mac: golden.Golden) -> None:
    with pytest.raises(Refused, match="leaves no row to compare"):
        waivers.bits(mac, [entry["id"] for entry in mac.manifest["cases"]])


def test_diff_reports_its_waivers(mac: golden.Golden, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    waived = rows(waivers.bits(mac, ["OVERFLOW"], True))
    answer = {name: mac.arrays[name].copy() for name in ("out.y", "out.overflow")}
    answer["out.overflow"][waived] ^= 1
    np.savez(tmp_path / "dut.npz", **answer)
    words = ["diff", str(ROOT / MAC), str(tmp_path / "dut.npz")]

    assert main(words) == 1
    capsys.readouterr()
    assert main([*words, "--waive", "OVERFLOW", "--force"]) == 0
    rest = mac.rows - int(waived.sum())
    assert f"; waived by OVERFLOW: compared {rest} of {mac.rows} rows, 0 bits masked\n" in capsys.readouterr().out
    assert main([*words, "--waive", "OVERFLOW", "--force", "--json"]) == 0
    assert f'"rows_waived": {int(waived.sum())}' in capsys.readouterr().out

    row = int(np.flatnonzero(~waived)[5])
    answer["out.y"][row] ^= 1
    np.savez(tmp_path / "dut.npz", **answer)
    found = golden.diff(ROOT / MAC, tmp_path / "dut.npz", waive=["OVERFLOW"], force=True)
    assert found.first is not None and (found.first.row, found.rows_differ) == (row, 1)


def test_hold_reports_its_waivers() -> None:
    """One of the sums overflows: 65504 + 65504."""
    inputs = {"a": [0x7BFF, 0x3C00], "b": [0x3C00, 0x3C00], "acc": [0x7BFF, 0x3C00]}
    hold("fp16_mac", "fma", inputs, overflow=[False, False], waive=["OVERFLOW"])
    with pytest.raises(AssertionError):
        hold("fp16_mac", "fma", inputs, overflow=[False, False])
    with pytest.raises(AssertionError, match="; waived by OVERFLOW: compared 1 of 2 rows, 0 bits masked"):
        hold("fp16_mac", "fma", inputs, overflow=[False, True], waive=["OVERFLOW"])
    with pytest.raises(Refused, match="unknown flag or decision 'edge/ties/0' of fp16_mac"):
        hold("fp16_mac", "fma", inputs, overflow=[False, False], waive=["edge/ties/0"])


@pytest.mark.parametrize("inputs", [{"pair": [0x85, 0x12], "bias": [2, 2]}, {"pair": 0x85, "bias": 2}])
def test_hold_waives_every_lane_of_a_row(inputs: dict[str, object]) -> None:
    """An output of two lanes, of several rows and of one."""
    unit = units.find("ovp_decoder")
    result = unit.evaluate(unit.config("int4"), {name: np.array(value) for name, value in inputs.items()})
    exponent = result.exponent.copy()
    exponent.reshape(-1, 2)[0] ^= 1

    hold("ovp_decoder", "int4", inputs, exponent=exponent, waive=["VICTIM"])
    with pytest.raises(AssertionError, match=r"row 0, exponent\[0\]: got .* for pair=133, bias=2"):
        hold("ovp_decoder", "int4", inputs, exponent=exponent)
    if exponent.ndim > 1:
        exponent[1] ^= 1
        with pytest.raises(AssertionError, match=r"row 1, .*; waived by VICTIM: compared 1 of 2 rows, 0 bits masked"):
            hold("ovp_decoder", "int4", inputs, exponent=exponent, waive=["VICTIM"])


def test_hold_waives_by_decision() -> None:
    """One rounding preserves 2^-11 of a product; two lose it."""
    inputs = {"a": [0x3C01, 0x3C00], "b": [0x3C01, 0x3C00], "acc": [0xBC02, 0x3C00]}
    with np.errstate(all="ignore"):
        twice = [0x0000, 0x4000]
    with pytest.raises(AssertionError):
        hold("fp16_mac", "fma", inputs, y=twice)
    hold("fp16_mac", "fma", inputs, y=twice, waive=["D-kllm-3"])
    with pytest.raises(AssertionError, match=r"; waived by D-kllm-3: compared 2 of 2 rows, [0-9]+ bits masked"):
        hold("fp16_mac", "fma", inputs, y=[twice[0], twice[1] ^ 1], waive=["D-kllm-3"])
