"""A counterexample as a golden set of one case, with the design's answer beside it."""

import re
from pathlib import Path

import numpy as np

from refemu.golden.files import npz, sets, store
from refemu.golden.make import build
from refemu.golden.make.regenerate import SAVED
from refemu.testing.compare import Failure
from refemu.units import parameters
from refemu.units.unit import Cases


def save(failure: Failure, folder: Path, test: str) -> str:
    """Write `folder`/<test>/<unit>-<config>/ and `folder`/<test>/dut.npz; returns how to look at them.

    test: its id; characters that are no letters or digits become `_`. Outputs that were not given stay
    out of both.
    """
    place = folder / re.sub(r"[^A-Za-z0-9]+", "_", test).strip("_")
    unit, config = failure.unit, failure.config
    held = unit.timing == "event"
    inputs = {name: np.asarray(array)[None] if held else np.asarray(array) for name, array in failure.inputs.items()}
    case = Cases("model", f"counterexample of {test}", inputs)
    manifest, arrays = build.build(unit, config, [case], generator={"model": {"function": SAVED, "seed": 0}})
    store.replace(place / parameters.set_name(unit, config), sets.render(manifest, arrays))
    first = next(entry["first"] for entry in manifest["cases"] if entry["why"] == case.why)
    answers = {f"out.{port}": arrays[f"out.{port}"].copy() for port in failure.answers}
    for port, codes in failure.answers.items():  # before them may stand a worked example, taken as answered right
        answers[f"out.{port}"][first : first + len(codes)] = codes
    store.write_files({place / "dut.npz": npz.to_bytes(answers)})
    target = place / parameters.set_name(unit, config)
    return (
        f"counterexample saved; replay it with:\n  refemu diff {target} {place / 'dut.npz'} --explain --ports "
        f"{','.join(failure.answers)}{' --any-nan' * failure.any_nan}\n"
        f"  refemu step {unit.key} --case {target}:{first}"
    )
