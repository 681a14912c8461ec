"""Testbenches from descriptors: they compile; an absent device and lost or truncated vectors fail."""

import ast
import functools
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from refemu import golden, units
from refemu.cli import main
from refemu.golden.files import masks
from refemu.golden.rtl import bench as rtl
from refemu.units.ports import Port

CONFIGS = [
    pytest.param(name, config, id=f"{name}-{config}") for name in units.names() for config in units.find(name).configs
]
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
    made = {f"{unit}.v", f"shell_{unit}.v", f"tb_{unit}.v", f"test_{unit}.py", "ports.sh", "Makefile"}
    assert set(files) == made
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
def test_right_device_passes_every_row(exported: Path) -> None:
    assert (exported / "outlier_decoder.v").read_text() == DEVICE  # existing files are unchanged
    ran = icarus(exported)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    set_ = golden.load(exported / "outlier_decoder-e2m1")
    assert (
        f"\nPASS {set_.rows} rows of {set_.name}, sha256 {set_.manifest['self_sha256']}; ports exponent base_int; "
        in ran.stdout
    )


@needs_icarus
@pytest.mark.parametrize("name", ["a b", "semi;colon", "q'uote", 'd"q', "do$lar", "st*r", "am&p", "back\\slash", "ünï"])
def test_bench_builds_below_any_folder(name: str, tmp_path: Path, exported: Path) -> None:
    folder = tmp_path / name
    exported.rename(folder)
    ran = icarus(folder, "CHECK=true")

    assert ran.returncode == 0 and ran.stdout.startswith("PASS "), ran.stdout + ran.stderr


@needs_icarus
def test_unfilled_stub_is_named(exported: Path) -> None:
    (exported / "outlier_decoder.v").unlink()
    assert main(["export", "rtl", "outlier_decoder", "-o", str(exported)]) == 0
    ran = icarus(exported, "CHECK=true")

    assert ran.returncode != 0 and "no output is driven: is DEVICE still the stub that refemu export" in ran.stdout


def _mutant(folder: Path) -> None:
    (folder / "outlier_decoder.v").write_text(DEVICE.replace("code[2:1]}", "code[1:0]}"))


def _absent(folder: Path) -> None:
    (folder / "outlier_decoder.v").write_text(DEVICE.split("wire [3:0] magnitude")[0] + "endmodule\n")


def _inserted(line: str) -> object:
    def spoil(folder: Path) -> None:
        text = DEVICE.replace("endmodule", f"{line}\nendmodule")
        (folder / "outlier_decoder.v").write_text(f"`timescale 1ns/1ps\n{text}")

    return spoil


def _header(change: Callable[[str], str]) -> object:
    def spoil(folder: Path) -> None:
        file = folder / "outlier_decoder-e2m1" / "include" / "outlier_decoder_vec.svh"
        file.write_text(change(file.read_text()))

    return spoil


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
            file.write_text("\n".join([*lines[:at], f"{int(lines[at], 16) ^ 1:0{len(lines[at])}x}", *lines[at + 1 :]]))

    return spoil


