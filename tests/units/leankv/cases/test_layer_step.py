"""Faults that cases of a single request do not detect: orders of pages, comparisons at equality, warps."""

import contextlib
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest

from refemu import units
from refemu.arith.checks import Refused
from refemu.golden.files.fields import decode
from refemu.golden.grade import answers as answers_of
from refemu.golden.grade.answers import Answers
from refemu.units.declaration import Changes
from refemu.units.leankv.generation_compressor import GenerationCompressor
from refemu.units.leankv.layer_step import heads
from refemu.units.leankv.layer_step import layer_step as unit
from refemu.units.leankv.page_manager import Moved, PageManager
from refemu.units.leankv.paged_attention import PagedAttention
from tests.golden import detecting

pytestmark = pytest.mark.committed

SETS = [f"layer_step-{config}" for config in units.find("layer_step").configs]
POINTERS = {"free", "list_start"}  #: registers that count pages: an output or another register has to differ
Ids = Sequence[Sequence[int]]


class LowFirst(PageManager):
    """At the end of a request, the low pages of a head are freed before its high ones."""

    def _recycled(self, parts: Ids, counts: Sequence[int] | None = None) -> Moved:
        if counts is not None:  # high and low of each head
            parts = [[*ids[high:], *ids[:high]] for ids, high in zip(parts, counts[::2], strict=True)]
        return super()._recycled(parts, counts)


class Backwards(PageManager):
    """The unused pages of a prompt are freed from the last to the first."""

    def _recycled(self, parts: Ids, counts: Sequence[int] | None = None) -> Moved:
        return super()._recycled([ids[::-1] for ids in parts] if counts is None else parts, counts)


class Leaking(PageManager):
    """The unused pages of a prompt are not freed."""

    def _recycled(self, parts: Ids, counts: Sequence[int] | None = None) -> Moved:
        return super()._recycled([()] * len(parts) if counts is None else parts, counts)


class Holding(PageManager):
    """The pages of a request that ends or yields are not freed."""

    def _recycled(self, parts: Ids, counts: Sequence[int] | None = None) -> Moved:
        if counts is None:
            return super()._recycled(parts)
        return super()._recycled([()] * len(parts), [0] * len(counts))


class StartsLate(PageManager):
    """The start of the list is one too far after an allocation for a prompt."""

    def _allocated(self, counts: Sequence[int]) -> Moved:
        moved = super()._allocated(counts)
        if len(counts) == self.shape.heads and self.free:  # a step asks for both sections of a head
            self.list.allocate(1)
        return moved


class Inclusive(GenerationCompressor):
    """Some comparisons of a decision take what is equal for less."""

    def __init__(self, *args: Any, numbers: Sequence[int], branch: str = "AB", **named: Any) -> None:
        """numbers: of the comparisons, in their order; those of the last event begin at 2. branch: of Algorithm 1."""
        super().__init__(*args, **named)
        self.numbers, self.branch = numbers, branch

    def argmin(self) -> Changes:
        self.comparison = 0
        return super().argmin()

    def case(self) -> Changes:
        self.comparison = 2
        return super().case()

    def _below(self, value: float, threshold: float) -> bool:
        number, self.comparison = self.comparison, self.comparison + 1
        inclusive = number in self.numbers and "AB"[self.state.slots[1] >= 0] in self.branch
        return value <= threshold if inclusive else value < threshold


PAGES = {"finish frees low pages first": LowFirst, "release frees backwards": Backwards, "release leaks": Leaking}
PAGES |= {"finish frees nothing": Holding, "start off by one": StartsLate}
ALGORITHM1 = {
    "candidate > T_l": ((0, 2), "AB"),
    "candidate > T_h": ((1, 3), "AB"),
    "high victim > T_h": ((4,), "A"),
    "high victim > T_l": ((5,), "A"),
    "low victim > T_l": ((4,), "B"),
}
ONE_PRECISION = {"candidate > T": ((0, 1, 2, 3), "AB"), "victim > T": ((4, 5), "A")}
DIFFKV = {
    "high > alpha_prune": ((2,), "AB"),
    "high > alpha_quant": ((3, 5), "AB"),
    "low > alpha_prune": ((4,), "AB"),
}


def faults(name: str) -> Iterator[Any]:
    """Of a set: what to replace in the units of a head, and by what."""
    for says, manager in PAGES.items():
        if manager is LowFirst and name.endswith("one_precision"):  # which has no low pages
            continue
        yield pytest.param(name, unit, "PageManager", manager, id=f"{name}-{says}")
    rules = {"head_diffkv": DIFFKV, "head_one_precision": ONE_PRECISION}.get(name.partition("-")[2], ALGORITHM1)
    for says, (numbers, branch) in rules.items():
        compressor = partial(Inclusive, numbers=numbers, branch=branch)
        yield pytest.param(name, heads, "GenerationCompressor", compressor, id=f"{name}-{says}")
    yield pytest.param(name, heads, "PagedAttention", of_four_warps, id=f"{name}-4 warps")


def of_four_warps(**given: Any) -> PagedAttention:
    """A block of four warps, whatever the unit asks for."""
    return PagedAttention(**given | {"warps": 4})


def operations(device: Any, inputs: dict[str, np.ndarray]) -> Iterator[Any]:
    """States after the operations of a case, up to one that a faulty device cannot execute."""
    with contextlib.suppress(Refused):
        yield from (state for state in device.steps(**inputs) if not device.busy)


def is_detected(rows: Answers) -> bool:
    """Whether the readable unit differs from a row of a set, in more than a count of pages, or rejects one."""
    ports = [(key, port) for key, port in (rows.ports | rows.registers).items() if port.name not in POINTERS]
    for block in rows.blocks[::-1]:
        right = {port.name: decode(block.arrays[key], port) for key, port in ports}
        inputs = answers_of.values(rows.unit, rows.config, block)
        for case in range(block.shape[0]):
            device = rows.unit.unit_class(**rows.config)
            got, done = operations(device, {port: array[case] for port, array in inputs.items()}), 0
            for event, state in enumerate(got):
                done = event + 1
                for port, array in right.items():
                    if np.ravel(getattr(state, port)).tolist() != array[case, event].ravel().tolist():
                        return True
            if done < block.shape[1]:  # it lacks pages
                return True
    return False


@pytest.mark.parametrize(("name", "module", "part", "faulty"), [each for name in SETS for each in faults(name)])
def test_each_set_detects_the_fault(
    monkeypatch: pytest.MonkeyPatch, name: str, module: Any, part: str, faulty: Any
) -> None:
    """D-leankv-27, D-leankv-38, D-leankv-56."""
    rows = detecting.drawn(name)  # before the unit is faulty
    monkeypatch.setattr(module, part, faulty)
    assert is_detected(rows)


def test_the_unit_itself_is_not_detected() -> None:
    assert not is_detected(detecting.drawn("layer_step-head_one_precision"))
