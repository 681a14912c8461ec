"""Benches made from descriptors: they compile, a device that is not there fails, lost or short vectors fail loudly."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from refemu import units
from refemu.cli import main
from refemu.golden import rtl

CONFIGS = [pytest.param(name, config, id=f"{name}-{config}")
           for name in units.names() for config in units.find(name).configs]
needs_icarus = pytest.mark.skipif(shutil.which("iverilog") is None, reason="no iverilog here; `make rtl` installs it")

DEVICE = """
module outlier_decoder (input wire [3:0] code, input wire [3:0] bias,
                        output wire [3:0] exponent, output wire [3:0] base_int);
  wire [3:0] magnitude = code[2:0] == 0 ? 4'd0 : {3'b001, code[0]};
  assign exponent = bias + {2'b00, code[2:1]};
  assign base_int = code[3] ? -magnitude : magnitude;
endmodule
"""


@pytest.mark.parametrize(("unit", "config"), CONFIGS)
def test_every_unit_has_a_bench(unit: str, config: str) -> None:
    files = rtl.files(units.find(unit), config)
    assert set(files) == {f"{unit}.v", f"tb_{unit}.v", f"test_{unit}.py", "Makefile"}
    bench = files[f"tb_{unit}.v"].decode()
    assert "!==" in bench and "$fatal" in bench and "$finish" in bench and "$$" not in bench
    compile(files[f"test_{unit}.py"], "bench", "exec")
    assert ("input  wire clk," in files[f"{unit}.v"].decode()) == (units.find(unit).timing == "event")


@pytest.fixture
def exported(tmp_path: Path) -> Path:
    folder = tmp_path / "rtl"
    folder.mkdir()
    (folder / "outlier_decoder.v").write_text(DEVICE)
    assert main(["export", "rtl", "outlier_decoder", "-o", str(folder)]) == 0
    return folder


def icarus(folder: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    command = ["make", "-s", "icarus", f"PYTHON={sys.executable}", *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120)


@needs_icarus
def test_a_device_that_is_right_passes_every_row(exported: Path) -> None:
    assert (exported / "outlier_decoder.v").read_text() == DEVICE  # what was there stays
    ran = icarus(exported)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "\nPASS " in ran.stdout


def _mutant(folder: Path) -> None:
    (folder / "outlier_decoder.v").write_text(DEVICE.replace("code[2:1]}", "code[1:0]}"))


def _absent(folder: Path) -> None:
    (folder / "outlier_decoder.v").write_text(DEVICE.split("wire [3:0] magnitude")[0] + "endmodule\n")


def _mem(name: str, change: str) -> object:
    def spoil(folder: Path) -> None:
        file = folder / "outlier_decoder-e2m1" / "hex" / name
        lines = file.read_text().splitlines()
        if change == "missing":
            file.unlink()
        elif change == "short":
            file.write_text("\n".join(lines[:-5]) + "\n")
        elif change == "long":
            file.write_text("\n".join([*lines[:-1], lines[1], lines[-1]]) + "\n")
        else:
            at = len(lines) // 2
            file.write_text("\n".join([*lines[:at], f"{int(lines[at], 16) ^ 1:0{len(lines[at])}x}", *lines[at + 1:]]))
    return spoil


@needs_icarus
@pytest.mark.parametrize(("spoil", "message"), [
    pytest.param(_mutant, "FAIL row", id="mutant"),
    pytest.param(_absent, "FAIL row 0", id="device absent"),
    pytest.param(_mem("stim.mem", "missing"), "FAIL cannot open", id="stimulus missing"),
    pytest.param(_mem("gold.mem", "missing"), "FAIL cannot open", id="answers missing"),
    pytest.param(_mem("stim.mem", "short"), "FAIL no sentinel in stim.mem", id="stimulus short"),
    pytest.param(_mem("gold.mem", "short"), "FAIL no sentinel in gold.mem", id="answers short"),
    pytest.param(_mem("gold.mem", "long"), "FAIL no sentinel in gold.mem", id="answers long"),
    pytest.param(_mem("gold.mem", "flip"), "FAIL row", id="bit flipped"),
])
def test_what_is_wrong_fails_loudly(spoil: object, message: str, exported: Path) -> None:
    spoil(exported)  # type: ignore[operator]
    ran = icarus(exported, "CHECK=true")
    assert ran.returncode != 0
    assert message in ran.stdout + ran.stderr


@needs_icarus
def test_answers_are_written_for_diff(exported: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`+DUT` goes on after the first difference; that names the port."""
    _mutant(exported)
    assert icarus(exported, "CHECK=true").returncode != 0
    vectors, answers = exported / "outlier_decoder-e2m1", exported / "dut.mem"

    ran = subprocess.run(["vvp", "-n", "build/outlier_decoder.vvp", f"+VEC={vectors}", f"+DUT={answers}"], cwd=exported,
                         capture_output=True, text=True, timeout=120)

    assert ran.returncode != 0
    assert "  exponent: got " in ran.stdout and "  base_int: got " not in ran.stdout
    assert main(["diff", str(vectors), str(answers)]) == 1
    differ = re.search(r"^(\d+) of \d+ rows differ", capsys.readouterr().out, re.MULTILINE)
    assert differ and f"FAIL {differ[1]} of " in ran.stdout


@needs_icarus
def test_repeated_rows_pass(exported: Path) -> None:
    assert icarus(exported, "CHECK=true").returncode == 0
    words = ["vvp", "-n", "build/outlier_decoder.vvp", f"+VEC={exported / 'outlier_decoder-e2m1'}", "+REPEAT=3"]

    assert "PASS " in subprocess.run(words, cwd=exported, capture_output=True, text=True, timeout=120).stdout


@needs_icarus
def test_a_device_of_several_files(exported: Path) -> None:
    top, rest = DEVICE.replace("module outlier_decoder", "module inner"), "wrap.v"
    ports = ".code(code), .bias(bias), .exponent(exponent), .base_int(base_int)"
    (exported / "inner.v").write_text(top)
    (exported / rest).write_text(DEVICE.split("wire [3:0] magnitude")[0] + f"  inner core ({ports});\nendmodule\n")

    assert icarus(exported, "CHECK=true", f"DEVICE=inner.v {rest}").returncode == 0


@needs_icarus
def test_stale_vectors_are_found_before_the_bench_runs(exported: Path) -> None:
    """The files of another campaign, whole in themselves."""
    _mem("gold.mem", "flip")(exported)  # type: ignore[operator]
    ran = icarus(exported)
    assert ran.returncode != 0
    assert "hex/gold.mem" in ran.stdout
    assert "FAIL row" not in ran.stdout + ran.stderr
