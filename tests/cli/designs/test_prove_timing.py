"""`refemu prove` of pipelines, of valid and ready under any back-pressure, and of registers in a port map."""

import json
import shutil
from pathlib import Path
from typing import Any, ClassVar

import pytest

from refemu import golden, units
from refemu.cli.main import main
from refemu.units.config import Config
from refemu.units.declaration import Changes, Sequential, constant
from refemu.units.ports import Port, Ports
from refemu.units.unit import AnyUnit, Cases, Unit
from tools.formal import FOREIGN_BUGS

pytest.importorskip("bitwuzla")
pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(shutil.which("yosys") is None, reason="yosys is not installed"),
]
DECODE = """
  wire [3:0] size = code[2:0] == 0 ? 4'd0 : {2'b00, 1'b1, code[0]};
  wire [7:0] now = {bias + {2'b00, code[2:1]}, code[3] ? -size : size};
"""
PORTS = "input [3:0] code, input [3:0] bias, output [3:0] exponent, output [3:0] base_int"
SHAKEN = f"""module outlier_decoder(input clk, input rst, input in_valid, output in_ready, output out_valid,
  input out_ready, {PORTS});{DECODE}"""
PIPELINE = f"""module outlier_decoder(input clk, {PORTS});{DECODE}
  reg [7:0] first, second;
  always @(posedge clk) begin first <= now; second <= first; end
  assign {{exponent, base_int}} = second;
endmodule
"""
#: a register for one answer
ONE = f"""{SHAKEN}
  reg [7:0] held;
  reg full;
  assign in_ready = !full || out_ready;
  assign out_valid = full;
  always @(posedge clk)
    if (rst) full <= 0;
    else if (in_valid && in_ready) begin full <= 1; held <= now; end
    else if (out_ready) full <= 0;
  assign {{exponent, base_int}} = held;
endmodule
"""
#: holds two answers, and ready does not depend on out_ready
TWO = f"""{SHAKEN}
  reg [7:0] first, second;
  reg [1:0] count;
  assign in_ready = count != 2;
  assign out_valid = count != 0;
  wire enters = in_valid && in_ready, leaves = out_valid && out_ready;
  always @(posedge clk)
    if (rst) count <= 0;
    else begin
      count <= count + {{1'b0, enters}} - {{1'b0, leaves}};
      if (leaves) first <= second;
      if (enters && count == {{1'b0, leaves}}) first <= now; else if (enters) second <= now;
    end
  assign {{exponent, base_int}} = first;
endmodule
"""


def prove(folder: Path, design: str, *words: str) -> int:
    """Exit code of a proof of a design; its text is in `folder`."""
    source = folder / "design.v"
    source.write_text(design)
    return main(["prove", "outlier_decoder", str(source), *words, "--json"])


