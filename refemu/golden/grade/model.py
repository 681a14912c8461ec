"""Faults of class `model`: the readable unit with one operator, constant, comparison, branch or statement changed.

The unit's own modules are changed in memory, one place at a time, and imported anew in place of the right ones; files
stay as they are. A change on a line that the stimulus does not reach is not run. A mutant that raises, or takes many
times as long as the unit, is counted as raised.
"""

import ast
import importlib
import importlib.abc
import importlib.machinery
import signal
import sys
import threading
from _thread import interrupt_main
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache, partial
from importlib.util import spec_from_loader
from pathlib import Path
from types import CodeType, FrameType, ModuleType
from typing import Any

import numpy as np

from refemu import units
from refemu.arith import prng
from refemu.arith.checks import Refused
from refemu.golden.grade import answers as answers_of
from refemu.golden.grade import device, parts
from refemu.golden.grade.answers import Answers, values
from refemu.golden.grade.executed import Executed, Lines, executed, most, statements
from refemu.golden.grade.fault import Fault
from refemu.golden.grade.mutations import Mutation, mutations
from refemu.golden.make.rows import Block, evaluate
from refemu.units.unit import AnyUnit, Cases, Kind

OWN: tuple[Kind, ...] = ("paper", "edge", "random")
SAMPLE = 300  #: mutants of a unit, at most


def faults(answers: Answers, sample: int = SAMPLE) -> Iterator[Fault]:
    """Mutants of the unit's readable modules: all, or a seeded sample, in the order of the sources.

    Only where cases of the unit's own come by: what draws, refuses or composes otherwise makes no bit of a set.
    """
    reached = _executed(_own_cases(answers)).lines | _executed(answers).lines
    places = [
        (path, each)
        for path in sources(answers.unit)
        for each in _places(answers.unit, path.read_text())
        if _reached(path, each, reached)
    ]
    for number in _drawn(answers.unit.name, len(places), sample):
        path, mutation = places[number]
        id = f"{path.stem}/{mutation.line}/{mutation.kind}/{mutation.start}/{mutation.new}"
        says = f"{path.name}:{mutation.line}: {_line(mutation.old)} is {_line(mutation.new)}"
        yield Fault(id, says, partial(_wrong, path, mutation), _tried)


def sources(unit: AnyUnit) -> list[Path]:
    """Files of the modules of a unit: one, or those of its package."""
    file = _file(units.module(unit))
    return sorted(file.parent.glob("*.py")) if file.name == "__init__.py" else [file]


def _file(home: ModuleType) -> Path:
    """The source of a module. Refused: it has none, as in a notebook."""
    if getattr(home, "__file__", None) is None:
        raise Refused(f"grade: class model changes sources, and module {home.__name__} has no file")
    return Path(str(home.__file__))


def _places(unit: AnyUnit, source: str) -> list[Mutation]:
    """Changes of what computes: not of the descriptor, nor of functions that tell flags, masks, ports, legal inputs."""
    aside = {getattr(part, "__name__", "") for part in (unit.ports, unit.mark, unit.care, unit.legal)}
    passed: set[int] = set()
    for node in ast.parse(source).body:
        target = getattr(node, "target", None) or next(iter(getattr(node, "targets", ())), None)
        if (isinstance(target, ast.Name) and target.id == "UNIT") or (
            isinstance(node, ast.FunctionDef) and node.name in aside
        ):
            passed |= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return [each for each in mutations(source) if each.line not in passed]


def _drawn(label: str, count: int, sample: int) -> list[int]:
    """Numbers below `count` in order: those with the smallest words of the sequence `label`."""
    if count <= sample:
        return list(range(count))
    words = prng.words(prng.stream(f"grade/model/{label}", 0), 0, count)
    return sorted(np.argsort(words, kind="stable")[:sample].tolist())


def _line(text: str) -> str:
    return " ".join(text.split())


def _wrong(path: Path, mutation: Mutation, answers: Answers) -> np.ndarray:
    """Rows that differ in the first part of the stimulus that has some."""
    source, different = path.read_text(), np.zeros(answers.rows, np.bool_)
    right = _executed(answers)
    if not _reached(path, mutation, right.lines):
        return different
    code = compile(mutation.apply(source), str(path), "exec")
    try:
        with mutated(answers.unit, path, code) as unit:
            for (first, block), seconds in zip(parts.parts(answers, most(answers)), right.seconds, strict=True):
                with stopped_after(seconds):
                    got = answer(unit, answers, block)
                rows = device.unlike(answers, block, got)
                different[first : first + len(rows)] = rows
                if rows.any():
                    break
    except Exception as error:  # whatever a wrong program does
        raise Refused(f"{type(error).__name__}: {error}") from error
    return different


