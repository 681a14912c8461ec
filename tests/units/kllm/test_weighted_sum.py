"""The weighted sum against fractions and literal steps, every accumulator, order and table."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refemu.arith.checks import Refused
from refemu.units.kllm import weighted_sum
from refemu.units.kllm.weighted_sum import WeightedSum
from refemu.units.kllm.weighted_sum import compiled as weighted_sum_compiled
from tests.oracles import fp16
from tests.oracles.kllm import units
from tests.units.kllm.kmeans_operands import ARITHS

IMPLEMENTATIONS = [pytest.param(weighted_sum.run, id="unit"), pytest.param(weighted_sum_compiled.run, id="compiled")]
PRODUCTS = [0x3800, 0x3000, 0xB000, 0xB800, 0xBA00, 0xB200, 0x3200, 0x3A00]
WORDS = st.integers(0, 0x7BFF).flatmap(lambda u: st.sampled_from([u, u | 0x8000]))
COUNTS = st.one_of(st.integers(0, 300), st.sampled_from([2047, 2048, 2049, 2051, 4095, 4097, 65519, 65520, 65535]))


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
@pytest.mark.parametrize("preset", ["paper", "exact"])
def test_worked_column(run: Any, preset: str) -> None:
    """[kllm §III-B1 step 3] one lookup and one MAC per count, whether it is 0 or not."""
    result = run([1, 0, 1, 2, 1, 2, 1, 0], PRODUCTS, bits=3, preset=preset)

    assert result.y.view(np.float16) == -1.5625 and (result.lookups, result.macs) == (8, 8)


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
@pytest.mark.parametrize("name", sorted(set(ARITHS) - {name for name in ARITHS if "wide" in name}))
@settings(deadline=None, max_examples=30)
@given(count=st.lists(COUNTS, min_size=8, max_size=8), codebook=st.lists(WORDS, min_size=8, max_size=8))
def test_sums_equal_the_oracle(run: Any, name: str, count: list[int], codebook: list[int]) -> None:
    """D-kllm-2, D-kllm-3, D-kllm-4: order, roundings, and counts beyond what fp16 holds."""
    arith, acc, order, _ = ARITHS[name]
    floats = [fp16.to_float(u) for u in codebook]
    if acc == "exact":
        wanted = fp16.from_fraction(units.exact_sum(count, floats))
    else:
        wanted = fp16.from_float(units.weighted_sum(count, floats, acc, order))
    result = run(count, codebook, bits=3, preset=arith)

    assert int(result.y) == wanted
    assert bool(result.overflow) == (wanted & 0x7C00 == 0x7C00)


@pytest.mark.parametrize("name", ["wide table", "wide table fma", "wide table fp32"])
@settings(deadline=None, max_examples=30)
@given(
    count=st.lists(COUNTS, min_size=8, max_size=8),
    a=st.lists(WORDS, min_size=8, max_size=8),
    b=st.lists(WORDS, min_size=8, max_size=8),
)
def test_sums_over_float32_tables_equal_the_oracle(name: str, count: list[int], a: list[int], b: list[int]) -> None:
    """D-kllm-5: products of two fp16 values, 22 bits, under an accumulator of any width."""
    arith, acc, order, _ = ARITHS[name]
    table = [fp16.to_float(x) * fp16.to_float(y) for x, y in zip(a, b, strict=True)]
    wanted = units.weighted_sum(count, table, acc, order)
    numbers, entries = np.array([count]), np.array([table], np.float32)

    for sums in (weighted_sum.sums, weighted_sum_compiled.sums):
        (y,) = sums(numbers, entries, arith)
        assert float(y) == wanted or (np.isnan(y) and wanted != wanted)


def test_sequential_sum_has_one_event_per_mac() -> None:
    """D-kllm-2: in sequence every step can be looked at; y appears with the last."""
    device = WeightedSum(3)
    states = list(device.steps([1, 0, 1, 2, 1, 2, 1, 0], PRODUCTS))
    values = [float(np.uint32(state.acc).view(np.float32)) for state in states]

    assert values == [0.5, 0.5, 0.375, -0.625, -1.375, -1.75, -1.5625, -1.5625]
    assert [state.y for state in states[:-1]] == [0] * 7 and states[-1].y == 0xBE40
    assert [s.event for s in WeightedSum(3, ARITHS["lanes"][0]).steps([1] * 8, PRODUCTS)] == ["sum"]


def test_wrong_order_of_events_is_rejected() -> None:
    device = WeightedSum(1)
    with pytest.raises(Refused, match="weighted_sum: step needs the inputs of an operation, got none"):
        device.step()
    device.step([1, 1], [0x3C00, 0x3C00])
    with pytest.raises(Refused, match=r"weighted_sum: step takes no inputs after event \w+"):
        device.step([1, 1], [0x3C00, 0x3C00])


@pytest.mark.parametrize("bits", [0, 9])
def test_weighted_sum_rejects_other_widths(bits: int) -> None:
    with pytest.raises(Refused, match=r"weighted_sum: bits must be in \[1, 8\]"):
        WeightedSum(bits)


def test_weighted_sum_repr_evaluates_back() -> None:
    assert repr(WeightedSum(3)) == "WeightedSum(bits=3, preset='paper')"
