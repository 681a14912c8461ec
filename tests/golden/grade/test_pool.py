"""Rows outside a set: every kind, other seeds, the requested number."""

import pytest

from refemu.golden.faults.fault import Fault
from refemu.golden.grade import every
from refemu.golden.grade.pool import Pool
from tests.golden import fakes


def test_all_inputs_are_the_pool() -> None:
    pool = Pool(fakes.BLENDER, "wrap", seed=0)
    fault, late = Fault("a", ""), Fault("b", "", remembers=True)

    assert pool.of(fault) is pool.answers and pool.answers.rows == pool.answers.inputs == 256
    assert pool.of(late).rows == 3 * 256 and pool.of(late).inputs == 256


def test_rows_have_every_kind_and_other_seeds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(every, "MOST", 100)
    pool = Pool(fakes.BLENDER, "wrap", seed=4, least=60)
    kinds = [block.cases.kind for block in pool.answers.blocks]

    assert kinds == ["paper", "edge", "exhaustive", "random"]
    drawn = pool.answers.blocks[-1].cases.inputs["first"]
    wanted = next(fakes.blend_cases(pool.answers.config, "random", range(5, 8))).inputs["first"]
    assert drawn.tolist() == wanted.tolist() and len(drawn) == 72


def test_rows_are_computed_on_demand() -> None:
    pool = Pool(fakes.METER, "w4", seed=0, least=12)

    assert pool.rows == 0
    assert pool.answers.rows == pool.rows == 6 + 12
