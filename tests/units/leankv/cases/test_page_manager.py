"""What the golden cases of the memory manager must hold."""

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from refemu.arith.checks import Refused
from refemu.golden.files.fields import decode
from refemu.golden.grade import answers as answers_of
from refemu.units.leankv.page_manager import RELEASE, STEP, UNIT, Moved, PageManager, cases
from refemu.units.stimuli import random_inputs
from tests.golden import detecting


@pytest.mark.parametrize("name", UNIT.configs)
def test_edges_lack_pages_and_fill_entries(name: str) -> None:
    config = UNIT.configs[name]
    results = [UNIT.evaluate(config, block.inputs) for block in UNIT.cases(config, "edge", 0)]
    used = [result.used.astype(np.int64).reshape(-1, 2).sum(axis=1).max() for result in results]

    assert max(used) == 7
    assert any(result.shortfall for result in results) == (config["reserve_low"] == 0)
    assert {result.step_pages for result in results} >= {1 if config["lazy_pages"] else 2}


@pytest.mark.parametrize("name", UNIT.configs)
def test_random_histories_have_every_call(name: str) -> None:
    config = UNIT.configs[name]
    (block,) = UNIT.cases(config, "random", 2)
    result = UNIT.evaluate(config, block.inputs)

    assert np.unique(block.inputs["op"]).tolist() == [0, 1, 2, 3]
    assert (block.inputs["members"] == 2).any() and result.pruned and result.recycled > 32


TIGHT = {"pages": 13, "layers": 1, "heads": 2, "high_tokens": 2, "low_tokens": 3, "max_len": 6, "slots": 2}


def history(config: dict[str, Any], seed: int) -> dict[str, np.ndarray]:
    return cases.legal(config, random_inputs(UNIT.name, UNIT.ports(config).inputs, (2, 40), seed))


@pytest.mark.parametrize("options", [{}, {"table_extra": 0}, {"reserve_low": 1}, {"lazy_pages": False}], ids=str)
def test_drawn_histories_are_valid_however_few_pages_there_are(options: dict[str, Any]) -> None:
    for seed in range(4):
        inputs = history(TIGHT | options, seed)
        readable, compiled = (UNIT.evaluate(TIGHT | options, inputs, jit=jit) for jit in (False, True))
        for port in UNIT.ports(TIGHT | options).state:
            np.testing.assert_array_equal(getattr(readable, port.name), getattr(compiled, port.name))


@pytest.mark.parametrize("op", [STEP, RELEASE])
@pytest.mark.parametrize("jit", [False, True], ids=["unit", "compiled"])
def test_sequence_named_twice_is_rejected(op: int, jit: bool) -> None:
    inputs = history(TIGHT, 0)
    device, event = np.argwhere((inputs["op"] == op) & (inputs["members"] == 2))[0]
    inputs["sequences"][device, event] = inputs["sequences"][device, event, 0]
    with pytest.raises(Refused, match="named twice"):
        UNIT.evaluate(TIGHT, inputs, jit=jit)


class Backwards(PageManager):
    """Ids come back from the last to the first."""

    def _recycled(self, parts: Any, counts: Any = None) -> Moved:
        return super()._recycled([part[::-1] for part in parts[::-1]], None if counts is None else counts)


class Leaking(PageManager):
    """The unused pages of a prompt are not freed."""

    def _recycled(self, parts: Any, counts: Any = None) -> Moved:
        return super()._recycled([()] * len(parts) if counts is None else parts, counts)


class Holding(PageManager):
    """The pages of a request that ends or yields are not freed."""

    def _recycled(self, parts: Any, counts: Any = None) -> Moved:
        return super()._recycled(parts) if counts is None else super()._recycled([()] * len(parts), [0] * len(counts))


class StartsLate(PageManager):
    """The start of the list is one too far after every allocation."""

    def _allocated(self, counts: Any) -> Moved:
        moved = super()._allocated(counts)
        if moved.ids and self.free:
            self.list.allocate(1)
        return moved


def operations(device: PageManager, inputs: dict[str, np.ndarray]) -> Iterator[Any]:
    """States after the calls of a case, up to one that a faulty manager cannot do."""
    with contextlib.suppress(Refused):
        yield from (state for state in device.steps(**inputs) if not device.busy)


@pytest.mark.committed
@pytest.mark.parametrize("name", UNIT.configs)
@pytest.mark.parametrize("manager", [Backwards, Leaking, Holding, StartsLate], ids=lambda manager: manager.__name__)
def test_committed_set_detects_faulty_manager(name: str, manager: type[PageManager]) -> None:
    """In an output other than the counts of free pages, or by a call that the pages do not allow."""
    rows = detecting.drawn(f"page_manager-{name}")
    shown = [(key, port) for key, port in rows.ports.items() if port.name not in ("free", "list_start", "list_end")]
    for block in rows.blocks:
        right = {port.name: decode(block.arrays[key], port) for key, port in shown}
        inputs = answers_of.values(rows.unit, rows.config, block)
        for case in range(block.shape[0]):
            device = manager(**rows.config)
            states = operations(device, {port: array[case] for port, array in inputs.items()})
            for event in range(block.shape[1]):
                state = next(states, None)
                if state is None:
                    return
                for port, array in right.items():
                    if np.ravel(getattr(state, port)).tolist() != array[case, event].ravel().tolist():
                        return
    pytest.fail(f"page_manager-{name} misses {manager.__name__}")
