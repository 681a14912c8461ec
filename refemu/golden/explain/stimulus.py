"""Explanations of answers without a set: rows that a test or a pipe compared with a unit."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from refemu.golden.compare import answer_files
from refemu.golden.explain import diagnosis_text
from refemu.golden.explain.diagnosis import Diagnosis, diagnosis
from refemu.golden.explain.histograms import Where, where
from refemu.golden.files import manifest as manifests
from refemu.golden.files.sets import Golden
from refemu.golden.make import build
from refemu.golden.make.regenerate import SAVED
from refemu.units.unit import AnyUnit, Cases

WHY = "compared with a device"  #: reason of the cases


@dataclass(frozen=True)
class Answered:
    """Cases of one length with a device's answers."""

    inputs: Mapping[str, np.ndarray]  #: by port, in the form of `Cases`
    answers: Mapping[str, np.ndarray]  #: bit patterns by output port
    unknown: Mapping[str, np.ndarray] = field(default_factory=dict)  #: bits that were x or z, by output port


@dataclass(frozen=True)
class Explained:
    """What a device did, and the number of rows that show it."""

    diagnosis: Diagnosis
    where: Where
    rows: int
    wrong: int

    @property
    def lines(self) -> list[str]:
        """For people."""
        return list(diagnosis_text.lines(self.diagnosis, self.where, self.rows, self.wrong))


def explained(
    unit: AnyUnit, config: str, parts: Sequence[Answered], any_nan: frozenset[str] = frozenset()
) -> Explained | None:
    """What a device did; None if it is right. Every part has the same outputs.

    any_nan: outputs at which NaNs count as equal.
    """
    cases = [Cases("model", WHY, part.inputs) for part in parts]
    generator = {"model": {"function": SAVED, "seed": 0}}
    manifest, arrays = build.build(unit, config, cases, generator=generator, compiled_from=1, lead=False)
    golden = Golden(manifests.sealed({**manifest, "hex": {}, "bin": {}}), arrays)
    answers = {
        f"out.{port}": _joined(golden, port, [part.answers[port] for part in parts]) for port in parts[0].answers
    }
    unknown = {
        f"out.{port}": _joined(golden, port, [part.unknown[port] for part in parts]) for port in parts[0].unknown
    }
    answer = answer_files.Answer(answers, unknown, frozenset(f"out.{port}" for port in any_nan))
    wrong = np.zeros(golden.rows, np.bool_)
    for name in answers:
        wrong |= answer.wrong_rows(golden, name)
    if not wrong.any():
        return None
    places = where(golden, answer, wrong, {})
    return Explained(diagnosis(golden, answer, wrong), places, golden.rows, int(np.count_nonzero(wrong)))


def _joined(golden: Golden, port: str, parts: Sequence[np.ndarray]) -> np.ndarray:
    """The rows of all parts in the shape of the set's array."""
    shape = golden.arrays[f"out.{port}"].shape
    return np.concatenate([part.reshape(-1, *shape[1:]) for part in parts])
