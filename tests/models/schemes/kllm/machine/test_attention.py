"""Attention on the chip: every KV head has its four operations, over the keys that each row sees."""

from typing import Any

import numpy as np
import pytest

from refemu.models.machine import Phase
from refemu.units.kllm.kllm_chip import Product, product
from refemu.units.kllm.kllm_chip import compiled as kllm_chip_compiled
from tests.models.machine import wrong
from tests.models.schemes.kllm.machine.operations import operations

pytestmark = pytest.mark.long

KINDS = ["logits", "softmax", "scores", "context"]


@pytest.mark.parametrize(("phase", "pairs"), [("prompt", 2 * 15), ("decode", 2 * 6)])
def test_rows_see_the_keys_up_to_their_own(phase: Phase, pairs: int) -> None:
    """Two query heads per KV head; five tokens see 1 to 5 keys, the token after them 6."""
    done = operations("kllm-a4", 1, 5, phase)

    for head in range(2):
        each = [done[f"blk.1.{kind}.{head}"] for kind in KINDS]
        assert [operation.differing for operation in each] == [0, 0, 0, 0]
        assert each[0].elements == each[1].elements == pairs
        assert each[2].elements == pairs + each[2].shape[0]  # a scale a row
        assert each[3].elements == each[3].shape[0] * 16


def test_a_difference_stays_where_it_arises(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong.answers(monkeypatch, "score_quantizer", "q")

    done = operations("kllm-a4", 1, 5)

    assert {name for name, operation in done.items() if operation.differing} == {f"blk.1.scores.{i}" for i in (0, 1)}


def test_a_wrong_functional_unit_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """D-kllm-62: that of the chip, in the last key that the last row sees."""
    right = product.applied

    def wrong_function(*arguments: Any) -> Product:
        answer = right(*arguments)
        if answer.z is not None:
            answer.z.view(np.uint16)[-1, -1] ^= 1
        return answer

    monkeypatch.setattr(kllm_chip_compiled, "applied", wrong_function)

    done = operations("kllm-a4", 1, 5)

    assert {name: operation.differing for name, operation in done.items() if operation.differing} == {
        f"blk.1.softmax.{i}": 1 for i in (0, 1)
    }


@pytest.mark.parametrize(("phase", "seen"), [("prompt", [1, 1, 2, 2, 3, 3, 4, 4, 5, 5]), ("decode", [6, 6])])
def test_softmax_takes_cycles_of_keys_that_rows_see(phase: Phase, seen: list[int]) -> None:
    """Three passes of eight logits a cycle (D-kllm-20)."""
    done = operations("kllm-a4", 1, 5, phase)

    assert [done[f"blk.1.softmax.{head}"].cycles for head in (0, 1)] == [3 * len(seen)] * 2
