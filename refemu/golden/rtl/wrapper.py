"""The wrapper of a core: ports of the unit outside, ports of the core inside, the same for every simulator.

Macros say what the core has if the map does not: REFEMU_CLOCK a clock and a reset, REFEMU_VALID a handshake, REFEMU_TOP
another module. The wrapper marks outputs that the core lacks, and registers that the map does not name.
"""

import re
from collections.abc import Iterator
from itertools import accumulate

from refemu.golden.rtl import expressions
from refemu.golden.rtl.mapping import HANDSHAKE, Map
from refemu.units import parameters
from refemu.units.ports import Port
from refemu.units.unit import AnyUnit

MODULE = "refemu_shell"
#: handshake signals of the wrapper; no unit has ports with these names
OUTSIDE = {
    "in_valid": "hs_in_valid",
    "in_ready": "hs_in_ready",
    "out_valid": "hs_out_valid",
    "out_ready": "hs_out_ready",
}
HEAD = """\
// Wrapper between the testbench of {set} and your core: refemu's ports outside, yours inside. {origin}
`timescale 1ns/1ps
`ifndef REFEMU_TOP
`define REFEMU_TOP {top}
`endif
module {module} (
  input  wire clk,
  input  wire rst,
  input  wire hs_in_valid,
  output wire hs_in_ready,
  output wire hs_out_valid,
  input  wire hs_out_ready,
  output wire hs_may_stall,  // whether the core waits for hs_out_ready
"""
WAVES = """\
  // +VCD, +VCD=<file>: waveforms of the core and of its connections
  reg [8*512-1:0] waves;
  initial if ($test$plusargs("VCD")) begin
    if (!$value$plusargs("VCD=%s", waves)) waves = "build/{unit}.vcd";
    $dumpfile(waves);
    $dumpvars(0, {module});
  end"""


def width(port: Port) -> int:
    """Bits of all lanes."""
    return port.bits * port.count


def range_(bits: int) -> str:
    """The declared range of a number of bits."""
    return f"[{bits - 1}:0] " if bits > 1 else ""


def register_bits(state: tuple[Port, ...]) -> int:
    """Bits of the word of registers; 1 for a unit without registers."""
    return places(state)[-1] or 1


def places(ports: tuple[Port, ...]) -> list[int]:
    """Lowest bit of each port in the word of all ports, the first lowest, then the width of the word."""
    return [*accumulate(map(width, ports), initial=0)]


def text(unit: AnyUnit, config: str, map_: Map, origin: str = "") -> str:
    """Source of the wrapper. origin: a sentence on its origin, for the first line."""
    ports = unit.ports(unit.config(config))
    head = HEAD.format(
        set=parameters.set_name(unit, config), origin=origin, top=map_.top or unit.name, module=MODULE
    ).rstrip(" ")
    declared = [
        f"  {direction} wire {range_(width(port))}{port.name},"
        for direction, group in (("input ", ports.inputs), ("output", ports.outputs))
        for port in group
    ]
    declared += [
        f"  output wire {range_(len(ports.outputs))}hs_present,  // outputs that the core has",
        f"  output wire {range_(len(ports.state) or 1)}hs_named,  // registers that the map names",
        f"  output wire {range_(register_bits(ports.state))}hs_registers",
    ]
    lines = [
        *declared,
        ");",
        *_instance(unit, config, map_),
        *_assigns(unit, config, map_),
        *_checks(unit, config, map_),
    ]
    return head.replace("inside. \n", "inside.\n") + "\n".join([*lines, "endmodule", ""])


