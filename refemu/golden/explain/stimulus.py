"""Explanations of answers that belong to no set: rows that a test or a pipe has held against a unit."""

from collections.abc import Mapping, Sequence

import numpy as np

from refemu.golden.compare import dut
from refemu.golden.explain.verdict import Verdict, verdict
from refemu.golden.explain.where import Where, where
from refemu.golden.files import manifest as manifests
from refemu.golden.files.sets import Golden
from refemu.golden.make import build
from refemu.golden.make.regenerate import SAVED
from refemu.units.unit import AnyUnit, Cases

WHY = "held against a device"  #: reason of the cases


def explained(
    unit: AnyUnit,
    config: str,
    parts: Sequence[tuple[Mapping[str, np.ndarray], Mapping[str, np.ndarray]]],
    any_nan: frozenset[str] = frozenset(),
) -> tuple[Verdict, Where, int, int]:
    """What a device did: verdict, where it differs, number of rows and of wrong ones.

    parts: inputs by port as `Cases` have them, and answers by output port as bit patterns of their shape; every part
    has the same outputs. any_nan: outputs at which any NaN is as good as another.
    """
    cases = [Cases("model", WHY, inputs) for inputs, _ in parts]
    manifest, arrays = build.build(
        unit, config, cases, generator={"model": {"function": SAVED, "seed": 0}}, twin_from=1, lead=False
    )
    golden = Golden(manifests.sealed({**manifest, "hex": {}, "bin": {}}), arrays)
    answers = {
        f"out.{port}": np.concatenate([codes[port].reshape(-1, *arrays[f"out.{port}"].shape[1:]) for _, codes in parts])
        for port in parts[0][1]
    }
    answer = dut.Answer(answers, {}, frozenset(f"out.{port}" for port in any_nan))
    wrong = np.zeros(golden.rows, np.bool_)
    for name in answers:
        wrong |= (answer.differing(golden, name).reshape(golden.rows, -1) != 0).any(axis=1)
    places = where(golden, answer, wrong, {})
    return verdict(golden, answer, wrong), places, golden.rows, int(np.count_nonzero(wrong))
