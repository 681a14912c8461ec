"""Suites for projects that do not know refemu: the form, and each runner on right and wrong multiply-accumulators."""

import hashlib
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import fastjsonschema
import pytest

from refemu import golden
from refemu.arith.checks import Refused
from refemu.cli import main, schema
from refemu.golden.suite import suite
from refemu.units.unit import Kind
from tests import sanitizers
from tests.golden import committed

SET = committed.VECTORS / "olive_mac-wrap"
IN, OUT = 49, 46

PYTHON = """
acc = 0
def signed(value, bits):
    return (value ^ 1 << bits - 1) - (1 << bits - 1)
def device(first, x):
    global acc
    if first:
        acc = 0
    shift = x["a_exp"][0] + x["b_exp"][0]
    product = signed(x["a_int"][0], 4) * signed(x["b_int"][0], 4)
    exact = acc + (product << shift)
    if x["load"][0]:
        shift, product, exact = 0, 0, signed(x["acc_in"][0], 32)
    acc = signed(exact & 0xFFFFFFFF, 32)
    return {"shift": [shift], "product": [product & 255], "acc": [acc & 0xFFFFFFFF], "overflow": [int(acc != exact)]}
"""
C = """
#include <stdint.h>
#include <string.h>
static int64_t acc;
static int64_t part(uint64_t w, int at, int bits) { return (int64_t)(w << (64 - at - bits)) >> (64 - bits); }
void device(int first, const unsigned char *in, unsigned char *out) {
    uint64_t w = 0, r;
    memcpy(&w, in, 7);
    if (first) acc = 0;
    int shift = (int)((w >> 33 & 15) + (w >> 41 & 15));
    int64_t product = part(w, 37, 4) * part(w, 45, 4), exact = acc + product * ((int64_t)1 << shift);
    if (w & 1) shift = 0, product = 0, exact = part(w, 1, 32);
    acc = (int32_t)exact;
    r = (uint64_t)shift | (uint64_t)(product & 255) << 5 | (uint64_t)(acc & 0xffffffff) << 13;
    r |= (uint64_t)(acc != exact) << 45;
    memcpy(out, &r, 6);
}
"""
VERILOG = """
module device(input clk, input rst, input [48:0] in, output reg [45:0] out);
  reg signed [31:0] acc;
  reg signed [47:0] exact;
  reg signed [7:0] product;
  reg [4:0] shift;
  always @(posedge clk) if (rst) acc <= 0; else begin
    shift = in[36:33] + in[44:41];
    product = $signed(in[40:37]) * $signed(in[48:45]);
    exact = product;
    exact = acc + (exact <<< shift);
    if (in[0]) begin shift = 0; product = 0; exact = {{16{in[32]}}, in[32:1]}; end
    acc <= exact[31:0];
    out <= {exact != {{16{exact[31]}}, exact[31:0]}, exact[31:0], product, shift};
  end
endmodule
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A suite of one set."""
    out = tmp_path_factory.mktemp("suite") / "made"
    suite.write(out, [str(SET)])
    return out


def rewrite(path: Path, care: int, result: str) -> None:
    """Flip bit 0 of every expected output, with these bits 0 of the masks and these results."""

    def changed(match: re.Match[str]) -> str:
        out, mask = (int(match[group], 16) for group in ("out", "care"))
        return f'"out": "{out ^ 1:012x}", "care": "{mask & ~1 | care:012x}", "result": "{result}"'

    fields = r'"out": "(?P<out>\w+)", "care": "(?P<care>\w+)", "result": "\w+"'
    path.write_text(re.sub(fields, changed, path.read_text("ascii")), "ascii")


def document(folder: Path) -> Any:
    return json.loads((folder / "olive_mac-wrap.json").read_text("ascii"))


def run(command: list[str], folder: Path) -> tuple[int, str]:
    """Exit code and last line printed."""
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    return done.returncode, (done.stdout + done.stderr).strip().splitlines()[-1]


def in_python(folder: Path, text: str) -> int:
    (folder / "device.py").write_text(text)
    return run([sys.executable, "run.py", "olive_mac-wrap.json", "device.py"], folder)[0]


def in_c(folder: Path, text: str) -> int:
    (folder / "device.c").write_text(text)
    command = ["cc", "-O1", "-Wall", "-Werror", *sanitizers.flags("cc"), f"-DIN={IN}", f"-DOUT={OUT}"]
    subprocess.run([*command, "run.c", "device.c", "-o", "checked"], cwd=folder, check=True)
    return run(["./checked", "olive_mac-wrap.json"], folder)[0]


