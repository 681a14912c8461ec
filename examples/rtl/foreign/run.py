"""A core that others wrote, unchanged, against a golden set: `python -m examples.rtl.foreign.run`.

`fpnew_fma` of cvfpu (Solderpad and Apache licences), from the Python package that brings its sources; nothing of it is
in this repository. map.json says where it has the ports of `fp16_mac`. Then two bugs, in a copy of one of its files
below the output folder; +BUG=<n> chooses, so one build serves. Exit code 0 if the core passes and both are caught.
"""

import argparse
import importlib.util
import re
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from subprocess import CompletedProcess

from examples.rtl.benches import ROOT, SIMULATORS, Design, absent, call, make, program
from examples.rtl.planted import fails, passes
from refemu.cli import main as refemu

PACKAGE = "pythondata_cpu_cv32e40p"
MAP = Path(__file__).with_name("map.json")
DESIGN = Design("fp16_mac", "fma", ())
VENDOR = "system_verilog/rtl/vendor"
CORE = f"{VENDOR}/pulp_platform_fpnew/src/fpnew_fma.sv"
FILES = (
    f"{VENDOR}/pulp_platform_common_cells/src/cf_math_pkg.sv",
    f"{VENDOR}/pulp_platform_common_cells/src/lzc.sv",
    f"{VENDOR}/pulp_platform_fpnew/src/fpnew_pkg.sv",
    f"{VENDOR}/pulp_platform_fpnew/src/fpnew_classifier.sv",
    f"{VENDOR}/pulp_platform_fpnew/src/fpnew_rounding.sv",
    CORE,
)
INCLUDE = f"{VENDOR}/pulp_platform_common_cells/include"
#: bug, the signal whose assignment changes, its value then
BUGS = (
    ("bits shifted out before the addition do not round", r"sticky_before_add", "1'b0"),
    ("a full output register takes the next answer", r"out_pipe_ready\[i\]", "1'b1"),
)


def sources() -> Path | None:
    """Where the package is, None if it is not installed."""
    spec = importlib.util.find_spec(PACKAGE)
    return Path(spec.origin).parent if spec and spec.origin else None


def exported(folder: Path, place: Path) -> None:
    """The bench with its map, a patched copy of the core, and two file lists: of the core and of the copy."""
    words = ["export", "rtl", DESIGN.unit, "--config", DESIGN.config, "-o", str(folder), "--map", str(MAP), "--valid"]
    if refemu([*words, "--latency", "3"]):
        sys.exit("the export failed")
    patched = folder / "patched.sv"
    patched.write_text(planted((place / CORE).read_text()))
    files = [str(place / name) for name in FILES]
    for name, core in (("core.f", files[-1]), ("patched.f", str(patched))):
        lines = [f"+incdir+{place / INCLUDE}", *files[:-1], core]
        (folder / name).write_text("\n".join([*lines, ""]))


def planted(text: str) -> str:
    """The core with both bugs, selected by a parameter."""
    for number, (bug, signal, value) in enumerate(BUGS, 1):
        text, count = re.subn(
            rf"(assign\s+{signal}\s*=\s*)([^;]*);", rf"\1(bug == {number}) ? {value} : (\2);", text, count=1
        )
        if count != 1:
            sys.exit(f"{CORE}: no assignment of {signal}, in which to plant: {bug}")
    choice = '\n  integer bug;\n  initial if (!$value$plusargs("BUG=%d", bug)) bug = 0;\n'
    return re.sub(r"(module\s+fpnew_fma\b.*?\n\);)", lambda match: match[0] + choice, text, count=1, flags=re.DOTALL)


def simulate(folder: Path, simulator: str, list_: str, number: int, *words: str) -> "CompletedProcess[str]":
    """One simulation; number 0 builds."""
    target, inner = simulator.partition("-")[::2]
    arguments = ["RESET=5", f"FILELIST={list_}", f"ARGS=+BUG={number}", *words]
    if target == "cocotb":
        return make("cocotb", folder, [], *arguments, f"SIM={inner}", quick=True)
    if number <= 1:
        return make(target, folder, [], *arguments, quick=True)
    plus = [f"+VEC={folder / DESIGN.set}", "+VALID", "+LATENCY=3", "+RESET=5", f"+BUG={number}"]
    return call([*program(DESIGN, target), *plus], folder)


def main(words: Sequence[str]) -> int:
    """Run what was asked for and print it."""
    parser = argparse.ArgumentParser(description="a foreign core against a golden set of refemu")
    known = [name for name in SIMULATORS if name.endswith("verilator")]  # Icarus 11 does not read its package
    parser.add_argument("--simulators", default=",".join(known), help="default: all of %(default)s")
    parser.add_argument("--out", default=str(ROOT / "out" / "rtl" / "foreign"), help="where bench and copy go")
    arguments = parser.parse_args(words)
    place, folder = sources(), Path(arguments.out).resolve()
    if place is None:
        print(f"no {PACKAGE}: pip install {PACKAGE.replace('_', '-')}", file=sys.stderr)
        return 1
    shutil.rmtree(folder, ignore_errors=True)
    exported(folder, place)
    wrong = 0
    for simulator in arguments.simulators.split(","):
        if why := absent(simulator):
            print(f"{simulator:18}absent   {why}")
            wrong += 1
            continue
        for number, what in enumerate(("the core, unchanged", *(bug for bug, _, _ in BUGS))):
            ran = simulate(folder, simulator, "patched.f" if number else "core.f", number)
            right = fails(ran) and "FAIL row" in ran.stdout + ran.stderr if number else passes(DESIGN, ran)
            wrong += not right
            print(f"{simulator:18}{'yes' if right else 'NO':9}{what}", flush=True)
            if not right:
                print(ran.stdout[-2000:] + ran.stderr[-2000:])
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
