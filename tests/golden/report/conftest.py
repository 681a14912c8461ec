"""A regression: a right device, one with a late register, a testbench whose device has wrong signs, a saved case."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from refemu import golden, units
from refemu.golden.files import hexfile
from refemu.golden.report.regression import Regression, regression
from refemu.testing.compare import Failure
from refemu.testing.save import save

EVIL = "test_<script>alert('1')</script>&\x1b[31m\x00"  # a test id that every form of a report must escape


def outputs(folder: Path) -> dict[str, np.ndarray]:
    """Right answers to a set, for a test to change."""
    arrays = golden.load(folder).arrays
    return {name: array.copy() for name, array in arrays.items() if name.startswith("out.") and ".care" not in name}


def log_of(bench: Path, stops: bool) -> str:
    """A testbench's log of a device with wrong signs from row 45 on. stops: at the first difference."""
    name = bench / "outlier_decoder-e2m1"
    layout = hexfile.layout([entry for entry in golden.load(name).manifest["arrays"] if entry["role"] == "expected"])
    wrong, right = outputs(name), outputs(name)
    wrong["out.base_int"][45:] ^= 8
    words = [b"".join(hexfile.lines(layout, arrays)).decode().split() for arrays in (wrong, right)]
    lines = []
    for row, (got, want) in enumerate(zip(*words, strict=True)):
        if got != want:
            lines += [
                f"FAIL row {row}: in 00 got {got} want {want} care ff",
                f"  base_int: got {got[1]} want {want[1]}",
            ]
    count = f"FATAL: tb_outlier_decoder.v:88: FAIL {len(lines) // 2} of {len(right['out.base_int'])} rows differ"
    stopped = "FATAL: tb_outlier_decoder.v:71: FAIL stopped; +ALL prints every row that differs"
    return "\n".join([*lines[:2], stopped] if stops else [*lines, count]) + "\n"


@pytest.fixture(scope="session")
def made_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that `run` copies."""
    root = tmp_path_factory.mktemp("run")
    golden.generate(root, units=["ovp_decoder:int4", "olive_mac:wrap"], kinds=["paper", "edge"])
    np.savez(root / "ovp_decoder-int4.answers.npz", **outputs(root / "ovp_decoder-int4"))
    late = outputs(root / "olive_mac-wrap")
    late["out.acc"][1:] = late["out.acc"][:-1].copy()
    np.savez(root / "olive_mac-wrap" / "answers.npz", **late)
    bench = root / "bench"
    golden.generate(bench, units=["outlier_decoder:e2m1"], kinds=["paper", "edge"], hex=True)
    (bench / "tb_outlier_decoder.v").touch()
    (bench / "build").mkdir()
    (bench / "build" / "icarus.log").write_text(log_of(bench, True))
    (bench / "build" / "icarus.code").write_text("1\n")
    inputs = {"code": np.array([5]), "bias": np.array([2])}
    unit = units.find("outlier_decoder")
    answers = {"base_int": np.array([1], np.uint8)}
    save(Failure(unit, "e2m1", inputs, answers), root / "saved", EVIL)
    return root


@pytest.fixture
def run(made_once: Path, tmp_path: Path) -> Path:
    """A folder to change."""
    return Path(shutil.copytree(made_once, tmp_path / "run"))


@pytest.fixture(scope="session")
def outcome(made_once: Path) -> Regression:
    """The unchanged regression with coverage of the fast classes."""
    return regression(made_once)


def campaign(folder: Path) -> None:
    """A finished campaign of one shard."""
    from refemu.golden.campaign import plan

    plan.run(plan.request(200, units_=["outlier_decoder:e2m1"]), folder)


def reread(text: str) -> dict[str, object]:
    """A JSON document, parsed again."""
    document: dict[str, object] = json.loads(text)
    return document