def for_yosys(unit: AnyUnit, config: str, map_: Map, clocked: bool, valid: bool) -> str:
    """Source of the wrapper without statements for simulation and without hierarchical names."""
    ports = unit.ports(unit.config(config))
    macros = ["`define REFEMU_CLOCK"] * clocked + ["`define REFEMU_VALID"] * (valid and map_.handshake is None)
    head = HEAD.format(set=parameters.set_name(unit, config), origin="", top=map_.top or unit.name, module=MODULE)
    groups = (("input ", ports.inputs), ("output", ports.outputs))
    declared = [f"  {direction} wire {range_(width(port))}{port.name}" for direction, group in groups for port in group]
    assigns = [line for line in _assigns(unit, config, map_) if not re.search(r"hs_(present|named|registers)", line)]
    body = _local("\n".join([*_instance(unit, config, map_), *assigns]))
    texts = [*macros, head.rstrip(" ") + ",\n".join(declared), ");", body]
    return "\n".join([*texts, "endmodule", ""])


def _local(body: str) -> str:
    """Statements whose slices of the core's outputs are those of wires: yosys reads no hierarchical names."""
    wires = []
    for name in dict.fromkeys(re.findall(r"\bcore\.(\w+)\[", body)):
        ends = [int(end) for end in re.findall(rf"\bcore\.{name}\[(\d+)[:\]]", body)]
        if f".{name}()" in body and ends and len(ends) == len(re.findall(rf"\bcore\.{name}\b", body)):
            wires.append(f"  wire [{max(ends)}:0] of_{name};")
            body = re.sub(rf"\bcore\.{name}\b", f"of_{name}", body).replace(f".{name}()", f".{name}(of_{name})")
    return "\n".join([*wires, body])


def _instance(unit: AnyUnit, config: str, map_: Map) -> Iterator[str]:
    ports = unit.ports(unit.config(config))
    for port in ports.outputs:
        if port.name in map_.flipped:
            yield f"  wire {range_(width(port))}flipped_{port.name};"
    values = ", ".join(f".{name}({value})" for name, value in map_.parameters.items())
    yield f"  `REFEMU_TOP {f'#({values}) ' if values else ''}core ("
    yield from _clocked(unit, map_)
    yield from _shaken(unit, config, map_)
    plain = map_.outputs if map_.outputs is not None else {port.name: port.name for port in ports.outputs}
    plain = {name: theirs for name, theirs in plain.items() if name not in map_.unused}
    inputs = map_.inputs
    if inputs is None:
        inputs = {port.name: port.name for port in ports.inputs if port.name not in map_.unused}
    lines = [f"    .{theirs}({value})" for theirs, value in inputs.items()]
    lines += [
        f"    .{theirs}({f'flipped_{name}' if name in map_.flipped else name})"
        for name, theirs in plain.items()
        if expressions.is_plain(theirs)
    ]
    lines += [f"    .{theirs}()" for theirs in (*_looked_into(map_), *map_.open)]
    yield ",\n".join(lines)
    yield "  );"


def _looked_into(map_: Map) -> tuple[str, ...]:
    """Output ports of the core that are used in part."""
    texts = [text for text in (map_.outputs or {}).values() if not expressions.is_plain(text)]
    taken = {text for text in (map_.outputs or {}).values() if expressions.is_plain(text)}
    names = dict.fromkeys(name for text in texts for name in expressions.names(text))
    return tuple(name for name in names if name not in taken | set(map_.open))


def _clocked(unit: AnyUnit, map_: Map) -> Iterator[str]:
    """Connections of clock and reset; a macro decides if neither the map nor the unit does."""
    for ours, theirs, value in (("clk", map_.clock, "clk"), ("rst", map_.reset, "~rst" if map_.low else "rst")):
        if theirs is None and unit.timing != "event":
            yield f"`ifdef REFEMU_CLOCK\n    .{ours}({value}),\n`endif"
        elif theirs != "":
            yield f"    .{theirs or ours}({value}),"


def _shaken(unit: AnyUnit, config: str, map_: Map) -> Iterator[str]:
    """Connections of the handshake."""
    if map_.handshake is not None:
        yield from (f"    .{theirs}({OUTSIDE[ours]})," for ours, theirs in map_.handshake.items() if theirs)
        return
    taken = {port.name for port in unit.ports(unit.config(config)).all}
    default = OUTSIDE if taken & set(HANDSHAKE) else {name: name for name in HANDSHAKE}
    yield "`ifdef REFEMU_VALID"
    yield from (f"    .{default[ours]}({OUTSIDE[ours]})," for ours in HANDSHAKE)
    yield "`endif"


