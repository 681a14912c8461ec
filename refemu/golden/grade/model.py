"""Faults of class `model`: the readable unit with one operator, constant, comparison, branch or statement changed.

The unit's own modules are changed in memory, one place at a time, and imported in place of the right ones; files are
unchanged. A change on a line that the stimulus does not reach is not run. A mutant that raises, or takes many times as
long as the unit, is untested.
"""

import ast
from collections.abc import Iterator
from functools import lru_cache, partial
from pathlib import Path

import numpy as np

from refemu.arith import prng
from refemu.arith.checks import Refused
from refemu.golden.faults.fault import Fault
from refemu.golden.grade import answers as answers_of
from refemu.golden.grade import device, reimport, slices
from refemu.golden.grade.answers import Answers
from refemu.golden.grade.mutations import Mutation, mutations
from refemu.golden.grade.reached_lines import Executed, Lines, executed, most, statements
from refemu.golden.grade.time_limit import StoppedAfter
from refemu.units.unit import AnyUnit, Kind

OWN: tuple[Kind, ...] = ("paper", "edge", "random")
SAMPLE = 300  #: most mutants of a unit


def faults(answers: Answers, sample: int = SAMPLE) -> Iterator[Fault]:
    """Mutants of the unit's readable modules: all, or a seeded sample, in the order of the sources.

    Only in code that the unit's own cases reach: code that draws, validates or composes changes no bit of a set.
    """
    reached = _executed(_own_cases(answers)).lines | _executed(answers).lines
    places = [
        (path, each)
        for path in reimport.sources(answers.unit)
        for each in _places(answers.unit, path.read_text())
        if _reached(path, each, reached)
    ]
    for number in _drawn(answers.unit.name, len(places), sample):
        path, mutation = places[number]
        id = f"{path.stem}/{mutation.line}/{mutation.kind}/{mutation.start}/{mutation.new}"
        says = f"{path.name}:{mutation.line}: {_line(mutation.old)} is {_line(mutation.new)}"
        yield Fault(id, says, program=partial(wrong, path, mutation), looked_at=_tried)


def _places(unit: AnyUnit, source: str) -> list[Mutation]:
    """Changes of computing code: not of the descriptor, nor of functions for flags, masks, ports and valid inputs."""
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
    """Ascending numbers below `count`: those with the smallest words of the sequence `label`."""
    if count <= sample:
        return list(range(count))
    words = prng.words(prng.stream(f"grade/model/{label}", 0), 0, count)
    return sorted(np.argsort(words, kind="stable")[:sample].tolist())


def _line(text: str) -> str:
    return " ".join(text.split())


def wrong(path: Path, mutation: Mutation, answers: Answers) -> np.ndarray:
    """Rows that differ, in the first part of the stimulus with any."""
    source, different = path.read_text(), np.zeros(answers.rows, np.bool_)
    right = _executed(answers)
    if not answers.inputs and not _reached(path, mutation, right.lines):
        return different
    code = compile(mutation.apply(source), str(path), "exec")
    try:
        with reimport.mutated(answers.unit, path, code) as unit:
            for (first, block), seconds in zip(slices.parts(answers, most(answers)), right.seconds, strict=True):
                with StoppedAfter(seconds):
                    rows = device.readable(unit, answers, block)
                different[first : first + len(rows)] = rows
                if rows.any():
                    break
    except Exception as error:  # a mutant may raise anything
        raise Refused(f"{type(error).__name__}: {error}") from error
    return different


def _tried(answers: Answers) -> int:
    return slices.tried(answers, most(answers))


def _own_cases(answers: Answers) -> Answers:
    """Cases of every kind except "model"."""
    unit, config = answers.unit, answers.config
    return answers_of.of_cases(unit, config, [case for kind in OWN for case in unit.stimuli(config, kind, 0)])


@lru_cache(maxsize=4)
def _executed(answers: Answers) -> Executed:
    """A trace of the unit, imported again since caches of its functions would hide their lines."""
    files = reimport.sources(answers.unit)
    code = compile(files[0].read_text(), str(files[0]), "exec")
    with reimport.mutated(answers.unit, files[0], code) as unit:
        traced = () if answers.inputs else tuple(files)  # a trace of so many rows takes long
        return executed(answers, traced, partial(device.readable, unit))


def _reached(path: Path, mutation: Mutation, lines: Lines) -> bool:
    """Whether the statement of a change ran, or runs at every import."""
    statement = statements(path).get(mutation.line)
    return statement is None or any((str(path), line) in lines for line in statement)
