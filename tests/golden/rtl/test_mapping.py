"""The error for an unfit port map names the port and says how to map it."""

import json
from pathlib import Path
from typing import Any

import pytest

from refemu import units
from refemu.arith.checks import Refused
from refemu.golden.rtl import mapping

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


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"inputs": {"x_i": "{b, a}"}}, 'no port in your core; give "inputs": {"YOUR_PORT": "acc"}'),
        ({"outputs": {"y": "result_o"}}, "output overflow of fp16_mac (1 bits) has no port in your core"),
        ({"inputs": {"x_i": "{acu, b, a}"}}, "in inputs.x_i of map.json: 'acu'; did you mean 'acc'?"),
        ({"outputs": {"yy": "result_o", "overflow": "of"}}, "unknown output of fp16_mac in outputs of map.json: 'yy'"),
        ({"inputs": {"x_i": "{acc, b, a[16:1]}"}}, "a must be in bits 15 to 0, got '{acc, b, a[16:1]}'"),
        ({"inputs": {"x_i": "{acc, b, a[8 +: 9]}"}}, "a must be in bits 15 to 0"),
        ({"inputs": {"x_i": "{acc, b, a[6 -: 8]}"}}, "a must be in bits 15 to 0"),
        ({"inputs": {"clk_i": "{acc, b, a}"}}, "port of your core must have one use, got clk_i in clock and in inputs"),
        ({"outputs": {"y": "r", "overflow": "r"}}, "got r in outputs.y and in outputs.overflow"),
        ({"open": ["v_o"]}, "got v_o in handshake.out_valid and in open"),
        ({"inputs": {"x_i": "{acc, b, a}", "m_i": "3"}}, "a constant must have its width, such as 3'd3"),
        ({"inputs": {"x_i": "{acc, b, a}", "m_i": 3}}, "must be a Verilog expression as a string"),
        ({"inputs": {"x_i": "a; assign b"}}, "must be one expression in ASCII without ';'"),
        ({"inputs": {"x[3:0]": "{acc, b, a}"}}, "a port of your core must be one name, got 'x[3:0]'"),
        ({"handshake": {"in_valid": "v_i"}}, "handshake: in_ready has no port in your core"),
        ({"reset": {"port": "rst_ni", "active": "down"}}, 'reset must be a name or {"port": NAME, "active": "low"}'),
        ({"registers": {"prod": "p"}}, "registers of map.json: 'prod'; did you mean 'product'?"),
        ({"resets": "r"}, "unknown key 'resets' of map.json; did you mean 'reset'?"),
        ({"parameters": {"X(1)) u0(); initial $finish; core #(.Y": "1"}}, "must be names of your core's parameters"),
        ({"parameters": {"module": 1}}, "must be names of your core's parameters, got 'module'"),
        ({"parameters": {"X": True}}, "parameters.X: must be a Verilog expression as a string"),
        ({"parameters": {"X": [1]}}, "parameters.X: must be a Verilog expression as a string"),
        ({"parameters": {"X": float("nan")}}, "parameters.X: must be a Verilog expression as a string"),
        ({"parameters": {"X": "1), .Y(2"}}, "parameters.X: brackets must close in order"),
        ({"top": "module"}, "top must be a name in your core"),
        ({"outputs": {"y": "result_o", "overflow": "b)"}}, "outputs.overflow: brackets must close in order"),
        ({"unused": ["acc"]}, "uses acc, which map.json also lists as unused"),
        ({"outputs": {}, "unused": ["y", "overflow"]}, "no output of fp16_mac would be compared"),
    ],
)  # fmt: skip
def test_unfit_map_is_rejected(change: dict[str, Any], message: str) -> None:
    with pytest.raises(Refused) as caught:
        mapping.parse(changed(**change), "fp16_mac", PORTS)

    assert message in str(caught.value)


def test_file_with_mistakes_is_rejected(tmp_path: Path) -> None:
    file = tmp_path / "map.json"
    with pytest.raises(Refused, match="no such file"):
        mapping.read(file, "fp16_mac", PORTS)
    file.write_text("{")
    with pytest.raises(Refused, match="json: not a port map in JSON: Expecting property name"):
        mapping.read(file, "fp16_mac", PORTS)
    file.write_text("[]")
    with pytest.raises(Refused, match="must be a JSON object"):
        mapping.read(file, "fp16_mac", PORTS)
    file.write_text('{"inputs": {"x": "a", "x": "b"}}')
    with pytest.raises(Refused, match="each key must occur once, got 'x' twice"):
        mapping.read(file, "fp16_mac", PORTS)
    file.write_text(json.dumps(GOOD))
    assert mapping.read(file, "fp16_mac", PORTS).low