def in_verilog(folder: Path, text: str) -> int:
    (folder / "device.v").write_text(text)
    command = ["iverilog", "-g2012", f"-DIN={IN}", f"-DOUT={OUT}", "-o", "simulated", "run.sv", "device.v"]
    subprocess.run(command, cwd=folder, check=True)
    return run(["vvp", "simulated", "+FILE=olive_mac-wrap.json"], folder)[0]


@pytest.mark.long
@pytest.mark.parametrize(
    ("program", "runner", "right", "wrong"),
    [
        ("", in_python, PYTHON, ("if first:", "if False:")),
        ("cc", in_c, C, ("if (first) acc = 0;", "")),
        ("iverilog", in_verilog, VERILOG, ("if (rst) acc <= 0; else", "if (!rst)")),
    ],
    ids=["python", "c", "systemverilog"],
)
def test_runners_pass_the_right_and_fail_the_wrong(
    program: str,
    runner: Callable[[Path, str], int],
    right: str,
    wrong: tuple[str, str],
    made: Path,
    tmp_path: Path,
) -> None:
    """Wrong: no reset; exponents that are joined instead of added; another bit 0, where it counts and is valid."""
    if program and not shutil.which(program):
        pytest.skip(f"no {program} here")
    joined = right.replace("15) + (", "15) | (").replace("[0] + ", "[0] | ").replace("33] + ", "33] | ")
    changed = [right.replace(*wrong), joined]
    assert right not in changed
    assert runner(made, right) == 0
    assert [runner(made, text) for text in changed] == [1, 1]
    folder = tmp_path / "rewritten"
    for care, result, code in ((1, "valid", 1), (0, "valid", 0), (1, "acceptable", 0)):
        shutil.copytree(made, folder, dirs_exist_ok=True)
        rewrite(folder / "olive_mac-wrap.json", care, result)
        assert runner(folder, right) == code, (care, result)


def test_file_follows_schema_and_has_every_row(made: Path) -> None:
    fastjsonschema.compile(schema.schema("suite"))(document(made))
    written, loaded = document(made), golden.load(SET)
    tests = [test for group in written["testGroups"] for test in group["tests"]]
    assert (
        [test["tcId"] for test in tests]
        == list(range(1, loaded.rows + 1))
        == list(range(1, written["numberOfTests"] + 1))
    )
    for name, side in (("acc_in", "in"), ("acc", "out")):
        port = next(port for port in written["ports"][side] if port["name"] == name)
        got = [int(test[side], 16) >> port["lsb"] & (1 << port["bits"]) - 1 for test in tests]
        assert got == loaded.arrays[f"{side}.{name}"].tolist()
    assert {name for test in tests for name in test["flags"]} <= set(written["notes"])


def test_the_schema_has_every_kind_of_cases() -> None:
    group = schema.schema("suite")["properties"]["testGroups"]["items"]
    assert group["properties"]["type"]["enum"] == list(get_args(Kind))


@pytest.mark.parametrize("name", ["ovp_decoder-int4", "olive_mac-wrap"])
def test_rows_that_the_paper_leaves_open_are_acceptable(name: str, tmp_path: Path) -> None:
    """By a flag in a unit that has it, by the decision of their group in others."""
    suite.write(tmp_path, [str(committed.VECTORS / name)])
    groups = json.loads((tmp_path / f"{name}.json").read_text("ascii"))["testGroups"]
    tests = [(group["decision"], test) for group in groups for test in group["tests"]]
    for decision, test in tests:
        assert (test["result"] == "acceptable") == (decision is not None or "UNSPECIFIED" in test["flags"])
    assert {test["result"] for _, test in tests} == {"valid", "acceptable"}


def test_the_first_row_of_a_case_resets_registers(made: Path) -> None:
    """Cases follow each other; a row is the first of its case where the id changes."""
    tests = [test for group in document(made)["testGroups"] for test in group["tests"]]
    loaded, before = golden.load(SET), [None, *(test["case"] for test in tests)]
    assert [test["first"] for test in tests] == [
        int(test["case"] != case) for test, case in zip(tests, before, strict=False)
    ]
    assert [loaded.case_id(row) for row in range(len(tests))] == [test["case"] for test in tests]


def test_checksums_are_those_of_the_files(made: Path) -> None:
    for line in (made / "SHA256SUMS").read_text("ascii").splitlines():
        digest, name = line.split("  ")
        assert hashlib.sha256((made / name).read_bytes()).hexdigest() == digest


def test_bad_sets_write_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "suite"
    with pytest.raises(Refused, match="leave one out"):
        suite.write(out, [str(SET), str(SET)])
    assert main(["export", "suite", str(tmp_path), "-o", str(out)]) == 2
    assert "a golden set is a folder that `refemu generate` writes" in capsys.readouterr().err
    assert not out.exists()
