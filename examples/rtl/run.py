"""Every design against its golden set in every simulator, then what no bench may pass, then every bug:
`python -m examples.rtl.run`.

Exit code 0 if every bench passes, none passes what it must not, and every injected bug is caught, else 1; a simulator
that is absent does not pass. The benches are those that `refemu export rtl` makes.
"""

import argparse
import dataclasses
import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent import futures
from pathlib import Path
from typing import TypeVar

import numpy as np

from examples.rtl import bugs, cores, live, planted
from examples.rtl.benches import (
    DESIGNS,
    ROOT,
    SIMULATORS,
    Design,
    Outcome,
    absent,
    bench,
    call,
    export,
    make,
    program,
)
from examples.rtl.mutants import MUTANTS, Mutant
from refemu import golden
from refemu.golden.compare import answer_files

T, U = TypeVar("T"), TypeVar("U")
TOGETHER = 20  #: bugs in one build of Verilator


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


def caught(design: Design, mutant: Mutant, folder: Path) -> Caught:
    """Inject one bug and run the whole set in Icarus; the rows that differ, by kind of case."""
    return next(all_caught(design, [mutant], folder))


def all_caught(design: Design, mutants: Sequence[Mutant], folder: Path, simulator: str = "icarus") -> Iterator[Caught]:
    """Inject bugs, and run the whole set with each: in Verilator, whose builds are long, many in one."""
    work = folder / "mutant"
    step = 1 if simulator == "icarus" else TOGETHER
    for first in range(0, len(mutants), step):
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir()
        some = mutants[first : first + step]
        sources = bugs.one(design, some[0], work) if step == 1 else bugs.many(design, some, work)
        yield from _each(design, some, folder, simulator, sources)


def _each(
    design: Design, mutants: Sequence[Mutant], folder: Path, simulator: str, sources: list[Path]
) -> Iterator[Caught]:
    """One build with some bugs, run with each."""
    start = program(design, simulator)
    built = make(start[-1], folder, sources, quick=True)
    if built.returncode:
        names = "; ".join(mutant.bug for mutant in mutants)
        sys.exit(f"{design.set}: {names}: does not compile, so it shows nothing\n{built.stdout}{built.stderr}")
    answers, set_ = folder / "mutant" / "dut.mem", golden.load(folder / design.set)
    for number, mutant in enumerate(mutants, 1):
        answers.unlink(missing_ok=True)
        ran = call([*start, f"+VEC={folder / design.set}", f"+DUT={answers}", f"+BUG={number}"], folder)
        if ran.returncode == 0 or "FAIL row" not in ran.stdout:
            yield Caught(design.set, mutant.bug, False)
        else:
            yield counted(mutant, set_, answers)


def counted(mutant: Mutant, set_: golden.Golden, answers: Path) -> Caught:
    """The rows of a set that differ from `answers`."""
    rows = differing(set_, answer_files.read(answers, set_))
    kinds: dict[str, list[int]] = {}
    for entry in set_.manifest["cases"]:
        part = rows[entry["first"] : entry["first"] + entry["cases"] * entry["rows"]]
        wrong, total = kinds.get(entry["kind"], [0, 0])
        kinds[entry["kind"]] = [wrong + int(part.sum()), total + part.size]
    first = int(np.argmax(rows))
    entry = set_.entry(first)
    return Caught(
        set_.name,
        mutant.bug,
        bool(rows.any()),
        first,
        entry["kind"],
        entry["why"],
        {kind: f"{wrong}/{total}" for kind, (wrong, total) in kinds.items()},
    )


