"""A port map that fits becomes a shell; one that does not is refused with the port and the way to map it."""

import json
from pathlib import Path
from typing import Any

import pytest

from refemu import units
from refemu.arith.checks import Refused
from refemu.golden.rtl import expressions, mapping, shell

MAC = units.find("fp16_mac")
PORTS = MAC.ports(MAC.config("fma"))
GOOD: dict[str, Any] = {
    "top": "core_m",
    "parameters": {"DEPTH": 3, "FORMAT": "pkg::FP16"},
    "clock": "clk_i",
    "reset": {"port": "rst_ni", "active": "low"},
    "handshake": {"in_valid": "v_i", "in_ready": None, "out_valid": "v_o", "out_ready": None},
    "inputs": {"operands_i": "{acc, b, a}", "mode_i": "pkg::RNE", "en_i": "1'b1"},
    "outputs": {"y": "result_o", "overflow": "flags_o[2]"},
    "open": ["busy_o"],
    "registers": {"product": "mul.p_q"},
}


def changed(**parts: Any) -> dict[str, Any]:
    return {key: value for key, value in {**GOOD, **parts}.items() if value != "absent"}


def text(document: dict[str, Any]) -> str:
    return shell.text(MAC, "fma", mapping.parse(document, "fp16_mac", PORTS))


def test_every_part_of_a_map_is_in_the_shell() -> None:
    source = text(GOOD)

    for part in (
        "`define REFEMU_TOP core_m",
        "#(.DEPTH(3), .FORMAT(pkg::FP16)) core (",
        ".clk_i(clk)",
        ".rst_ni(~rst)",
        ".v_i(hs_in_valid)",
        ".operands_i({acc, b, a})",
        ".mode_i(pkg::RNE)",
        ".result_o(y)",
        ".flags_o()",
        ".busy_o()",
        "assign overflow = core.flags_o[2];",
        "assign hs_in_ready = 1'b1;",
        "assign hs_may_stall = 1'b0;",
        "assign hs_named = 1'b1;",
        "assign hs_registers[0 +: 16] = core.mul.p_q;",
    ):
        assert part in source, part


def test_without_a_map_the_core_has_our_names() -> None:
    source = shell.text(MAC, "fma", mapping.Map())

    assert all(f".{port.name}({port.name})" in source for port in (*PORTS.inputs, *PORTS.outputs))
    assert "`ifdef REFEMU_CLOCK\n    .clk(clk),\n`endif" in source


def test_lanes_may_stand_the_other_way_round() -> None:
    unit = units.find("flint_decoder")
    wide = units.find("bfp_aligner")
    ports = wide.ports(wide.config("paper"))
    document = {
        "inputs": {"words": {"port": "x", "lanes": "reversed"}, "emax": "emax", "m": "m"},
        "outputs": {"sign": "sign", "mantissa": {"port": "man", "lanes": "reversed"}, "illegal": "illegal"},
    }
    source = shell.text(wide, "paper", mapping.parse(document, "bfp_aligner", ports))

    assert ".words({x[0 +: 16], x[16 +: 16], " in source
    assert ".man(flipped_mantissa)" in source
    assert "assign mantissa = {flipped_mantissa[0 +: 11], flipped_mantissa[11 +: 11], " in source
    assert unit.name not in source


