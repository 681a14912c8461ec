"""Benches for a unit's RTL, from its descriptor: plain Verilog that reads `hex/`, and cocotb that reads `vectors.npz`.

The device has the unit's ports by name, lanes side by side with lane 0 lowest; a unit with registers also `clk` and
`rst`, a synchronous reset: a row is one rising edge with `rst` low, and its outputs are those after the edge.
"""

from collections.abc import Iterator
from string import Template

from refemu.units.unit import Port, Ports, Unit

CLOCKED = ("clk", "rst")


def files(unit: Unit, config: str) -> dict[str, bytes]:
    """Names and contents: a stub of the device, both benches, a Makefile."""
    ports, event = unit.ports(unit.configs[config]), unit.timing == "event"
    names = {"unit": unit.name, "set": f"{unit.name}-{config}", "paper": _ascii(unit.paper),
             "meaning": _ascii(unit.meaning)}
    parts = {"declared": _declared(ports, event), "wires": _wires(ports), "assigns": _assigns(ports),
             "connected": _connected(ports, event),
             "clock": _CLOCK if event else "", "reset": _RESET if event else "", "edge": _EDGE if event else _SETTLE}
    cocotb = {"pulse": _COCOTB_PULSE if event else "", "start": _COCOTB_START if event else "",
              "first": _COCOTB_FIRST if event else "", "edge": _COCOTB_EDGE if event else _COCOTB_SETTLE}
    made = {f"{unit.name}.v": Template(_STUB).substitute(names, **parts),
            f"tb_{unit.name}.v": Template(_BENCH).substitute(names, **parts),
            f"test_{unit.name}.py": Template(_COCOTB).substitute(names, **cocotb),
            "Makefile": Template(_MAKEFILE).substitute(names)}
    return {name: text.encode("ascii") for name, text in made.items()}


def _width(port: Port) -> int:
    return port.bits * port.lanes


def _range(port: Port) -> str:
    return f"[{_width(port) - 1}:0] " if _width(port) > 1 else ""


def _declared(ports: Ports, event: bool) -> str:
    lines = [f"  input  wire {name}" for name in CLOCKED if event]
    lines += [f"  {direction} wire {_range(port)}{port.name}"
              for direction, group in (("input ", ports.inputs), ("output", ports.outputs)) for port in group]
    meanings = ["clock", "synchronous reset"] if event else []
    meanings += [_about(port) for port in (*ports.inputs, *ports.outputs)]
    commas = [","] * (len(lines) - 1) + [""]
    return "\n".join(f"{line}{comma}  // {about}" for line, comma, about in zip(lines, commas, meanings, strict=True))


def _about(port: Port) -> str:
    lanes = f"{port.lanes} lanes of {port.bits} bits, " if port.lanes > 1 else ""
    return _ascii(f"{lanes}{port.kind}: {port.meaning}")


def _ascii(text: str) -> str:
    """Sources of old simulators are ASCII."""
    return text.replace("§", "section ").encode("ascii", "replace").decode()


def _wires(ports: Ports) -> str:
    return "\n".join(f"  wire {_range(port)}{port.name};" for port in ports.outputs)


def _assigns(ports: Ports) -> str:
    slices = ((f"{port.name.upper()}_LSB +: {_width(port)}", port.name) for port in ports.outputs)
    return "\n".join(f"  assign got[{part}] = {name};" for part, name in slices)


def _connected(ports: Ports, event: bool) -> str:
    """Inputs from the stimulus word, outputs to wires of their own."""
    lines: Iterator[str] = (f".{port.name}(word[{port.name.upper()}_LSB +: {_width(port)}])" for port in ports.inputs)
    clocked = [f".{name}({name})" for name in CLOCKED if event]
    return ",\n    ".join([*clocked, *lines, *(f".{port.name}({port.name})" for port in ports.outputs)])


_STUB = """\
// $unit: $meaning
// $paper. Fill in the device; `make` holds it against the golden set.
`timescale 1ns/1ps
module $unit (
$declared
);
endmodule
"""

_BENCH = """\
// Holds $unit against the golden set $set; run with +VEC=<directory of the set>.
// Every row is compared with !==, so an x or z is a difference; the sentinels tell that both files were read whole.
`timescale 1ns/1ps
module tb_$unit;
  `include "${unit}_vec.svh"
  reg [STIM_BITS-1:0] stim [0:N];
  reg [GOLD_BITS-1:0] gold [0:N];
  reg [GOLD_BITS-1:0] care [0:N];
  reg [STIM_BITS-1:0] word;
  reg [GOLD_BITS-1:0] mask;
  wire [GOLD_BITS-1:0] got;
  reg [8*512-1:0] vec, path;
  integer row, file;
$wires
$clock
  $unit device (
    $connected
  );
$assigns

  task must_exist;
    begin
      file = $$fopen(path, "r");
      if (file == 0) $$fatal(1, "FAIL cannot open %0s", path);
      $$fclose(file);
    end
  endtask

  initial begin
    word = 0;
    if (!$$value$$plusargs("VEC=%s", vec)) $$fatal(1, "FAIL give +VEC=<directory of the set>");
    $$sformat(path, "%0s/hex/stim.mem", vec); must_exist; $$readmemh(path, stim);
    $$sformat(path, "%0s/hex/gold.mem", vec); must_exist; $$readmemh(path, gold);
    if (HAS_CARE) begin $$sformat(path, "%0s/hex/care.mem", vec); must_exist; $$readmemh(path, care); end
    if (stim[N] !== {STIM_BITS{1'b1}}) $$fatal(1, "FAIL no sentinel in stim.mem: short or wrong file");
    if (gold[N] !== {GOLD_BITS{1'b1}}) $$fatal(1, "FAIL no sentinel in gold.mem: short or wrong file");
    if (HAS_CARE && care[N] !== {GOLD_BITS{1'b1}}) $$fatal(1, "FAIL no sentinel in care.mem: short or wrong file");
    for (row = 0; row < N; row = row + 1) begin
$reset      word = stim[row];
      mask = HAS_CARE ? care[row] : {GOLD_BITS{1'b1}};
$edge
      if (((got ^ gold[row]) & mask) !== {GOLD_BITS{1'b0}})
        $$fatal(1, "FAIL row %0d: in %h got %h want %h care %h", row, word, got, gold[row], mask);
    end
    $$display("PASS %0d rows of $set", N);
    $$finish;
  end
endmodule
"""

