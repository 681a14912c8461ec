"""D-arith-1: words are compared bit by bit in every form; NaNs among floats count as equal, with a remark."""

import io
import json
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest

from refemu import golden, units
from refemu.cli import main
from refemu.golden.compare import answer_files, pipe
from refemu.golden.compare.diff import compare, differing
from refemu.golden.files import hexfile, sets
from refemu.golden.make import rows
from refemu.testing import compare as testing
from refemu.testing import hold, save
from refemu.units.unit import Cases
from tests.golden import committed
from tests.golden.test_flipped_rows import FILES, Arrays, lines

SET = committed.VECTORS / "fp16_mac-paper"
REMARK = "; NaNs count as equal in "


@pytest.fixture(scope="module")
def mac() -> sets.Golden:
    return sets.load(SET)


def other_nan(mac: sets.Golden) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """The answers of a device whose NaN is 0xfe00, and the rows with a NaN."""
    y = mac.arrays["out.y"]
    nan = y == 0x7E00
    return {"out.y": np.where(nan, np.uint16(0xFE00), y), "out.overflow": mac.arrays["out.overflow"]}, nan


def as_floats(answers: Arrays) -> dict[str, np.ndarray]:
    return {**answers, "out.y": answers["out.y"].view(np.float16)}


@pytest.mark.parametrize("way", FILES)
def test_words_are_compared_bit_by_bit(way: str, mac: sets.Golden, tmp_path: Path) -> None:
    answers, nan = other_nan(mac)
    answer = answer_files.read(FILES[way](mac, answers, tmp_path), mac)
    found = compare(mac, answer)

    assert nan.sum() == 525
    assert np.array_equal(differing(mac, answer)["out.y"], nan)
    assert (found.rows_differ, found.ports, found.any_nan) == (525, {"out.y": 525}, ())
    assert found.first is not None and found.first.got.hex == "0xfe00"


@pytest.mark.parametrize("way", FILES)
def test_any_nan_accepts_nan_only(way: str, mac: sets.Golden, tmp_path: Path) -> None:
    """An infinity in place of a NaN still differs, and the reverse."""
    answers, _ = other_nan(mac)
    path = FILES[way](mac, answers, tmp_path)
    found = compare(mac, answer_files.read(path, mac, any_nan=True))
    registers = ("st.product",) if way in ("csv", "jsonl", "set") else ()  # forms with registers
    assert (found.equal, found.any_nan) == (True, ("out.y", *registers))

    first = [int(np.argmax(mac.arrays["out.y"] == word)) for word in (0x7E00, 0x7C00)]
    answers["out.y"][first] = answers["out.y"][first[::-1]]
    found = compare(mac, answer_files.read(FILES[way](mac, answers, tmp_path), mac, any_nan=True))
    assert found.rows_differ == 2 and found.first is not None and found.first.row == min(first)


