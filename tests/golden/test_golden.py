"""Public names, and comparisons that load neither numba nor the transformer runtime."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from refemu import golden, units


def test_public_names_exist() -> None:
    for name in golden.__all__:
        assert getattr(golden, name).__doc__


def test_comparison_loads_neither_numba_nor_models(tmp_path: Path) -> None:
    golden.generate(tmp_path, units=["flint_decoder"], kinds=["exhaustive"])
    code = f"""
import sys
from refemu import golden
assert golden.diff({str(tmp_path / "flint_decoder-flint4")!r}, {str(tmp_path / "flint_decoder-flint4")!r}).equal
assert golden.check({str(tmp_path)!r}).equal
print(sorted({{"numba", "scipy", "hypothesis", "rich", "refemu.models"}} & set(sys.modules)))
"""

    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"
    )


FIRST = {name: next(iter(units.find(name).configs)) for name in units.names()}
ALL = {name: [*units.find(name).configs] for name in units.names()}


@pytest.mark.long
@pytest.mark.parametrize(
    "configs",
    [
        pytest.param({name: [config] for name, config in FIRST.items()}, id="first"),
        pytest.param(ALL, id="all", marks=pytest.mark.slow),  # the committed sets already fix their bytes
    ],
)
def test_every_unit_makes_a_set_with_words(configs: dict[str, list[str]], tmp_path: Path) -> None:
    made = [
        one
        for name, some in configs.items()
        for one in golden.generate(tmp_path, units=[name], configs=some, kinds=["paper", "edge"], hex=True, bin=True)
    ]

    assert {f"{name}-{config}" for name, some in configs.items() for config in some} == {one.name for one in made}
    assert golden.check(tmp_path).equal
    for one in made:
        loaded = golden.load(one.path)
        first = {name: array[0] for name, array in loaded.arrays.items()}
        assert any(np.any(first[name]) for name in first if name.startswith("in."))
        assert any(np.any(first[name]) for name in first if name.startswith("out."))
        assert golden.diff(one.path, Path(one.path) / "hex" / "gold.mem").equal


def test_a_case_can_be_stepped(tmp_path: Path) -> None:
    golden.generate(tmp_path, units=["olive_mac"], kinds=["paper"])
    loaded = golden.load(tmp_path / "olive_mac-wrap")
    unit = units.find("olive_mac")
    for entry in loaded.manifest["cases"]:
        config, inputs = golden.case_inputs(loaded, entry["first"], unit)
        states = list(unit.trace(unit.configs[config], inputs))

        acc = loaded.arrays["out.acc"][entry["first"] : entry["first"] + entry["rows"]].view(np.int32)
        assert acc.tolist() == [state.acc for state in states]
