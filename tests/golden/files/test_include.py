"""Headers agree with the manifest."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from refemu import golden
from refemu.arith.checks import Refused
from refemu.golden.files import include

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def manifest(made: Path) -> dict:
    return json.loads((made / "meter-w4" / "manifest.json").read_text())


def test_c_header_has_its_fixed_text(made: Path) -> None:
    text = (made / "blender-wrap" / "include" / "blender_vec.h").read_text()
    defined = dict(re.findall(r"#define (\w+) (\S+)", text))

    digest = json.loads((made / "blender-wrap" / "manifest.json").read_text())["self_sha256"]

    assert {
        "BLENDER_SET": '"blender-wrap"',
        "BLENDER_SHA256": f'"{digest}"',
        "BLENDER_ROWS": "28",
        "BLENDER_FIRST_BITS": "4",
        "BLENDER_FIRST_LANES": "1",
        "BLENDER_FIRST_TYPE": "uint8_t",
        "BLENDER_BOTH_BITS": "5",
        "BLENDER_BOTH_LANES": "2",
        "BLENDER_RATIO_TYPE": "uint16_t",
        "BLENDER_FLAG_OVERFLOW": "0x1u",
        "BLENDER_FLAG_UNSPECIFIED": "0x8u",
        "BLENDER_CONFIG_OVERFLOW": '"wrap"',
    }.items() <= defined.items()


def test_registers_have_distinct_names(made: Path) -> None:
    assert "#define METER_ST_TOTAL_BITS 4\n" in (made / "meter-w4" / "include" / "meter_vec.h").read_text()


def test_verilog_header_has_its_fixed_text(made: Path, manifest: dict) -> None:
    text = (made / "meter-w4" / "include" / "meter_vec.svh").read_text()
    parameters = dict(re.findall(r"localparam (\w+) = (\S+);", text))
    assert text.startswith(f"// meter-w4 sha256 {manifest['self_sha256']}\n")

    assert {
        "N": "12",
        "HAS_CARE": "0",
        "STIM_BITS": "5",
        "ADD_LSB": "0",
        "ADD_BITS": "3",
        "CLEAR_LSB": "3",
        "FIRST_LSB": "4",
        "GOLD_BITS": "120",
        "WIDE_LSB": "0",
        "WIDE_BITS": "40",
        "WIDE_LANES": "3",
        "CONFIG_BITS": "4",
    }.items() <= parameters.items()
    assert str(manifest["hex"]["stim.mem"]["word_bits"]) == parameters["STIM_BITS"]
    assert "localparam HAS_CARE = 1;" in (made / "blender-wrap" / "include" / "blender_vec.svh").read_text()


def test_lists_and_objects_are_written_by_item(manifest: dict) -> None:
    config = {"outlier": [2, 1], "inner": {"signed": True}}
    text = include.files({**manifest, "config": config})["meter_vec.h"].decode()

    assert "METER_CONFIG_OUTLIER_0 2\n" in text
    assert "METER_CONFIG_OUTLIER_1 1\n" in text
    assert "METER_CONFIG_INNER_SIGNED 1\n" in text


def test_a_port_may_be_called_flags(manifest: dict) -> None:
    text = json.dumps(manifest).replace('"out.wide"', '"out.flags"')
    header = include.files(json.loads(text))["meter_vec.h"].decode()

    assert "METER_FLAGS_TYPE uint64_t\n" in header
    assert "METER_ROW_FLAGS_TYPE uint8_t\n" in header


def test_ambiguous_name_is_rejected(manifest: dict) -> None:
    with pytest.raises(Refused, match="both be called CONFIG_A_0"):
        include.files({**manifest, "config": {"a": [1], "a_0": 2}})


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_c_compiles(made: Path) -> None:
    """Both headers in one file, every value used."""
    folder = made / "blender-wrap" / "include"
    program = (
        '#include "blender_vec.h"\n#include "blender_vec.h"\nBLENDER_FIRST_TYPE x[BLENDER_ROWS * BLENDER_BOTH_LANES];\n'
    )
    command = ["cc", "-std=c99", "-Wall", "-Werror", "-fsyntax-only", "-I", str(folder), "-x", "c", "-"]

    assert subprocess.run(command, input=program, text=True, check=False).returncode == 0


@pytest.mark.skipif(shutil.which("iverilog") is None, reason="no Icarus Verilog")
def test_verilog_compiles(made: Path, tmp_path: Path) -> None:
    source = tmp_path / "top.sv"
    source.write_text('module top;\n`include "blender_vec.svh"\nreg [STIM_BITS-1:0] stim [0:N];\nendmodule\n')
    folder = made / "blender-wrap" / "include"

    assert (
        subprocess.run(
            ["iverilog", "-g2012", "-Wall", "-I", folder, "-o", tmp_path / "top", source], check=False
        ).returncode
        == 0
    )


@pytest.mark.skipif(shutil.which("iverilog") is None, reason="no iverilog here; `make rtl` installs it")
def test_testbench_of_the_page_writes_answers_that_pass(tmp_path: Path) -> None:
    """docs/set-format.md's, on a decoder of the examples and on the paper's rows."""
    page, design = ROOT.joinpath("docs/set-format.md"), ROOT.joinpath("examples/rtl/ovp_decoder.v")
    bench = re.findall(r"```systemverilog\n(.*?)```", page.read_text(), re.DOTALL)[0].replace("my_", "ovp_")
    for theirs, unit in {"exp_o": "exponent", "int_o": "base_int"}.items():
        bench = bench.replace(theirs, unit)
    tmp_path.joinpath("tb.sv").write_text(re.sub(r"\.(\w+)_[io]\(", r".\1(", bench))
    (made,) = golden.generate(tmp_path / "vec", units=["ovp_decoder:int4"], kinds=["paper"], hex=True)
    include = f"-I{made.path}/include"
    subprocess.run(["iverilog", "-g2012", include, "-otb", "tb.sv", str(design)], cwd=tmp_path, check=True)
    ran = subprocess.run(["vvp", "tb"], cwd=tmp_path, check=True, capture_output=True, text=True)

    assert "differs" not in ran.stdout
    assert golden.diff(made.path, tmp_path / "answers.mem").equal
    tmp_path.joinpath("vec/ovp_decoder-int4/hex/gold.mem").write_text("00000\n")
    ran = subprocess.run(["vvp", "tb"], cwd=tmp_path, check=False, capture_output=True, text=True)
    assert ran.returncode == 1 and "short file" in ran.stdout