def _assigns(unit: AnyUnit, config: str, map_: Map) -> Iterator[str]:
    ports = unit.ports(unit.config(config))
    if map_.handshake is None:
        yield "`ifdef REFEMU_VALID\n  assign hs_may_stall = 1'b1;\n`else"
        yield "  assign {hs_in_ready, hs_out_valid, hs_may_stall} = 3'b110;\n`endif"
    else:
        yield f"  assign hs_may_stall = 1'b{int(bool(map_.handshake['out_ready']))};"
        yield from (
            f"  assign {OUTSIDE[name]} = 1'b1;" for name in ("in_ready", "out_valid") if not map_.handshake[name]
        )
    for port in ports.outputs:
        theirs = (map_.outputs or {}).get(port.name, port.name)
        if port.name in map_.unused:
            yield f"  assign {port.name} = 0;"
        elif port.name in map_.flipped:
            lanes = (f"flipped_{port.name}[{port.bits * lane} +: {port.bits}]" for lane in range(port.count))
            yield f"  assign {port.name} = {{{', '.join(lanes)}}};"
        elif not expressions.is_plain(theirs):
            yield f"  assign {port.name} = {expressions.scoped(theirs, 'core')};"
    yield f"  assign hs_present = {_marks([port.name not in map_.unused for port in ports.outputs])};"
    yield f"  assign hs_named = {_marks([port.name in map_.registers for port in ports.state] or [False])};"
    for lsb, port in zip(places(ports.state), ports.state, strict=False):
        theirs = map_.registers.get(port.name, "")
        value = expressions.scoped(theirs, "core") if theirs else "0"
        yield f"  assign hs_registers[{lsb} +: {width(port)}] = {value};"
    if not ports.state:
        yield "  assign hs_registers = 0;"


def _marks(marks: list[bool]) -> str:
    """A constant with a bit per mark, the first lowest."""
    return f"{len(marks)}'b{''.join(str(int(mark)) for mark in reversed(marks))}"


def _checks(unit: AnyUnit, config: str, map_: Map) -> Iterator[str]:
    """Statements that check widths at the start of the simulation, since the map lacks those of the core."""
    ports = unit.ports(unit.config(config))
    inputs = map_.inputs
    if inputs is None:
        inputs = {port.name: port.name for port in ports.inputs if port.name not in map_.unused}
    lines = [
        _check(f"core.{theirs}", value, f"{value} drives your input {theirs}", "inputs")
        for theirs, value in inputs.items()
        if expressions.has_width(value)
    ]
    for port in ports.outputs:
        theirs = (map_.outputs or {}).get(port.name, port.name)
        if port.name not in map_.unused:
            lines.append(
                _check(
                    port.name,
                    expressions.scoped(theirs, "core"),
                    f"{theirs} drives refemu's output {port.name}",
                    "outputs",
                )
            )
    for port in ports.state:
        if port.name in map_.registers:
            theirs = map_.registers[port.name]
            value = expressions.scoped(theirs, "core")
            lines.append(_check(f"{width(port)}", value, f"{theirs} drives refemu's register {port.name}", "registers"))
    yield "  initial begin"
    yield from lines
    yield "  end"
    yield WAVES.format(unit=unit.name, module=MODULE)


def _check(target: str, value: str, says: str, key: str) -> str:
    bits = target if target.isdecimal() else f"$bits({target})"
    shown = says.replace("%", "%%")
    return (
        f"    if ({bits} != $bits({value}))\n"
        f'      $fatal(1, "FAIL the ports do not fit: {shown}, %0d bits for %0d; '
        f'write it with its width under \\"{key}\\" of map.json, docs/port-map.md", $bits({value}), {bits});'
    )
