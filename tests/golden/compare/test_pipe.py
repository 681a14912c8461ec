"""Pipes: a correct device passes, a faulty one is reported by line, and silence is not success."""

import hashlib
import io
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable

import pytest

from refemu import units
from refemu.arith.checks import Refused
from refemu.cli import main
from refemu.golden.compare import pipe
from refemu.golden.make.rows import stacked


def echoed(unit_name: str, config: str, kinds: list[str]) -> bytes:
    """The lines of the unit itself as a device: the check's own expectation as text."""
    unit = units.find(unit_name)
    *lines, end = b"".join(pipe.stimulus(unit, config, kinds, 0)).splitlines(keepends=True)
    asked, _, _ = pipe._read(
        unit, unit.configs[config], [line.strip() + b" " + b"0" * digits(unit, config) + b"\n" for line in lines], 0
    )
    blocks = list(pipe._expected(unit, unit.configs[config], asked))
    outputs = {
        port.name: stacked([block.arrays[f"out.{port.name}"] for block in blocks])
        for port in unit.ports(unit.configs[config]).outputs
    }
    layout = pipe._layouts(unit, unit.configs[config])[1]
    words = b"".join(pipe.hexfile.lines(layout, outputs)).splitlines(keepends=True)
    return b"".join(line.strip() + b" " + word for line, word in zip(lines, words, strict=True)) + end


