"""Pipes: a device that computes right passes, a wrong one is shown by line, and silence is no success."""

import io
import subprocess
import sys

import numpy as np
import pytest

from refemu import units
from refemu.arith.checks import Refused
from refemu.cli import main
from refemu.golden import pipe


def echoed(unit_name: str, config: str, kinds: list[str]) -> bytes:
    """The lines of a device that is the unit itself: the check's own expectation, by way of the text."""
    unit = units.find(unit_name)
    lines = b"".join(pipe.stimulus(unit, config, kinds, 0)).splitlines(keepends=True)
    asked, _, _ = pipe._read(unit, unit.configs[config], [line.strip() + b" " + b"0" * digits(unit, config) + b"\n"
                                                          for line in lines], 0)
    outputs = {port.name: np.concatenate(parts) for port, parts in pipe._expected(unit, unit.configs[config], asked)}
    layout = pipe._layouts(unit, unit.configs[config])[1]
    words = b"".join(pipe.hexfile.lines(layout, outputs)).splitlines(keepends=True)
    return b"".join(line.strip() + b" " + word for line, word in zip(lines, words, strict=True))


def digits(unit: units.unit.Unit, config: str) -> int:
    return -(-pipe.hexfile.width(pipe._layouts(unit, unit.configs[config])[1]) // 4)


@pytest.mark.parametrize(("unit", "config"), [("ovp_decoder", "int4"), ("olive_mac", "wrap"), ("olive_pe8", "wrap")])
def test_the_unit_itself_passes_and_a_flipped_bit_does_not(
    unit: str, config: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cases of different lengths, and chunks that end between them."""
    monkeypatch.setattr(pipe, "CHUNK", 100)
    lines = echoed(unit, config, ["paper", "edge", "random"])
    verdict = pipe.check(units.find(unit), config, io.BytesIO(lines))
    assert (verdict.rows, verdict.rows_differ, verdict.first) == (lines.count(b"\n"), 0, None)

    at = lines.index(b"\n", len(lines) // 2) - 1  # lowest digit of an answer in the middle
    wrong = lines[:at] + (b"1" if lines[at:at + 1] != b"1" else b"0") + lines[at + 1:]
    verdict = pipe.check(units.find(unit), config, io.BytesIO(wrong))
    assert verdict.rows_differ == 1
    assert verdict.first is not None
    assert verdict.first["line"] == lines[:at].count(b"\n") + 1


def test_words_are_those_of_the_hex_file() -> None:
    """[olive §4.2] pair 0x85 with bias 2 stands in one word, the bias on top."""
    lines = b"".join(pipe.stimulus(units.find("ovp_decoder"), "int4", ["paper"], 0)).split()
    assert b"285" in lines


@pytest.mark.parametrize(("lines", "message"), [
    pytest.param(b"", "nothing was compared", id="nothing"),
    pytest.param(b"285\n", "line 1 must be the stimulus word, a space and the answer, got b'285'", id="no answer"),
    pytest.param(b"285 00000\n28 00000\n", "line 2 has 2 digits, a word has 3", id="digits"),
    pytest.param(b"2g5 00000\n", "holds 'g', which is no hex digit", id="no digit"),
])
def test_refusals(lines: bytes, message: str) -> None:
    with pytest.raises(Refused, match=message):
        pipe.check(units.find("ovp_decoder"), "int4", io.BytesIO(lines))


def test_an_unknown_bit_is_a_difference() -> None:
    good = echoed("ovp_decoder", "int4", ["paper"]).splitlines(keepends=True)[0]
    assert pipe.check(units.find("ovp_decoder"), "int4", io.BytesIO(good)).rows_differ == 0
    assert pipe.check(units.find("ovp_decoder"), "int4", io.BytesIO(good[:-2] + b"x\n")).rows_differ == 1


def test_a_case_must_begin() -> None:
    lines = echoed("olive_mac", "wrap", ["paper"]).splitlines(keepends=True)
    with pytest.raises(Refused, match="the first row must begin a case"):
        pipe.check(units.find("olive_mac"), "wrap", io.BytesIO(lines[2]))


def test_through_a_real_pipe() -> None:
    """A device in another process: it answers 0 to everything, which is wrong, and the shell sees 1."""
    refemu = f"{sys.executable} -m refemu"
    device = f"""{sys.executable} -c "import sys; [print(line.strip(), '00000') for line in sys.stdin]" """
    line = f"{refemu} generate --stdout --unit ovp_decoder --kinds paper | {device} | {refemu} check --stdin --unit"
    ran = subprocess.run(f"{line} ovp_decoder", shell=True, capture_output=True, text=True, timeout=120)
    assert ran.returncode == 1, ran.stderr
    assert ran.stdout.startswith("FAIL ")
    assert "port exponent, lane 0: got 0x0 = 0, want 0x" in ran.stdout


@pytest.mark.parametrize(("words", "message"), [
    pytest.param(["generate", "--stdout"], "exactly one --unit, got 0", id="no unit"),
    pytest.param(["generate", "--stdout", "--unit", "olive_mac", "--kinds", "model"], "kinds must be", id="model"),
    pytest.param(["check", "--stdin"], "--stdin needs --unit", id="check what"),
    pytest.param(["check"], "one of the arguments DIR --stdin is required", id="check nothing"),
])
def test_commands_refuse(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    assert message in capsys.readouterr().err