def _tried(answers: Answers) -> int:
    return parts.tried(answers, most(answers))


def _own_cases(answers: Answers) -> Answers:
    """Cases of every kind that no model makes."""
    unit, config = answers.unit, answers.config
    return answers_of.of_cases(unit, config, [case for kind in OWN for case in unit.stimuli(config, kind, 0)])


@lru_cache(maxsize=4)
def _executed(answers: Answers) -> Executed:
    """A trace of the unit imported anew: what functions of its modules remember would hide their lines."""
    files = sources(answers.unit)
    code = compile(files[0].read_text(), str(files[0]), "exec")
    with mutated(answers.unit, files[0], code) as unit:
        return executed(answers, tuple(files), partial(answer, unit))


def _reached(path: Path, mutation: Mutation, lines: Lines) -> bool:
    """Whether the statement of a change was run, or runs at every import."""
    statement = statements(path).get(mutation.line)
    return statement is None or any((str(path), line) in lines for line in statement)


def answer(unit: AnyUnit, answers: Answers, block: Block) -> Block:
    """What the readable form of `unit` answers to the stimulus of a block of `answers`."""
    inputs = values(answers.unit, answers.config, block)
    cases = Cases(block.cases.kind, block.cases.why, inputs)
    return evaluate(unit, answers.config, cases, twin_from=sys.maxsize)


@contextmanager
def mutated(unit: str | AnyUnit, path: Path, code: CodeType) -> Iterator[AnyUnit]:
    """The descriptor of a unit one of whose modules has other code. The modules of everyone else are as before."""
    home = units.module(unit)
    right = units.find(unit)
    attribute = next(name for name, value in vars(home).items() if value is right)
    whole = path.stem in ("__init__", home.__name__.rpartition(".")[2])
    name = home.__name__ if whole else f"{home.__name__}.{path.stem}"
    loaded = {key: module for key, module in sys.modules.items() if f"{key}.".startswith(f"{home.__name__}.")}
    above, _, last = home.__name__.rpartition(".")  # of a module in no package there is none above
    finder = _Finder(name, path, code)
    for key in loaded:
        del sys.modules[key]
    sys.meta_path.insert(0, finder)
    try:
        yield getattr(importlib.import_module(home.__name__), attribute)
    finally:
        sys.meta_path.remove(finder)
        for key in [key for key in sys.modules if f"{key}.".startswith(f"{home.__name__}.")]:
            del sys.modules[key]
        sys.modules.update(loaded)
        if above:
            setattr(sys.modules[above], last, home)


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds one module, and runs given code as its contents."""

    def __init__(self, name: str, path: Path, code: CodeType) -> None:
        self.name, self.path, self.code = name, path, code

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """The spec of that module, None of any other."""
        if fullname != self.name:
            return None
        package = self.path.name == "__init__.py"
        spec = spec_from_loader(fullname, self, origin=str(self.path), is_package=package)
        if spec is not None and package:
            spec.submodule_search_locations = [str(self.path.parent)]
        return spec

    def exec_module(self, module: ModuleType) -> None:
        """Run the code."""
        exec(self.code, vars(module))


@contextmanager
def stopped_after(seconds: float) -> Iterator[None]:
    """Raise Refused in this block, on the main thread, where it takes longer."""
    fired = threading.Event()
    before = signal.getsignal(signal.SIGINT)

    def interrupted(number: int, frame: FrameType | None) -> None:
        if fired.is_set():
            raise KeyboardInterrupt
        if callable(before):  # a process in the background of a shell ignores the signal
            before(number, frame)

    def fire() -> None:
        fired.set()
        interrupt_main()

    timer: Any = threading.Timer(seconds, fire)
    timer.daemon = True
    signal.signal(signal.SIGINT, interrupted)
    timer.start()
    try:
        yield
    except KeyboardInterrupt:
        if not fired.is_set():
            raise
        raise Refused(f"took more than {seconds:g} s") from None
    finally:
        timer.cancel()
        signal.signal(signal.SIGINT, before)