def digits(unit: units.unit.Unit, config: str) -> int:
    return -(-pipe.hexfile.width(pipe._layouts(unit, unit.configs[config])[1]) // 4)


@pytest.mark.parametrize(("unit", "config"), [("ovp_decoder", "int4"), ("olive_mac", "wrap"), ("olive_pe8", "wrap")])
def test_unit_passes_and_a_flipped_bit_fails(unit: str, config: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cases of different lengths, and chunks that end between them."""
    monkeypatch.setattr(pipe, "CHUNK", 100)
    lines = echoed(unit, config, ["paper", "edge", "random"])
    diagnosis = pipe.check(units.find(unit), config, io.BytesIO(lines))
    assert diagnosis == pipe.Outcome(lines.count(b"\n") - 1, 0, None) and diagnosis.passed

    at = lines.index(b"\n", len(lines) // 2) - 1  # lowest digit of an answer in the middle
    wrong = lines[:at] + (b"1" if lines[at : at + 1] != b"1" else b"0") + lines[at + 1 :]
    diagnosis = pipe.check(units.find(unit), config, io.BytesIO(wrong))
    assert diagnosis.rows_differ == 1
    assert diagnosis.first is not None
    assert diagnosis.first["line"] == lines[:at].count(b"\n") + 1


def test_words_are_those_of_the_hex_file() -> None:
    """[olive §4.2] pair 0x85 with bias 2 is one word, the bias on top."""
    lines = b"".join(pipe.stimulus(units.find("ovp_decoder"), "int4", ["paper"], 0)).split()
    assert b"285" in lines


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        pytest.param(b"", "nothing was compared", id="nothing"),
        pytest.param(b"285\n", "line 1 must be the stimulus word, a space and the answer, got '285'", id="no answer"),
        pytest.param(b"285 00000\n28 00000\n", "line 2 must have 3 digits, got 2", id="digits"),
        pytest.param(b"2g5 00000\n", "has 'g', which is not a hex digit", id="no digit"),
        pytest.param(b"285 " + b"0" * 10**6, "a line has at most 272 bytes", id="endless line"),
        pytest.param(
            b"// end rows=1 sha256=" + b"0" * 64 + b" 00000\n", "must be the end line", id="end line answered"
        ),
        pytest.param(b"// end rows=0 sha256=" + b"0" * 64 + b"\n", "nothing was compared", id="end line alone"),
    ],
)
def test_invalid_lines_are_rejected(lines: bytes, message: str) -> None:
    with pytest.raises(Refused, match=message):
        pipe.check(units.find("ovp_decoder"), "int4", io.BytesIO(lines))


def test_an_unknown_bit_is_a_difference() -> None:
    good = echoed("ovp_decoder", "int4", ["paper"]).splitlines(keepends=True)[0]
    assert pipe.check(units.find("ovp_decoder"), "int4", io.BytesIO(good)).rows_differ == 0
    assert pipe.check(units.find("ovp_decoder"), "int4", io.BytesIO(good[:-2] + b"x\n")).rows_differ == 1


def test_first_row_must_begin_a_case() -> None:
    lines = echoed("olive_mac", "wrap", ["paper"]).splitlines(keepends=True)
    with pytest.raises(Refused, match="the first row must begin a case"):
        pipe.check(units.find("olive_mac"), "wrap", io.BytesIO(lines[2]))


def test_faulty_device_in_a_real_pipe_fails() -> None:
    """A device in another process answers 0 to everything; the exit code is 1."""
    refemu = f"{sys.executable} -m refemu"
    answer = "line.strip() + ' 00000' * (line[0] != '/')"
    device = f"""{sys.executable} -c "import sys; [print({answer}) for line in sys.stdin]" """
    line = f"{refemu} generate --stdout --unit ovp_decoder --kinds paper | {device} | {refemu} check --stdin --unit"
    ran = subprocess.run(f"{line} ovp_decoder", shell=True, capture_output=True, text=True, timeout=120)
    assert ran.returncode == 1, ran.stderr
    assert ran.stdout.startswith("FAIL ")
    assert "port exponent, lane 0: got 0x0 = 0, want 0x" in ran.stdout


def test_nonblocking_input_is_awaited(monkeypatch: pytest.MonkeyPatch) -> None:
    """A parent may pass on a non-blocking end: no data yet does not mean the end."""
    source, sink = os.pipe()
    os.set_blocking(source, False)

    def answer() -> None:
        with open(sink, "wb") as stream:
            stream.write(echoed("ovp_decoder", "int4", ["paper"]))

    sender = threading.Timer(0.05, answer)
    with open(source) as stream:
        monkeypatch.setattr(sys, "stdin", stream)
        sender.start()
        assert main(["check", "--stdin", "--unit", "ovp_decoder"]) == 0
    sender.join()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        pytest.param(["generate", "--stdout"], "exactly one --unit, got 0", id="no unit"),
        pytest.param(["generate", "--stdout", "--unit", "olive_mac", "--kinds", "model"], "kinds must be", id="model"),
        pytest.param(["check", "--stdin"], "--stdin needs --unit", id="check what"),
        pytest.param(["check", "--rows", "3", "."], "--rows needs --stdin", id="rows of a set"),
        pytest.param(["check", "--stdin", "--unit", "ovp_decoder", "--rows", "0"], "at least 1", id="no rows"),
        pytest.param(["check"], "one of the arguments DIR --stdin is required", id="check nothing"),
    ],
)
def test_invalid_command_lines_are_rejected(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    assert message in capsys.readouterr().err


DECODER = units.find("ovp_decoder")


def lost(lines: list[bytes], rows: int | None = None) -> str:
    """The loss that the check reports for `lines`, whose answers are right."""
    diagnosis = pipe.check(DECODER, "int4", io.BytesIO(b"".join(lines)), rows)
    assert diagnosis.rows_differ == 0 and diagnosis.passed == (not diagnosis.lost)
    return diagnosis.lost


@pytest.fixture(scope="module")
def answered() -> list[bytes]:
    """Right answers to the random cases of the decoder, and the end line."""
    return echoed("ovp_decoder", "int4", ["random"]).splitlines(keepends=True)


def test_end_line_has_count_and_digest() -> None:
    lines = b"".join(pipe.stimulus(DECODER, "int4", ["random"], 0))
    words, end = lines[: lines.rindex(b"// ")], lines[lines.rindex(b"// ") :]
    assert end == f"// end rows={words.count(10)} sha256={hashlib.sha256(words).hexdigest()}\n".encode()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        pytest.param(lambda lines: lines, "", id="all"),
        pytest.param(lambda lines: lines + lines, "", id="two streams in sequence"),
        pytest.param(lambda lines: [line.upper() for line in lines[:-1]] + lines[-1:], "", id="capitals"),
        pytest.param(lambda lines: lines[:50], "no end line came back after 50 answers", id="died"),
        pytest.param(lambda lines: lines[:-1], "no end line came back after 512 answers", id="end line dropped"),
        pytest.param(
            lambda lines: lines + lines[:50], "no end line came back after 50 answers", id="died in the second"
        ),
        pytest.param(lambda lines: lines[:7] + lines[8:], "512 rows were sent, 511 answers came back", id="a row lost"),
        pytest.param(
            lambda lines: lines[:7] + lines[6:], "512 rows were sent, 513 answers came back", id="a row twice"
        ),
        pytest.param(lambda lines: [lines[1], lines[0], *lines[2:]], "differ from those sent", id="rows swapped"),
        pytest.param(
            lambda lines: lines[:7] + lines[6:7] + lines[8:], "differ from those sent", id="a row over another"
        ),
        pytest.param(lambda lines: lines + lines[-1:], "512 rows were sent, 0 answers came back", id="end line twice"),
    ],
)
def test_lost_rows_are_reported(
    change: Callable[[list[bytes]], list[bytes]], message: str, answered: list[bytes]
) -> None:
    assert len(answered) == 513
    assert message in lost(change(answered)) and bool(message) == bool(lost(change(answered)))


@pytest.mark.parametrize(
    ("answers", "rows", "message"),
    [
        (512, 512, ""),
        (511, 512, "512 rows were sent (--rows), 511 answers came back"),
        (512, 511, "511 rows were sent (--rows), 512 answers came back"),
        (513, 512, ""),
        (513, 511, "511 rows were sent (--rows), 512 answers came back"),
    ],
)
def test_number_of_rows_replaces_the_end_line(answers: int, rows: int, message: str, answered: list[bytes]) -> None:
    assert lost(answered[:answers], rows) == message


def test_endless_case_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of a case are checked together, so a case has a maximum length."""
    monkeypatch.setattr(pipe, "CHUNK", 2)
    _, begin, row = echoed("olive_mac", "wrap", ["paper"]).splitlines(keepends=True)[:3]
    assert (begin[:1], row[:1]) == (b"2", b"1")  # bit `first` is the higher of two bits
    with pytest.raises(Refused, match="a case has at most 32 rows"):
        pipe.check(units.find("olive_mac"), "wrap", io.BytesIO(begin + row * 40))


def test_chunks_are_bounded_in_bytes(monkeypatch: pytest.MonkeyPatch, answered: list[bytes]) -> None:
    monkeypatch.setattr(pipe, "CHUNK_BYTES", 80)  # a row has 3 + 5 digits
    stream = io.BytesIO(b"".join(answered))
    assert max(map(len, pipe._chunks(DECODER, DECODER.configs["int4"], stream))) == 10
    assert lost(answered) == ""


def test_stopped_device_fails_with_its_answers_compared(
    answered: list[bytes], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def check(lines: list[bytes], *words: str) -> tuple[int, str]:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"".join(lines))))
        return main(["check", "--stdin", "--unit", "ovp_decoder", *words]), capsys.readouterr().out

    assert check(answered) == (0, "PASS 512\n")
    code, text = check(answered[:50])
    assert code == 1 and text.startswith("FAIL no end line came back") and "--rows N" in text
    assert check(answered[:50], "--rows", "50") == (0, "PASS 50\n")
    code, text = check(answered[:50], "--json")
    assert code == 1 and not json.loads(text)["passed"] and json.loads(text)["rows_differ"] == 0
    code, text = check([answered[0][:-2] + b"x\n", *answered[1:50]])
    assert code == 1 and text.startswith("FAIL 1 of 50 rows differ") and "\nFAIL no end line came back" in text