def test_floats_accept_any_nan_with_a_remark(
    mac: sets.Golden, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    answers, _ = other_nan(mac)
    np.savez(tmp_path / "floats.npz", **as_floats(answers))
    assert main(["diff", str(SET), str(tmp_path / "floats.npz")]) == 0
    lacking, outcome = capsys.readouterr().out.splitlines()[:2]
    assert lacking == "not compared (missing from answers): st.product"
    assert outcome == f"fp16_mac-paper: 3941 rows equal in out.y, out.overflow{REMARK}out.y"
    assert golden.diff(SET, tmp_path / "floats.npz").any_nan == ("out.y",)

    answers["out.y"][7] ^= 1
    np.savez(tmp_path / "floats.npz", **as_floats(answers))
    assert main(["diff", str(SET), str(tmp_path / "floats.npz")]) == 1
    assert f"1 of 3941 rows differ: out.y in 1{REMARK}out.y\n" in capsys.readouterr().out
    assert main(["diff", str(SET), str(tmp_path / "floats.npz"), "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["any_nan"] == ["out.y"]


def test_diff_command_accepts_any_nan_on_request(
    mac: sets.Golden, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = FILES["npz"](mac, other_nan(mac)[0], tmp_path)
    assert main(["diff", str(SET), str(path)]) == 1
    assert "525 of 3941 rows differ: out.y in 525\n" in capsys.readouterr().out
    assert main(["diff", str(SET), str(path), "--any-nan"]) == 0
    assert f"out.y, out.overflow{REMARK}out.y\n" in capsys.readouterr().out
    assert main(["diff", str(SET), str(path), "--any-nan", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["any_nan"] == ["out.y"]
    assert main(["diff", str(SET), str(path), "--any-nan", "--ports", "overflow"]) == 0
    assert REMARK not in capsys.readouterr().out  # no remark about arrays that are not compared


def test_explanation_uses_the_same_nan_rule(mac: sets.Golden) -> None:
    """D-kllm-3 alone explains a fused device with a different NaN only if any NaN is accepted."""
    fused, _ = other_nan(sets.load(committed.VECTORS / "fp16_mac-fma"))
    strict, loose = (
        compare(mac, answer_files.Answer(fused, {}, names), True) for names in (frozenset(), frozenset({"out.y"}))
    )

    assert sorted(part.id for part in strict.explanations) == ["D-kllm-3", "nan"]
    assert [part.id for part in loose.explanations] == ["D-kllm-3"]


def stream(mac: sets.Golden) -> io.BytesIO:
    return io.BytesIO(b"".join(lines(mac, other_nan(mac)[0])))


def test_pipe_accepts_any_nan_on_request(mac: sets.Golden) -> None:
    unit = units.find("fp16_mac")
    strict, loose = (pipe.check(unit, "paper", stream(mac), 3941, any_nan) for any_nan in (False, True))

    assert (strict.rows, strict.rows_differ, strict.any_nan) == (3941, 525, ())
    assert (loose.rows, loose.rows_differ, loose.first, loose.any_nan) == (3941, 0, None, ("y",))
    assert asdict(loose)["any_nan"] == ("y",)


def test_pipe_command_accepts_any_nan_on_request(
    mac: sets.Golden, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def check(*words: str) -> tuple[int, str]:
        monkeypatch.setattr("sys.stdin", type("Stdin", (), {"buffer": stream(mac)}))
        return main(["check", "--stdin", "--unit", "fp16_mac", "--rows", "3941", *words]), capsys.readouterr().out

    assert check()[1].startswith("FAIL 525 of 3941 rows differ from fp16_mac-paper\n")
    assert check("--any-nan") == (0, f"PASS 3941{REMARK}y\n")
    assert check("--any-nan", "--config", "fma")[1].splitlines()[0].endswith(f"differ from fp16_mac-fma{REMARK}y")
    assert main(["check", str(SET), "--any-nan"]) == 2
    assert "--any-nan needs --stdin" in capsys.readouterr().err


def test_pipe_is_checked_with_returned_words() -> None:
    """Orizuru's integer keys order NaNs by their payload; the stimulus of sets has one NaN only."""
    unit = units.find("orizuru")
    config = unit.configs["n16_total_order"]
    x = np.full((1, 16), 0x3C00, np.uint16)
    x[0, 3:5] = 0x7E00, 0x7E01
    ports = unit.ports(config)
    result = unit.evaluate(config, {"x": x, **{port.name: np.ones(1, int) for port in ports.inputs[1:]}})
    one_nan = unit.evaluate(
        config, {"x": np.where(x == 0x7E01, 0x7E00, x), **{port.name: np.ones(1, int) for port in ports.inputs[1:]}}
    )
    assert result.max_index.tolist() != one_nan.max_index.tolist()

    entries = [pipe._layouts(unit, config)[at] for at in (0, 1)]
    asked = b"".join(
        pipe.hexfile.lines(entries[0], {"x": x, **{port.name: np.ones(1, port.dtype) for port in ports.inputs[1:]}})
    )
    codes = {port.name: sets.fields.encode(getattr(result, port.name), port, "orizuru") for port in ports.outputs}
    line = asked.strip() + b" " + b"".join(pipe.hexfile.lines(entries[1], codes))
    assert pipe.check(unit, "n16_total_order", io.BytesIO(line)).rows_differ == 0


def held(mac: sets.Golden) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Eight rows with a NaN: stimulus, and the answer 0xfe00."""
    answers, nan = other_nan(mac)
    rows = np.flatnonzero(nan)[:8]
    return {name: mac.arrays[f"in.{name}"][rows] for name in ("a", "b", "acc")}, answers["out.y"][rows]


def test_hold_accepts_any_nan_on_request(mac: sets.Golden) -> None:
    stimulus, y = held(mac)
    with pytest.raises(
        AssertionError, match=r"row 0, y: got 0xfe00 .* want 0x7e00 [^;]*; y: 8 of 8 differ \(100 %\); 8 with NaN$"
    ):
        hold("fp16_mac", "paper", stimulus, y=y)
    hold("fp16_mac", "paper", stimulus, y=y, any_nan=True)
    hold("fp16_mac", "paper", stimulus, y=y.view(np.float16))

    y[5] = 0x7C00
    values: list[Callable[[], None]] = [
        lambda: hold("fp16_mac", "paper", stimulus, y=y, any_nan=True),
        lambda: hold("fp16_mac", "paper", stimulus, y=y.view(np.float16)),
    ]
    for wrong in values:
        with pytest.raises(AssertionError, match=f"row 5, y: got 0x7c00 .*{REMARK}y$"):
            wrong()


def test_counterexample_replays_with_the_same_nan_rule(mac: sets.Golden, tmp_path: Path) -> None:
    stimulus, y = held(mac)
    y[5] = 0x7C00
    with pytest.raises(AssertionError):
        hold("fp16_mac", "paper", stimulus, y=y, any_nan=True)
    assert testing.last is not None
    told = save.save(testing.last, tmp_path, "a test")
    folder = tmp_path / save.folder_name("a test")

    assert "--explain --ports y --any-nan\n" in told
    found = golden.diff(folder / "fp16_mac-paper", folder / "dut.npz", ports=["y"], any_nan=True)
    assert found.rows_differ == 1


def test_sets_and_pipes_send_one_nan() -> None:
    """The only NaN in a set's or pipe's stimulus is 0x7e00, whatever the cases have."""
    words, one = [0xFE01, 0x3C00, 0x7C01, 0xFC00], [0x7E00, 0x3C00, 0x7E00, 0xFC00]
    cases = Cases("edge", "NaN of all kinds", {name: np.array(words) for name in ("a", "b", "acc")})
    unit = replace(units.find("fp16_mac"), cases=lambda config, kind, seed: [cases])
    config = unit.configs["paper"]
    layout = pipe._layouts(unit, config)[0]
    sent, _ = hexfile.read(b"".join(pipe.stimulus(unit, "paper", ["edge"], 0)), layout, 4, "stimulus")

    assert rows.evaluate(unit, config, cases).arrays["in.acc"][:, 0].tolist() == one
    assert rows.evaluate(unit, config, cases, keep_nan=True).arrays["in.acc"][:, 0].tolist() == words
    assert {name: array.tolist() for name, array in sent.items()} == {"a": one, "b": one, "acc": one}


def test_signalling_nans_reach_a_unit_with_flags() -> None:
    """Its sets and pipes preserve the bits of every NaN, and each signalling operand alone raises NV (D-arith-23)."""
    for name in ("fp16_mac-ieee", "fp16_mac-ieee_separate"):
        arrays = golden.load(Path("vectors") / name).arrays
        words = {port: arrays[f"in.{port}"] for port in ("a", "b", "acc")}
        nan = {port: word & 0x7FFF > 0x7C00 for port, word in words.items()}
        signals = {port: nan[port] & (word & 0x200 == 0) for port, word in words.items()}
        for port in words:
            alone = signals[port] & ~np.any([nan[other] for other in words if other != port], axis=0)
            assert alone.any() and (arrays["out.fflags"][alone] & 16 != 0).all()
        quiet = nan["a"] & ~signals["a"] & ~nan["b"] & ~nan["acc"]
        assert (words["a"][quiet] != 0x7E00).any() and (arrays["out.fflags"][quiet] == 0).all()
    unit = units.find("fp16_mac")
    layout = pipe._layouts(unit, unit.configs["ieee"])[0]
    sent, _ = hexfile.read(b"".join(pipe.stimulus(unit, "ieee", ["edge"], 0)), layout, 6149, "stimulus")
    assert 0x7D01 in sent["acc"]
