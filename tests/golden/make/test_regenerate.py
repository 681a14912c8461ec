"""A manifest is enough to make a set again, byte for byte; what cannot be made again says so."""

import copy
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from refemu import golden, units
from refemu.arith.checks import Refused
from refemu.golden.files import manifest as manifests
from refemu.golden.files import sets
from refemu.golden.make import model_cases, regenerate
from refemu.units.unit import Cases


@pytest.fixture
def made(tmp_path: Path) -> sets.Golden:
    """A set of a small unit, with every export."""
    golden.generate(tmp_path, units=["outlier_decoder"], kinds=["paper", "random"], seed=3, hex=True, bin=True)
    return sets.load(next(tmp_path.glob("outlier_decoder-*")))


def changed(manifest: Any, **values: Any) -> dict[str, Any]:
    return {**copy.deepcopy(dict(manifest)), **values}


def test_every_file_is_made_again(made: sets.Golden, tmp_path: Path) -> None:
    folder = tmp_path / made.name
    files = {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}

    assert regenerate.regenerate(made.manifest) == files
    bare = regenerate.regenerate(changed(made.manifest, hex={}, bin={}))
    assert set(bare) == {sets.MANIFEST, sets.VECTORS, sets.LISTING}
    assert regenerate.regenerate(changed(made.manifest, seed=4))[sets.VECTORS] != files[sets.VECTORS]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"unit": "outlier_decode"}, "did you mean 'outlier_decoder'"),
        ({"name": "outlier_decoder-none"}, "unknown configuration of outlier_decoder 'none'"),
    ],
)
def test_refuses_what_it_does_not_know(made: sets.Golden, values: dict[str, str], message: str) -> None:
    with pytest.raises(Refused, match=message):
        regenerate.regenerate(changed(made.manifest, **values))


def test_cases_that_a_test_saved_are_not_made_again(made: sets.Golden) -> None:
    generator = {"model": {"function": regenerate.SAVED, "seed": 0}}

    with pytest.raises(model_cases.Absent, match="a test saved these cases"):
        regenerate.regenerate(changed(made.manifest, generator=generator))


def test_a_shard_of_several_seeds() -> None:
    """It has as many rows as its seeds give; a manifest that claims more seeds is damaged."""
    blocks = regenerate.random_cases(units.find("concat"), "a4", 5, 2)
    generator = {"random": {"function": "concat.cases", "seed": 5, "seeds": 2}}
    described, arrays = regenerate.build.build(
        units.find("concat"), "a4", blocks, generator=generator, seed=5, compiled_from=1
    )
    files = sets.render(described, arrays)
    manifest = json.loads(files[sets.MANIFEST])

    assert regenerate.regenerate(manifest) == files
    manifest["generator"]["random"]["seeds"] = 3
    with pytest.raises(manifests.Damaged, match="3 seeds give"):
        regenerate.regenerate(manifest)


def test_a_block_of_a_run_is_made_again_from_its_cases() -> None:
    unit = units.find("concat")
    ports = unit.ports(unit.configs["a4"]).inputs
    inputs = {port.name: np.arange(8 * port.count).reshape(2, 4, *port.shape) % 8 for port in ports}
    case = Cases("model", "indices", inputs, source={"tensor": "blk.2.q", "layer": 2}, config="a4")
    files = regenerate.block_set(unit, "a4", 2, [case], {"model": "toy"})
    manifest = json.loads(files[sets.MANIFEST])

    assert manifest["generator"]["model"]["layer"] == 2
    assert regenerate.remake(manifest, [case], {"model": "toy"}) == files


def test_the_model_cases_of_a_set(made: sets.Golden) -> None:
    assert regenerate.model_blocks(made) == []