def test_what_the_core_has_not_is_not_compared() -> None:
    source = text(changed(outputs={"y": "result_o"}, unused=["overflow"]))

    assert "assign hs_present = 2'b01;" in source
    assert "assign overflow = 0;" in source


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"inputs": {"x_i": "{b, a}"}}, 'input acc of fp16_mac (16 bits) has no port of yours; give "inputs": {"YOUR_PORT": "acc"}'),
        ({"outputs": {"y": "result_o"}}, "output overflow of fp16_mac (1 bits) has no port of yours"),
        ({"inputs": {"x_i": "{acu, b, a}"}}, "unknown input of fp16_mac in inputs.x_i of map.json: 'acu'; did you mean 'acc'?"),
        ({"outputs": {"yy": "result_o", "overflow": "of"}}, "unknown output of fp16_mac in outputs of map.json: 'yy'"),
        ({"inputs": {"x_i": "{acc, b, a[16:1]}"}}, "a has bits 15 to 0, got '{acc, b, a[16:1]}'"),
        ({"inputs": {"x_i": "{acc, b, a[8 +: 9]}"}}, "a has bits 15 to 0"),
        ({"inputs": {"x_i": "{acc, b, a[6 -: 8]}"}}, "a has bits 15 to 0"),
        ({"inputs": {"clk_i": "{acc, b, a}"}}, "your port clk_i is in clock and in inputs; a port has one use"),
        ({"outputs": {"y": "r", "overflow": "r"}}, "your port r is in outputs.y and in outputs.overflow"),
        ({"open": ["v_o"]}, "your port v_o is in handshake.out_valid and in open"),
        ({"inputs": {"x_i": "{acc, b, a}", "m_i": "3"}}, "a constant needs its width, such as 3'd3"),
        ({"inputs": {"x_i": "{acc, b, a}", "m_i": 3}}, "a Verilog expression as a string is needed"),
        ({"inputs": {"x_i": "a; assign b"}}, "one expression in ASCII is needed, without ';'"),
        ({"inputs": {"x[3:0]": "{acc, b, a}"}}, "a port of yours is one name, got 'x[3:0]'"),
        ({"handshake": {"in_valid": "v_i"}}, "handshake: in_ready has no port of yours"),
        ({"reset": {"port": "rst_ni", "active": "down"}}, 'reset must be a name or {"port": NAME, "active": "low"}'),
        ({"registers": {"prod": "p"}}, "unknown register of fp16_mac in registers of map.json: 'prod'; did you mean 'product'?"),
        ({"resets": "r"}, "unknown key of map.json 'resets'; did you mean 'reset'?"),
        ({"unused": ["acc"]}, "uses acc, which map.json also lists as unused"),
        ({"outputs": {}, "unused": ["y", "overflow"]}, "no output of fp16_mac would be compared"),
    ],
)  # fmt: skip
def test_a_map_that_does_not_fit_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(Refused) as caught:
        text(changed(**change))

    assert message in str(caught.value)


def test_a_file_is_read_with_its_mistakes(tmp_path: Path) -> None:
    file = tmp_path / "map.json"
    with pytest.raises(Refused, match="no such file"):
        mapping.read(file, "fp16_mac", PORTS)
    file.write_text("{")
    with pytest.raises(Refused, match="not a port map in JSON"):
        mapping.read(file, "fp16_mac", PORTS)
    file.write_text("[]")
    with pytest.raises(Refused, match="a JSON object is needed"):
        mapping.read(file, "fp16_mac", PORTS)
    file.write_text('{"inputs": {"x": "a", "x": "b"}}')
    with pytest.raises(Refused, match="'x' stands there twice"):
        mapping.read(file, "fp16_mac", PORTS)
    file.write_text(json.dumps(GOOD))
    assert mapping.read(file, "fp16_mac", PORTS).low


@pytest.mark.parametrize(
    ("expression", "names", "scoped"),
    [
        ("{a, b[3:0]}", ["a", "b"], "{core.a, core.b[3:0]}"),
        ("status.OF", ["status"], "core.status.OF"),
        ("pkg::RNE", [], "pkg::RNE"),
        ("type_t'(a)", ["a"], "type_t'(core.a)"),
        ("$signed(a) + 4'hf", ["a"], "$signed(core.a) + 4'hf"),
        ("'0", [], "'0"),
        ("'{a, b}", ["a", "b"], "'{core.a, core.b}"),
        ("lane[0].q & ~`MASK", ["lane"], "core.lane[0].q & ~`MASK"),
    ],
)
def test_names_of_an_expression(expression: str, names: list[str], scoped: str) -> None:
    assert list(expressions.names(expression)) == names
    assert expressions.scoped(expression, "core") == scoped


@pytest.mark.parametrize("name", units.names())
def test_no_unit_has_a_port_named_as_the_shells_own(name: str) -> None:
    unit = units.find(name)
    for config in unit.configs:
        taken = {port.name for port in unit.ports(unit.config(config)).all}
        assert not {port for port in taken if port.startswith(("hs_", "flipped_"))} | (
            taken & {"clk", "rst", "core", "waves"}
        )