_CLOCK = """\
  reg clk = 0;
  reg rst = 0;
"""
_RESET = """\
      if (stim[row][FIRST_LSB]) begin rst = 1; #1 clk = 1; #1 clk = 0; rst = 0; end
"""
_EDGE = "      #1 clk = 1; #1 clk = 0; #1;"
_SETTLE = "      #1;"

_COCOTB = '''\
"""cocotb holds $unit against the golden set in the folder VEC; `make cocotb` runs this file, which starts SIM."""

import os
import sys

import cocotb
from cocotb.triggers import Timer

from refemu import golden

SET = golden.load(os.environ["VEC"])  # checks the manifest and every hash
ENTRIES = {entry["name"]: entry for entry in SET.manifest["arrays"]}
INPUTS = [name for name, entry in ENTRIES.items() if entry["role"] == "stimulus"]
OUTPUTS = [name for name, entry in ENTRIES.items() if entry["role"] == "expected"]


def words(name: str) -> list[int]:
    """All rows of an array as plain integers, lane 0 lowest."""
    bits = ENTRIES[name]["bits"]
    rows = SET.arrays[name].reshape(SET.rows, -1).tolist()
    return [sum(code << bits * lane for lane, code in enumerate(row)) for row in rows]


$pulse@cocotb.test()
async def every_row(dut):
    stimulus = {name: words(name) for name in INPUTS}
    expected = {name: words(name) for name in OUTPUTS}
    care = {name: words(f"{name}.care") if f"{name}.care" in ENTRIES else None for name in OUTPUTS}
    assert SET.rows >= SET.manifest["min_rows"] > 0
$start    for row in range(SET.rows):
$first        for name in INPUTS:
            getattr(dut, name.partition(".")[2]).value = stimulus[name][row]
$edge
        for name in OUTPUTS:
            shown = str(getattr(dut, name.partition(".")[2]).value)
            mask = care[name][row] if care[name] else -1
            assert not set(shown) - set("01"), f"row {row}: {name} is {shown}"
            assert (int(shown, 2) ^ expected[name][row]) & mask == 0, (
                f"row {row}: {name} is {shown}, want {expected[name][row]:#x}; "
                f"refemu step $unit --case {os.environ['VEC']}:{SET.case(row)}")


if __name__ == "__main__":
    from cocotb_tools.runner import get_results, get_runner

    runner = get_runner(os.environ.get("SIM", "icarus"))
    runner.build(sources=["$unit.v"], hdl_toplevel="$unit", build_dir="build/cocotb", always=True,
                 timescale=("1ns", "1ps"))
    results = runner.test(hdl_toplevel="$unit", test_module="test_$unit", build_dir="build/cocotb", test_dir=".")
    tests, failed = get_results(results)
    sys.exit(0 if tests and not failed else 1)
'''
_COCOTB_PULSE = '''\
async def pulse(dut):
    """One rising edge, a while after the inputs were set."""
    for level in (1, 0):
        await Timer(1, "ns")
        dut.clk.value = level
    await Timer(1, "ns")


'''
_COCOTB_START = """\
    dut.clk.value = 0
    dut.rst.value = 0
"""
_COCOTB_FIRST = """\
        if SET.case(row) == row:
            dut.rst.value = 1
            await pulse(dut)
            dut.rst.value = 0
"""
_COCOTB_EDGE = "        await pulse(dut)"
_COCOTB_SETTLE = '        await Timer(1, "ns")'

_MAKEFILE = """\
# `make` runs the plain bench in Icarus Verilog; `make verilator`, `make cocotb` the others. VEC: the golden set.
# CHECK regenerates the set first, so that stale vectors are found; CHECK=true leaves that out.
VEC     ?= $$(CURDIR)/$set
PYTHON  ?= python3
CHECK   ?= $$(PYTHON) -m refemu check $$(VEC)
SIM     ?= icarus
SOURCES  = $unit.v tb_$unit.v

.PHONY: icarus verilator cocotb check clean
icarus: check
\t@mkdir -p build
\tiverilog -g2012 -I $$(VEC)/include -o build/$unit.vvp $$(SOURCES)
\ttimeout 600 vvp -n build/$unit.vvp +VEC=$$(VEC)

verilator: check
\t@mkdir -p build
\tverilator --binary --timing -Wno-fatal -CFLAGS -std=c++20 -I$$(VEC)/include --Mdir build/verilator \\
\t  --top-module tb_$unit $$(SOURCES) > build/verilator.log 2>&1 || { cat build/verilator.log; exit 1; }
\ttimeout 600 build/verilator/Vtb_$unit +VEC=$$(VEC)

cocotb: check
\tSIM=$$(SIM) VEC=$$(VEC) timeout 600 $$(PYTHON) test_$unit.py

check:
\t@$$(CHECK)

clean:
\trm -rf build
"""