def differing(set_: golden.Golden, answer: answer_files.Answer) -> np.ndarray:
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
    chosen = [design for design in DESIGNS if wanted(design, arguments)]
    folders = {design.set: export(design, Path(arguments.out).resolve()) for design in chosen}
    outcomes, held, found = list[Outcome](), list[planted.Held](), list[Caught]()
    beside = list[live.Live]()
    say(f"{'golden set':36}{'simulator':18}{'verdict':9}{'rows':>6}{'vectors/s':>12}")
    simulators = arguments.simulators.split(",")
    for benches in side_by_side(lambda design: [bench(design, folders[design.set], one) for one in simulators], chosen):
        outcomes += benches
        for outcome in benches:
            say(shown(outcome))
    if arguments.mutants:
        say(f"\n{'golden set':36}{'simulator':18}{'held':9}what no bench may pass, or a device without a fault")
        present = [simulator for simulator in simulators if not absent(simulator)]
        present = present if arguments.bugs is None else present[:1]
        for some in side_by_side(lambda design: _planted(design, folders[design.set], present), chosen):
            held += some
            for one in some:
                say(shown_held(one))
        around = [core for core in cores.CORES if wanted(core.design, arguments)]
        for some in side_by_side(lambda core: _cores(core, Path(arguments.out).resolve(), present), around):
            held += some
            for one in some:
                say(shown_held(one))
    plain = next((name for name in ("icarus", "verilator") if name in arguments.simulators and not absent(name)), "")
    if arguments.mutants and plain:
        say(f"\n{'golden set':36}{'injected bug':52}{'first row':16}rows that differ, by kind of case; in {plain}")
        own = {design: [bug for bug in MUTANTS if bug.design == design.set][: arguments.bugs] for design in chosen}
        for bugs_seen in side_by_side(lambda one: list(all_caught(one, own[one], folders[one.set], plain)), chosen):
            found += bugs_seen
            for one_bug in bugs_seen:
                say(shown_mutant(one_bug))
    if arguments.mutants and "verilator" in arguments.simulators.split(",") and not absent("verilator"):
        say(f"\n{'golden set':36}{'held':9}drawn transactions in Verilator, with a live predictor")
        driven = [design for design in chosen if design.set in live.SETS]
        for seen in side_by_side(lambda one: list(live.held(one, folders[one.set].parent / "live" / one.set)), driven):
            beside += seen
            for transaction in seen:
                say(live.shown(transaction))
    passed, known = sum(one.outcome == "pass" for one in outcomes), sum(one.caught for one in found)
    right = sum(one.right for one in [*held, *beside])
    say(
        f"\n{passed} of {len(outcomes)} benches pass, {right} of {len(held) + len(beside)} say what they must, "
        f"{known} of {len(found)} injected bugs are caught"
    )
    if arguments.json:
        print(
            json.dumps(
                {
                    "benches": [dataclasses.asdict(one) for one in outcomes],
                    "planted": [dataclasses.asdict(one) for one in held],
                    "live": [dataclasses.asdict(one) for one in beside],
                    "mutants": [dataclasses.asdict(one) for one in found],
                },
                indent=1,
            )
        )
    return int(passed + right + known < len(outcomes) + len(held) + len(beside) + len(found))


def side_by_side(run: Callable[[T], list[U]], items: Sequence[T]) -> Iterator[list[U]]:
    """What `run` gives for each item, in order; as many run at once as there are cores. One folder is of one item."""
    with futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        yield from pool.map(run, items)


def _planted(design: Design, folder: Path, simulators: Sequence[str]) -> list[planted.Held]:
    """What no bench may pass, of one design in every simulator."""
    return [one for name in simulators for one in planted.held(design, folder, name, folder.parent)]


def _cores(core: cores.Core, out: Path, simulators: Sequence[str]) -> list[planted.Held]:
    """A core with a pipeline or a handshake and its bugs, in every simulator."""
    return [one for name in simulators for one in cores.held(core, name, out)]


def wanted(design: Design, arguments: argparse.Namespace) -> bool:
    """Whether the command line asks for the golden set of a design."""
    return not arguments.designs or design.set in arguments.designs.split(",")


def parsed(words: Sequence[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description="RTL of refemu's units against their golden sets")
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    parser.add_argument("--simulators", default=",".join(SIMULATORS), help="default: all of %(default)s")
    parser.add_argument("--designs", default="", help="golden sets, by default all")
    parser.add_argument("--no-mutants", dest="mutants", action="store_false", help="only the benches")
    parser.add_argument(
        "--bugs", type=int, metavar="N", help="N bugs of each design, and what no bench may pass in one simulator only"
    )
    parser.add_argument("--out", default=str(ROOT / "out" / "rtl"), help="where sets, benches and builds go")
    return parser.parse_args(words)


def shown(one: Outcome) -> str:
    """A line of the first table; below it what a simulator that does not pass had to say."""
    rate = f"{one.vectors_per_second:,}" if one.outcome == "pass" else ""
    line = f"{one.set:36}{one.simulator:18}{one.outcome:9}{one.rows or '':>6}{rate:>12}"
    return "\n  ".join([line, *one.output.splitlines()[-20:]])


def shown_held(one: planted.Held) -> str:
    """A line of the second table; below it what a bench had to say that did not say what it must."""
    line = f"{one.set:36}{one.simulator:18}{'yes' if one.right else 'NO':9}{one.what}"
    return "\n  ".join([line, *one.output.splitlines()[-20:]])


def shown_mutant(one: Caught) -> str:
    """A line of the third table."""
    first = f"{one.kind} {one.first_row}" if one.caught else "NOT CAUGHT"
    differ = "  ".join(f"{kind} {count}" for kind, count in one.differ.items())
    return f"{one.set:36}{one.bug:52}{first:16}{differ}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
