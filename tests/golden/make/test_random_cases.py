"""Random cases of several seeds: those of each seed in turn."""

import numpy as np
import pytest

from refemu.arith.checks import Refused
from refemu.golden.make import random_cases
from refemu.units.unit import Cases
from tests.golden import fakes


def test_seeds_come_in_turn() -> None:
    (block,) = random_cases.random_cases(fakes.BLENDER, "wrap", 3, 2)
    wanted = [next(fakes.blend_cases(fakes.BLENDER.configs["wrap"], "random", seed)).inputs["first"] for seed in (3, 4)]

    assert np.array_equal(block.inputs["first"], np.concatenate(wanted))


def test_reasons_that_depend_on_the_seed_are_rejected() -> None:
    some = {"first": np.array([1])}
    with pytest.raises(Refused, match="reasons must not depend on the seed"):
        random_cases._merged([Cases("random", "a", some), Cases("random", "b", some)])