@needs_icarus
@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        pytest.param(_mutant, "FAIL row", id="mutant"),
        pytest.param(_absent, "FAIL row 0", id="device absent"),
        pytest.param(_mem("stim.mem", "missing"), "FAIL cannot open", id="stimulus missing"),
        pytest.param(_mem("gold.mem", "missing"), "FAIL cannot open", id="answers missing"),
        pytest.param(_mem("stim.mem", "short"), "FAIL no sentinel in stim.mem", id="stimulus short"),
        pytest.param(_mem("gold.mem", "short"), "FAIL no sentinel in gold.mem", id="answers short"),
        pytest.param(_mem("gold.mem", "long"), "FAIL no sentinel in gold.mem", id="answers long"),
        pytest.param(_mem("gold.mem", "flip"), "FAIL row", id="bit flipped"),
        pytest.param(_inserted("initial $finish;"), "the testbench printed PASS", id="ends at once"),
        pytest.param(_inserted("initial #3 $finish;"), "FAIL the simulation ended in row ", id="ends early"),
        pytest.param(_inserted("initial #3 $stop;"), "FAIL the simulation ended in row ", id="stops early"),
        pytest.param(_inserted("initial #10 force base_int = 4'bx;"), "FAIL row 8", id="x after a while"),
        pytest.param(_inserted("initial #10 force exponent = 4'bz;"), "FAIL row 8", id="z after a while"),
        pytest.param(
            _header(lambda text: text.replace("-e2m1 ", "-e2m2 ", 1)),
            "this bench is of outlier_decoder-e2m1, the set in ",
            id="set of another configuration",
        ),
        pytest.param(_header(lambda text: text.partition("\n")[2]), "FAIL no name and digest", id="set without a name"),
    ],
)
def test_faults_of_device_or_vectors_fail(spoil: object, message: str, exported: Path) -> None:
    spoil(exported)  # type: ignore[operator]
    ran = icarus(exported, "CHECK=true")
    assert ran.returncode != 0
    assert message in ran.stdout + ran.stderr
    assert not re.search("^PASS", ran.stdout + ran.stderr, re.MULTILINE)


@needs_icarus
def test_bench_rejects_a_different_set(exported: Path, tmp_path: Path) -> None:
    """A testbench built with one set runs another, of the same and of another configuration."""
    assert icarus(exported, "CHECK=true").returncode == 0
    (other,) = golden.generate(
        tmp_path / "same",
        units=["outlier_decoder"],
        configs=["e2m1"],
        hex=True,
        seed=1,
        kinds=["paper", "edge", "random"],
    )
    digest = golden.load(other.path).manifest["self_sha256"]
    assert digest != golden.load(exported / other.name).manifest["self_sha256"]

    def simulate() -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            ["vvp", "-n", "build/outlier_decoder.vvp", f"+VEC={other.path}"],
            cwd=exported,
            capture_output=True,
            text=True,
            timeout=120,
        )

    assert f" rows of outlier_decoder-e2m1, sha256 {digest}; " in simulate().stdout
    header = Path(other.path) / "include" / "outlier_decoder_vec.svh"
    header.write_text(header.read_text().replace("-e2m1 ", "-e2m2 ", 1))
    ran = simulate()
    assert ran.returncode != 0
    assert f"is of outlier_decoder-e2m1, the set in {other.path} is outlier_decoder-e2m2" in ran.stdout + ran.stderr


