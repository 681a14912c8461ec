"""Logs of testbenches: passes, and decoded failing rows."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from refemu import golden
from refemu.arith.checks import Refused
from refemu.cli import main
from refemu.golden.report import logs
from tests.golden.report.conftest import log_of

DIGEST = "0" * 64
DEVICE = """
module outlier_decoder (input wire [3:0] code, input wire [3:0] bias,
                        output wire [3:0] exponent, output wire [3:0] base_int);
  wire [3:0] magnitude = code[2:0] == 0 ? 4'd0 : {3'b001, code[0]};
  assign exponent = bias + {2'b00, code[2:1]};
  assign base_int = SIGN;
endmodule
"""


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (f"PASS 12 rows of a-b, sha256 {DIGEST}\n", ""),
        (f"PASS 12 rows of a-b, sha256 {DIGEST}, in 0.1 s\n", ""),
        ("PASS 12 rows\n", "the simulation ended before the testbench printed PASS"),
        (f" PASS 12 rows of a-b, sha256 {DIGEST}\n", "the simulation ended before the testbench printed PASS"),
        ("", "the simulation ended before the testbench printed PASS"),
        (f"PASS 12 rows of a-b, sha256 {DIGEST}\nFAIL row 3: x\n", "FAIL row 3: x"),
        (f"\x1b[32mPASS 12 rows of a-b, sha256 {DIGEST}\x1b[0m\n", ""),
        ("\x1b[31mFAIL row 3: x\x1b[0m\n", "FAIL row 3: x"),
        ("%Fatal: tb.v:3: FAIL no sentinel in stim.mem\n", "%Fatal: tb.v:3: FAIL no sentinel in stim.mem"),
    ],
)
def test_only_the_pass_line_passes(tmp_path: Path, text: str, reason: str) -> None:
    (tmp_path / "a.log").write_text(text)
    assert logs.read(tmp_path / "a.log").reason == reason


@pytest.mark.parametrize(("code", "reason"), [("0", ""), ("1", "exit code 1"), ("124", "exit code 124")])
def test_the_exit_code_of_a_bench_counts(tmp_path: Path, code: str, reason: str) -> None:
    (tmp_path / "build").mkdir()
    (tmp_path / "build" / "icarus.log").write_text(f"PASS 12 rows of a-b, sha256 {DIGEST}\n")
    (tmp_path / "build" / "icarus.code").write_text(f"{code}\n")
    assert logs.read(tmp_path / "build" / "icarus.log").code == ""  # no testbench next to it
    (tmp_path / "tb_a.v").touch()
    assert logs.read(tmp_path / "build" / "icarus.log").reason == reason


@pytest.mark.parametrize(
    ("text", "ours"),
    [
        ("everything is fine\n", False),
        ("1 FAILED, FAIL\n", False),
        (f"PASS 12 rows of a-b, sha256 {DIGEST}\n", True),
        ("FAIL row 3: out.y is 01, want 0x3\n", True),
        ("** tb FAIL 3 of 7 rows differ **\n", True),
    ],
)
def test_foreign_logs_are_ignored(tmp_path: Path, text: str, ours: bool) -> None:
    (tmp_path / "a.log").write_text(text)
    assert logs.read(tmp_path / "a.log").is_of_bench == ours


def test_failing_rows_are_decoded(run: Path) -> None:
    """If a testbench stops, only the earlier rows are known; if it continues, all are."""
    log, folder = run / "bench" / "build" / "icarus.log", run / "bench" / "outlier_decoder-e2m1"
    loaded = golden.load(folder)
    first = logs.difference(logs.read(log), loaded)
    log.write_text(log_of(run / "bench", False))
    every = logs.difference(logs.read(log), loaded)

    assert first and first.first and every and every.first
    assert (first.first.array, first.first.got.decoded, first.first.want.decoded) == ("out.base_int", "5", "-3")
    assert (first.rows, first.rows_differ) == (first.first.row + 1, 1)
    assert (every.rows, every.first) == (loaded.rows, first.first)
    assert every.rows_differ == sum(line.startswith("FAIL row") for line in log.read_text().splitlines()) > 1


def test_bits_that_are_x_are_shown(run: Path) -> None:
    log, folder = run / "bench" / "build" / "icarus.log", run / "bench" / "outlier_decoder-e2m1"
    log.write_text(log.read_text().replace("got 5", "got x"))
    difference = logs.difference(logs.read(log), golden.load(folder))

    assert difference and difference.first and difference.first.got.bits == "xxxx"


@pytest.mark.parametrize(("old", "new"), [("row 45:", "row 4500:"), ("want d2", "want d3"), ("row 45:", "row 44:")])
def test_rows_of_another_set_are_not_decoded(run: Path, old: str, new: str) -> None:
    log, folder = run / "bench" / "build" / "icarus.log", run / "bench" / "outlier_decoder-e2m1"
    assert old in log.read_text()
    log.write_text(log.read_text().replace(old, new))

    with pytest.raises(Refused, match="its failing rows differ from those of outlier_decoder-e2m1"):
        logs.difference(logs.read(log), golden.load(folder))


def test_lines_without_words_give_no_difference(tmp_path: Path, run: Path) -> None:
    (tmp_path / "a.log").write_text("FAIL row 3: out.base_int is 0101, want 0x3; refemu step\n")
    log = logs.read(tmp_path / "a.log")
    assert log.words == {3: ("", "")}
    assert logs.difference(log, golden.load(run / "bench" / "outlier_decoder-e2m1")) is None


@pytest.mark.skipif(shutil.which("iverilog") is None, reason="no iverilog here; `make rtl` installs it")
@pytest.mark.parametrize(("sign", "passes"), [("code[3] ? -magnitude : magnitude", True), ("magnitude", False)])
def test_logs_of_real_benches_are_read(tmp_path: Path, sign: str, passes: bool) -> None:
    (tmp_path / "outlier_decoder.v").write_text(DEVICE.replace("SIGN", sign))
    assert main(["export", "rtl", "outlier_decoder", "-o", str(tmp_path)]) == 0
    command = ["make", "-s", "icarus", f"PYTHON={sys.executable}", "CHECK=true", "ARGS=+ALL"]
    subprocess.run(command, cwd=tmp_path, capture_output=True, timeout=120, check=False)
    log, loaded = logs.read(tmp_path / "build" / "icarus.log"), golden.load(tmp_path / "outlier_decoder-e2m1")

    assert log.bench and (log.reason == "") == passes
    if passes:
        assert log.passed == (loaded.rows, loaded.name, loaded.manifest["self_sha256"])
        return
    difference = logs.difference(log, loaded)
    assert difference and difference.ports.keys() == {"out.base_int"}
    assert (difference.rows, difference.rows_differ) == (loaded.rows, len(log.words))
