"""The baseline of integers: every operand on the grid of its scale; the rest is scheme `fp16`."""

from typing import Any

import numpy as np
import pytest

from refemu import models
from refemu.arith.checks import Refused
from refemu.models import schemes
from refemu.models.backend import find
from refemu.models.schemes.kllm.rtn import RoundedCache, rounded

IDS = list(b"Sir Walter Elliot")


def prepared(backend: str = "jit") -> Any:
    return models.prepare("tiny", "kllm-a4:quantizer=rtn", backend=backend)


def test_values_are_multiples_of_a_scale_per_token() -> None:
    """[kllm §V-A]: s = absmax / 7 in FP16, codes to nearest even."""
    x = np.array([[7, 3.5, -1, 0.25], [14, 1, 2, -14]], np.float32)

    assert rounded("x", x, 4, find("jit")).tolist() == [[7, 4, -1, 0], [14, 0, 2, -14]]


def test_backends_agree_and_decode_is_prefill() -> None:
    whole = models.run("tiny", IDS, prepared()).logits
    session = models.session(prepared())
    rows = [session.append(IDS[:9]), *(session.append([token]) for token in IDS[9:])]

    assert np.concatenate(rows).tobytes() == whole.tobytes()
    assert models.run("tiny", IDS[:5], prepared("numpy")).logits.tobytes() == whole[:5].tobytes()


def test_cache_holds_rounded_tokens() -> None:
    held, x = prepared().cache(0), np.zeros((1, 2, 16), np.float32)
    x[0, 0, 0], x[0, 1, 3] = 7, 1.75
    held.append(x, x)

    assert isinstance(held, RoundedCache)
    assert held.keys[0, 0, 0] == 7 and held.keys[0, 1, 3] == held.values[0, 1, 3] == 2


def test_row_of_weight_has_at_most_fifteen_values() -> None:
    panels, parts = prepared()._linears[0, ("q", "k", "v")]

    assert max(len(np.unique(row)) for row in panels.matrix().T) <= 15
    assert [part.stop - part.start for part in parts] == [64, 32, 32]


def test_there_is_nothing_to_tap_or_to_calibrate() -> None:
    calls: list[Any] = []
    models.run("tiny", IDS[:2], prepared(), taps=lambda *call: calls.append(call))

    assert calls == []
    assert schemes.taps(prepared().config) == ()


def test_infinity_is_rejected() -> None:
    with pytest.raises(Refused, match="x: values must be finite"):
        rounded("x", np.array([[np.inf]], np.float32), 4, find("jit"))
