"""What queries see of a cache."""

import numpy as np
import pytest

from refemu.models.machine import Phase
from refemu.models.schemes.harmonia.machine.memory import Memory, wide
from refemu.models.schemes.harmonia.machine.ports import Ports
from tests.models.schemes.harmonia.machine.recorded import attended
from tests.oracles.harmonia import units


@pytest.mark.parametrize(
    ("scheme", "phase"),
    [("harmonia-kv4", "prompt"), ("harmonia-kv4:prefill_window=end", "prompt"), ("harmonia-kv4", "decode")],
)
def test_widths_are_those_of_the_oracle(scheme: str, phase: Phase) -> None:
    """D-harmonia-19: every query of a prompt sees the bits of its own cache, or all see those of the last query."""
    prepared, call = attended(scheme, 136, phase)
    memory = Memory(Ports(prepared, 0), *call.inputs)
    keys, groups = memory.wide(True), memory.wide(False)

    tokens = len(memory.cache)
    for row, query in enumerate(range(memory.start, tokens)):
        seen = query + 1 if memory.by_query else tokens
        k, v = units.bits_at(seen)
        assert keys[row, :seen].tolist() == [int(bits == 8) for bits in k]
        assert groups[row, : len(v)].tolist() == [int(bits == 8) for bits in v]
    assert memory.by_query == (phase == "prompt" and "end" not in scheme)
    assert memory.allocated().differing == 0


def test_what_has_fallen_is_narrow() -> None:
    assert wide(np.array([0, 5, 7]), np.array([4, 5, 9])).tolist() == [[1, 1, 1], [1, 0, 1], [1, 0, 0]]


def test_an_allocator_that_forgets_a_key_is_noticed() -> None:
    prepared, call = attended("harmonia-kv4", 136, "prompt")
    memory = Memory(Ports(prepared, 0), *call.inputs)
    keys, groups = memory.falls
    memory.falls = np.where(np.arange(len(keys)) == 33, 0, keys), groups

    assert memory.allocated().differing == 1
