"""Attention on the chip: every KV head has its four operations, over the keys that each row sees."""

import pytest

from refemu.models.machine import Phase
from tests.models.machine import wrong
from tests.models.schemes.kllm.machine.operations import operations

KINDS = ["logits", "softmax", "scores", "context"]


@pytest.mark.parametrize(("phase", "pairs"), [("prompt", 2 * 15), ("decode", 2 * 6)])
def test_rows_see_the_keys_up_to_their_own(phase: Phase, pairs: int) -> None:
    """Two query heads a KV head; five tokens see 1 to 5 keys, the token behind them 6."""
    done = operations("kllm-a4", 1, 5, phase)

    for head in range(2):
        each = [done[f"blk.1.{kind}.{head}"] for kind in KINDS]
        assert [operation.differing for operation in each] == [0, 0, 0, 0]
        assert each[0].elements == each[1].elements == pairs
        assert each[2].elements == pairs + each[2].shape[0]  # a scale a row
        assert each[3].elements == each[3].shape[0] * 16


@pytest.mark.parametrize(("unit", "port", "kind"), [("functional", "y", "softmax"), ("score_quantizer", "q", "scores")])
def test_a_difference_stays_where_it_arises(unit: str, port: str, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong.answers(monkeypatch, unit, port)

    done = operations("kllm-a4", 1, 5)

    assert {name for name, operation in done.items() if operation.differing} == {f"blk.1.{kind}.{i}" for i in (0, 1)}
