"""Every part of a port map is in the wrapper; without a map the core has refemu's names."""

from typing import Any

from refemu import units
from refemu.golden.rtl import mapping, wrapper

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
    return wrapper.text(MAC, "fma", mapping.parse(document, "fp16_mac", PORTS))


def test_every_part_of_a_map_is_in_wrapper() -> None:
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


def test_default_names_are_those_of_the_unit() -> None:
    source = wrapper.text(MAC, "fma", mapping.Map())

    assert all(f".{port.name}({port.name})" in source for port in (*PORTS.inputs, *PORTS.outputs))
    assert "`ifdef REFEMU_CLOCK\n    .clk(clk),\n`endif" in source


def test_lanes_may_be_reversed() -> None:
    unit = units.find("flint_decoder")
    wide = units.find("bfp_aligner")
    ports = wide.ports(wide.config("paper"))
    document = {
        "inputs": {"words": {"port": "x", "lanes": "reversed"}, "emax": "emax", "m": "m"},
        "outputs": {"sign": "sign", "mantissa": {"port": "man", "lanes": "reversed"}, "illegal": "illegal"},
    }
    source = wrapper.text(wide, "paper", mapping.parse(document, "bfp_aligner", ports))

    assert ".words({x[0 +: 16], x[16 +: 16], " in source
    assert ".man(flipped_mantissa)" in source
    assert "assign mantissa = {flipped_mantissa[0 +: 11], flipped_mantissa[11 +: 11], " in source
    assert unit.name not in source


def test_missing_outputs_are_marked() -> None:
    source = text(changed(outputs={"y": "result_o"}, unused=["overflow"]))

    assert "assign hs_present = 2'b01;" in source
    assert "assign overflow = 0;" in source


def test_handshake_ports_get_other_names() -> None:
    source = wrapper.text(units.find("k_offset"), "small", mapping.Map())

    assert ".hs_out_valid(hs_out_valid)" in source and ".out_valid(out_valid)" in source


def test_no_port_has_a_name_of_the_wrapper() -> None:
    for unit in map(units.find, units.names()):
        taken = {port.name for config in unit.configs for port in unit.ports(unit.config(config)).all}
        own = {port for port in taken if port.startswith(("hs_", "flipped_"))} | (
            taken & {"clk", "rst", "core", "waves"}
        )
        assert not own, unit.name
