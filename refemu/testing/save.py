"""A counterexample as a golden set of one case, with the design's answer next to it."""

import hashlib
import re
import shlex
from pathlib import Path

import numpy as np

from refemu.golden.files import npz, sets, store
from refemu.golden.make import build
from refemu.golden.make.regenerate import SAVED
from refemu.testing.compare import Failure
from refemu.units import parameters
from refemu.units.unit import Cases

READABLE = 120  #: characters of an id that its folder's name shows; a name has at most 255 bytes


def save(failure: Failure, folder: Path, test: str) -> str:
    """Write `folder`/<test>/<unit>-<config>/ and `folder`/<test>/dut.npz; returns the commands that show them.

    test: its id, from which `folder_name` makes a name. Outputs that the test did not give are in neither.
    """
    place = folder / folder_name(test)
    unit, config = failure.unit, failure.config
    held = unit.timing == "event"
    inputs = {name: np.asarray(array)[None] if held else np.asarray(array) for name, array in failure.inputs.items()}
    case = Cases("model", f"counterexample of {test}", inputs)
    manifest, arrays = build.build(unit, config, [case], generator={"model": {"function": SAVED, "seed": 0}})
    store.replace(place / parameters.set_name(unit, config), sets.render(manifest, arrays))
    first = next(entry["first"] for entry in manifest["cases"] if entry["why"] == case.why)
    answers = {f"out.{port}": arrays[f"out.{port}"].copy() for port in failure.answers}
    for port, codes in failure.answers.items():  # a worked example may come first; its answers count as right
        answers[f"out.{port}"][first : first + len(codes)] = codes
    store.write_files({place / "dut.npz": npz.to_bytes(answers)})
    target = place / parameters.set_name(unit, config)
    diff = ["refemu", "diff", str(target), str(place / "dut.npz"), "--explain", "--ports", ",".join(failure.answers)]
    diff += ["--any-nan"] * failure.any_nan
    return f"counterexample saved; replay it with:\n  {shlex.join(diff)}\n  " + shlex.join(
        ["refemu", "step", unit.key, "--case", f"{target}:{first}"]
    )


def folder_name(test: str) -> str:
    """A name for an id: its readable characters, and a digest so that no two ids share a folder."""
    readable = re.sub(r"[^A-Za-z0-9]+", "_", test).strip("_")[-READABLE:]
    return f"{readable}-{hashlib.sha256(test.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"
