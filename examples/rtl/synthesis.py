"""Every design through yosys, then sources that it must reject: `python -m examples.rtl.synthesis`.

A design is read, elaborated, flattened and checked: no latch, no loop of logic, no wire with two drivers or with none.
Its cells are counted as they are before any mapping: adders, shifters and multiplexers of whole words. Exit code 0 if
every design passes and every planted source is rejected, else 1; without yosys nothing passes.
"""

import argparse
import dataclasses
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from examples.rtl.benches import DESIGNS, HERE, TIMEOUT
from examples.rtl.cores import CORES

LATCHES = "t:$dlatch t:$adlatch t:$dlatchsr t:$sr"
SCRIPT = (
    "read_verilog -sv {files}; hierarchy -check -top {top}; proc; flatten; opt_clean; check -assert; "
    f"select -assert-none {LATCHES}; stat"
)


class Planted(NamedTuple):
    """A source that is not good hardware, and the message of yosys about it."""

    what: str
    text: str
    said: str


PORTS = "input wire a, input wire b, output {kind} y"
PLANTED = (
    Planted("a latch", f"module top({PORTS.format(kind='reg')}); always @* if (a) y = b; endmodule", "select"),
    Planted(
        "a loop of logic",
        f"module top({PORTS.format(kind='wire')}); wire t; assign t = y & a; assign y = t | b; endmodule",
        "logic loop",
    ),
    Planted(
        "a wire with two drivers",
        f"module top({PORTS.format(kind='wire')}); assign y = a & b; assign y = a | b; endmodule",
        "multiple conflicting drivers",
    ),
    Planted(
        "a wire that nothing drives",
        f"module top({PORTS.format(kind='wire')}); wire t; assign y = a & t; endmodule",
        "no driver",
    ),
    Planted(
        "a module that is missing",
        f"module top({PORTS.format(kind='wire')}); absent inner (.a(a), .b(b), .y(y)); endmodule",
        "is not part of the design",
    ),
    Planted(
        "a system call in hardware",
        f'module top({PORTS.format(kind="wire")}); initial if ($value$plusargs("A=%d", y)) $finish; endmodule',
        "value$plusargs",
    ),
)


@dataclasses.dataclass(frozen=True)
class Synthesized:
    """Message of yosys about one design, or about one source that it must reject."""

    name: str
    right: bool  #: whether it says what it must
    cells: int = 0
    output: str = ""  #: of yosys, if it does not


def designs() -> dict[str, tuple[str, list[Path]]]:
    """Top module and sources of every design, by name of its golden set, and of every core, by its own."""
    plain = {design.set: (design.unit, [HERE / name for name in design.sources]) for design in DESIGNS}
    return plain | {core.top: (core.top, core.sources) for core in CORES}


def synthesized(name: str, top: str, sources: Sequence[Path]) -> Synthesized:
    """Run one design."""
    code, output = yosys(top, sources)
    cells = re.findall(r"Number of cells:\s+(\d+)", output)
    right = code == 0 and bool(cells)
    return Synthesized(name, right, int(cells[-1]) if right else 0, "" if right else output)


def refused() -> Iterator[Synthesized]:
    """Run what is planted: each must end with an error, and with the one that is meant."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "top.v"
        for one in PLANTED:
            source.write_text(one.text)
            code, output = yosys("top", [source])
            right = code != 0 and one.said in output
            yield Synthesized(one.what, right, 0, "" if right else output)


def yosys(top: str, sources: Sequence[Path]) -> tuple[int, str]:
    """Exit code and output."""
    words = SCRIPT.format(files=" ".join(map(str, sources)), top=top)
    ran = subprocess.run(["yosys", "-p", words], capture_output=True, text=True, timeout=TIMEOUT, check=False)
    return ran.returncode, ran.stdout + ran.stderr


def main(words: Sequence[str]) -> int:
    """Run what was asked for and print it."""
    parser = argparse.ArgumentParser(description="designs through yosys")
    parser.add_argument("--designs", default="", help="golden sets and tops of cores, by default all")
    arguments = parser.parse_args(words)
    if not shutil.which("yosys"):
        print("no yosys on PATH; Debian, Ubuntu: apt-get install yosys", file=sys.stderr)
        return 1
    chosen = {
        name: design
        for name, design in designs().items()
        if not arguments.designs or name in arguments.designs.split(",")
    }
    wrong = 0
    print(f"{'design in yosys':36}{'verdict':9}{'cells':>6}")
    for name, (top, sources) in chosen.items():
        one = synthesized(name, top, sources)
        print(f"{one.name:36}{'pass' if one.right else 'FAIL':9}{one.cells or '':>6}{one.output[-2000:]}", flush=True)
        wrong += not one.right
    for one in refused():
        print(f"{one.name:36}{'refused' if one.right else 'NOT SEEN'}{one.output[-2000:]}")
        wrong += not one.right
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