def document(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """The last answer."""
    answer: dict[str, Any] = json.loads(capsys.readouterr().out)
    return answer


def test_pipeline_is_proved_at_its_latency_only(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert prove(tmp_path, PIPELINE, "--latency", "2") == 0
    found = document(capsys)
    assert found["method"] == "induction" and "2 edges later" in found["parts"][0]["what"]
    for wrong in ("1", "3"):
        assert prove(tmp_path, PIPELINE, "--latency", wrong) == 1
        found = document(capsys)["counterexample"]
        assert found["expected"] != found["got"]


@pytest.mark.parametrize(
    ("was", "now"),
    [
        ("second <= first", "second <= now"),
        ("= second;", "= {first[7:4], second[3:0]};"),
        ("first <= now;", "first <= now == 8'h33 ? first : now;"),
    ],
)
def test_wrong_pipeline_is_refuted(was: str, now: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert was in PIPELINE
    assert prove(tmp_path, PIPELINE.replace(was, now), "--latency", "2", "--out", str(tmp_path / "out")) == 1
    assert golden.load(tmp_path / "out" / "outlier_decoder-e2m1").rows == 1
    assert document(capsys)["counterexample"]["set"].endswith("outlier_decoder-e2m1")


@pytest.mark.parametrize("design", [ONE, TWO])
def test_handshake_is_proved_by_induction(design: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert prove(tmp_path, design, "--valid", "--depth", "5") == 0
    found = document(capsys)
    assert found["method"] == "induction" and found["parts"][-1]["what"].endswith("cycles from any state")


@pytest.mark.parametrize(
    ("design", "was", "now"),
    [
        (ONE, "= !full || out_ready;", "= 1'b1;"),  # a row is dropped under back-pressure
        (ONE, "if (out_ready) full <= 0", "if (0) full <= 0"),  # an answer is repeated
        (ONE, "else if (out_ready)", "else if (full && !out_ready) held <= now; else if (out_ready)"),
        (ONE, "held <= now; end", "held <= full ? held : now; end"),  # wrong only without a bubble
        (TWO, "count != 2", "count != 3"),
        (TWO, "if (leaves) first <= second;", "if (leaves) first <= now;"),
        (TWO, "if (rst) count <= 0;", "if (rst) count <= 1;"),  # an answer without a row
    ],
)
def test_wrong_handshake_is_refuted(
    design: str, was: str, now: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert was in design
    assert prove(tmp_path, design.replace(was, now), "--valid", "--depth", "6") == 1
    found = document(capsys)["counterexample"]
    assert found["expected"] != found["got"] or "accepted rows" in found["says"]
    assert main(["prove", "outlier_decoder", str(tmp_path / "design.v"), "--valid", "--depth", "6"]) == 1
    assert "refuted: " in capsys.readouterr().out


def test_late_error_is_undecided_until_its_depth(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    later = ONE.replace("reg full;", "reg full; reg [3:0] age;").replace("full <= 0;\n", "{full, age} <= 0;\n", 1)
    later = later.replace("full <= 1; held <= now;", "full <= 1; age <= age + 1; held <= age == 5 ? ~now : now;")
    assert later.count("age") == 5
    assert prove(tmp_path, later, "--valid", "--depth", "4") == 2
    found = document(capsys)
    assert (found["outcome"], found["method"], found["depth"]) == ("undecided", "bounded", 4)
    assert any("beyond 4 cycles" in each for each in found["untied"])
    assert prove(tmp_path, later, "--valid", "--depth", "8") == 1


def test_design_that_takes_all_rows_and_answers_none_is_undecided(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    silent = ONE.replace("= !full || out_ready;", "= 1'b1;").replace("out_valid = full", "out_valid = 1'b0")
    assert prove(tmp_path, silent, "--valid", "--depth", "3") == 2
    assert "holds 32 rows or more" in document(capsys)["untied"][0]


def test_missing_signal_of_a_handshake_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert prove(tmp_path, ONE.replace("out_valid", "given"), "--valid") == 2
    assert "output out_valid of 1 bit is missing" in capsys.readouterr().err


def test_port_map_names_handshake_and_reset(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    theirs = {"in_valid": "v_i", "in_ready": "r_o", "out_valid": "v_o", "out_ready": "r_i", "rst": "rst_ni"}
    design = ONE.replace("if (rst)", "if (!rst)")
    for ours, name in theirs.items():
        design = design.replace(ours, name)
    map_ = tmp_path / "map.json"
    shake = {ours: name for ours, name in theirs.items() if ours != "rst"}
    map_.write_text(json.dumps({"reset": {"port": "rst_ni", "active": "low"}, "handshake": shake}))
    assert prove(tmp_path, design, "--map", str(map_), "--depth", "4") == 0
    assert document(capsys)["method"] == "induction"
    wrong = design.replace("held <= now", "held <= ~now")
    assert prove(tmp_path, wrong, "--map", str(map_), "--depth", "4") == 1


# registers


class Adder(Sequential):
    """Says whether a sum, which no output shows, is odd."""

    name = "adder"
    events: ClassVar[tuple[str, ...]] = ("add",)
    counters: ClassVar[dict[str, str]] = {}

    @constant
    def ports(self) -> Ports:
        return Ports(inputs=(Port("x", 4),), outputs=(Port("odd", 1),), state=(Port("total", 8), Port("last", 4)))

    def add(self, x: int) -> Changes:
        """Add x, and twice the last one."""
        total = (self.state.total + x + 2 * self.state.last) & 255
        return {"total": total, "last": x, "odd": total & 1 ^ (total >> 7)}


def no_cases(config: Config, kind: str, seed: Any) -> list[Cases]:
    """One case."""
    return [Cases(kind, "one", {"x": [[1]]})]  # type: ignore[arg-type]


ADDER: AnyUnit = Unit(
    unit_class=Adder,
    paper="kllm §0",
    meaning="sums",
    configs={"one": Config()},
    cases=no_cases,  # type: ignore[arg-type]
)
SUM = """module adder(input clk, input rst, input [3:0] x, output reg odd);
  reg [3:0] old;
  reg [7:0] sum;
  wire [7:0] next = sum + {4'd0, x} + {3'd0, old, 1'b0};
  always @(posedge clk)
    if (rst) {old, sum, odd} <= 0;
    else begin old <= x; sum <= next; odd <= next[0] ^ next[7]; end
endmodule
"""


@pytest.fixture
def adder(monkeypatch: pytest.MonkeyPatch) -> None:
    """units.choose finds the unit."""
    monkeypatch.setattr(units, "choose", lambda *_: (ADDER, "one"))


def adder_proved(folder: Path, design: str, registers: dict[str, str]) -> int:
    """Exit code of a proof of the adder."""
    (folder / "adder.v").write_text(design)
    (folder / "map.json").write_text(json.dumps({"registers": registers} if registers else {}))
    words = ["prove", "adder", str(folder / "adder.v"), "--map", str(folder / "map.json"), "--depth", "3", "--json"]
    return main(words)


@pytest.mark.usefixtures("adder")
def test_registers_of_a_port_map_are_tied(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert adder_proved(tmp_path, SUM, {"total": "sum", "last": "old"}) == 0
    found = document(capsys)
    assert found["method"] == "induction" and found["untied"] == []
    assert adder_proved(tmp_path, SUM, {"total": "{sum[7:1], sum[0]}", "last": "old"}) == 0


@pytest.mark.usefixtures("adder")
@pytest.mark.parametrize(
    ("registers", "named"), [({}, ["total", "last"]), ({"total": "sum"}, ["last"]), ({"last": "old"}, ["total"])]
)
def test_register_that_is_not_mapped_is_listed(
    registers: dict[str, str], named: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert adder_proved(tmp_path, SUM, registers) == 2
    found = document(capsys)
    assert (found["outcome"], found["method"], found["depth"]) == ("undecided", "bounded", 3)
    assert sorted(found["untied"]) == sorted(named)


@pytest.mark.usefixtures("adder")
@pytest.mark.parametrize(
    ("registers", "says"),
    [
        ({"total": "sun"}, "register total: sun is not a register of"),
        ({"total": "sum[3:0]"}, "register total: must have 8 bits, got 4"),
        ({"total": "sum + 1"}, "register total: prove reads names, slices and constants"),
    ],
)
def test_invalid_register_map_exits_with_2(
    registers: dict[str, str], says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert adder_proved(tmp_path, SUM, registers) == 2
    assert says in capsys.readouterr().err


@pytest.mark.usefixtures("adder")
@pytest.mark.parametrize(
    ("was", "now"), [("old <= x;", "old <= x & 7;"), ("if (rst) {old", "if (rst) old <= 1; else if (rst) {old")]
)
def test_wrong_register_is_refuted(was: str, now: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert was in SUM
    assert adder_proved(tmp_path, SUM.replace(was, now), {"total": "sum", "last": "old"}) in (1, 2)


FOREIGN = Path(__file__).parents[3] / "examples" / "rtl" / "foreign" / "axis_decoder.v"


def test_core_of_another_style_is_proved(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["prove", "ovp_decoder:int4", str(FOREIGN), "--map", str(FOREIGN.with_suffix(".json"))]
    assert main(words) == 0
    assert "any state: proved" in capsys.readouterr().out


@pytest.mark.parametrize("bug", FOREIGN_BUGS)
def test_bug_of_a_core_of_another_style_is_refuted(bug: tuple[str, str], tmp_path: Path) -> None:
    text = FOREIGN.read_text()
    assert text.count(bug[0]) == 1
    wrong = tmp_path / "wrong.v"
    wrong.write_text(text.replace(*bug))
    assert main(["prove", "ovp_decoder:int4", str(wrong), "--map", str(FOREIGN.with_suffix(".json"))]) == 1
