"""The files of the examples, as described in refemu.cli.help.examples."""

import json
from pathlib import Path

import numpy as np

from refemu import golden, units
from refemu.golden.compare import pipe

UNIT = "ovp_decoder"


def write(folder: Path) -> None:
    """Write them into an empty folder."""
    for name in ("vec", "before"):
        golden.generate(folder / name, units=[f"{UNIT}:int4"], kinds=["paper", "edge"])
    loaded = golden.load(folder / "vec" / f"{UNIT}-int4")
    arrays = {name: array.copy() for name, array in loaded.arrays.items()}
    arrays["out.base_int"].reshape(-1)[3] ^= 1
    np.savez(folder / "dut.npz", **{name: array for name, array in arrays.items() if name.startswith("out.")})
    np.savez(folder / "stimulus.npz", **{name: array[:3] for name, array in arrays.items() if name.startswith("in.")})
    _answers(folder / "answers.txt")
    (folder / "core.json").write_text(json.dumps({"top": "my_core", "inputs": {"din": "pair", "bias_in": "bias"}}))
    (folder / "book.txt").write_text(
        "The rain had stopped by seven, and a boy on the quay counted the boats that came in. " * 8
    )
    design = Path(__file__).parents[3] / "examples" / "rtl" / f"{UNIT}.v"
    (folder / design.name).write_text(design.read_text())


def _answers(path: Path) -> None:
    """Write three answers of a device that always answers zero."""
    unit, config = units.choose(f"{UNIT}:int4", None)
    words = b"".join(pipe.stimulus(unit, config, ["paper"], 0)).decode().split()
    path.write_text("".join(f"{word} 00000\n" for word in words[:3]))