@needs_icarus
def test_all_prints_every_differing_row(exported: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _mutant(exported)
    ran = icarus(exported, "CHECK=true", "ARGS=+ALL +DUT=dut.mem")
    rows = [int(row) for row in re.findall(r"^FAIL row (\d+):", ran.stdout, re.MULTILINE)]

    assert ran.returncode != 0 and len(rows) > 1 and rows == sorted(set(rows))
    assert f"FAIL {len(rows)} of " in ran.stdout
    assert main(["diff", str(exported / "outlier_decoder-e2m1"), str(exported / "dut.mem"), "--json"]) == 1
    assert f'"rows_differ": {len(rows)}' in capsys.readouterr().out


@needs_icarus
def test_diff_ignores_answers_of_earlier_device(exported: Path) -> None:
    make = ["make", "-s", "diff", f"PYTHON={sys.executable}", "CHECK=true"]
    run = functools.partial(subprocess.run, make, cwd=exported, capture_output=True, text=True, timeout=120)
    assert run().returncode == 0
    _inserted("initial $finish;")(exported)  # type: ignore[operator]

    ran = run()
    assert ran.returncode != 0
    assert "build/dut.mem: no such file" in ran.stderr


@pytest.mark.parametrize("target", ["icarus", "cocotb"])
def test_python_without_refemu_is_reported(target: str, exported: Path, tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\nexit 1\n")
    python.chmod(0o755)

    ran = subprocess.run(
        ["make", target, f"PYTHON={python}", *(["CHECK=true"] if target == "cocotb" else [])],
        cwd=exported,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert ran.returncode != 0
    assert "PYTHON=" in ran.stderr.split("make: ***")[0]
    assert ("CHECK=true" in ran.stderr) == (target == "icarus")


@needs_icarus
def test_answers_are_written_for_diff(exported: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`+DUT` continues after the first difference, which names the port."""
    _mutant(exported)
    assert icarus(exported, "CHECK=true").returncode != 0
    vectors, answers = exported / "outlier_decoder-e2m1", exported / "dut.mem"

    ran = subprocess.run(
        ["vvp", "-n", "build/outlier_decoder.vvp", f"+VEC={vectors}", f"+DUT={answers}"],
        cwd=exported,
        capture_output=True,
        text=True,
        timeout=120,
    )

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
def test_device_of_several_files_passes(exported: Path) -> None:
    top, rest = DEVICE.replace("module outlier_decoder", "module inner"), "wrap.v"
    ports = ".code(code), .bias(bias), .exponent(exponent), .base_int(base_int)"
    (exported / "inner.v").write_text(top)
    (exported / rest).write_text(DEVICE.split("wire [3:0] magnitude")[0] + f"  inner core ({ports});\nendmodule\n")

    assert icarus(exported, "CHECK=true", f"DEVICE=inner.v {rest}").returncode == 0


@needs_icarus
def test_stale_vectors_are_found_before_the_bench_runs(exported: Path) -> None:
    """The files of another campaign are complete in themselves."""
    _mem("gold.mem", "flip")(exported)  # type: ignore[operator]
    ran = icarus(exported)
    assert ran.returncode != 0
    assert "hex/gold.mem" in ran.stdout
    assert "FAIL row" not in ran.stdout + ran.stderr


def contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("words", [["bfp_aligner", "--config", "half_even"], ["outlier_decoder"]])
def test_folder_has_one_configuration(words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A second export would leave a testbench that runs the first set, or none."""
    assert main(["export", "rtl", "bfp_aligner", "-o", str(tmp_path)]) == 0
    before = contents(tmp_path)

    assert main(["export", "rtl", *words, "-o", str(tmp_path)]) == 2
    assert "belongs to another set than " in capsys.readouterr().err
    assert contents(tmp_path) == before


def test_second_export_preserves_changes_of_the_user(exported: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make = exported / "Makefile"
    make.write_text(make.read_text().replace("ARGS      ?=", "ARGS      ?= +ALL"))
    (exported / "test_outlier_decoder.py").unlink()
    before = contents(exported)

    assert main(["export", "rtl", "outlier_decoder", "-o", str(exported)]) == 0
    assert f"not overwritten: {make}; this version" in capsys.readouterr().out
    fresh = {exported / "test_outlier_decoder.py"}
    assert {path: data for path, data in contents(exported).items() if path not in fresh} == before
    assert fresh <= set(contents(exported))


@pytest.mark.parametrize(("shown", "wrong"), [("1010", False), ("10x0", False), ("101z", True), ("0010", True)])
def test_unknown_bit_differs_under_the_mask(shown: str, wrong: bool) -> None:
    """cocotb agrees with `masks.differing` and the Verilog testbench: a masked bit is not compared."""
    bench = rtl.files(units.find("bfp_aligner"), "paper")["test_bfp_aligner.py"]
    source = next(
        node for node in ast.parse(bench).body if isinstance(node, ast.FunctionDef) and node.name == "differs"
    )
    names: dict[str, Any] = {}
    exec(ast.unparse(source), names)
    want, got = (np.array([int(word, 2)], np.uint8) for word in ("1010", shown.replace("x", "0").replace("z", "0")))
    unknown = np.array([int("".join("01"[bit in "xz"] for bit in shown), 2)], np.uint8)
    mask = np.array([0b1101], np.uint8)

    assert names["differs"](shown, 0b1010, 0b1101) is wrong
    assert bool(masks.differing(want, got, Port("y", 4), mask, unknown)[0]) is wrong
    assert names["differs"](shown, 0b1010, -1) is (shown != "1010")
