"""Decode steps on raw arrays give the bits, the counters and the refusals of the units, whatever the cache holds."""

from functools import cache
from typing import Any

import numpy as np
import pytest

from refemu import models
from refemu.arith.checks import Refused
from refemu.models.config import ModelConfig
from refemu.models.model import Model
from refemu.models.taps import Watch
from tests.arith.interpreted import needs_jit
from tests.models.schemes import kllm_plain

CALIBRATION = [5, 3, 0, 12, 7, 7, 1, 9, 2, 11, 4, 8]
IDS = [3, 1, 12, 0, 7, 7, 5, 9, 11, 2]
CHANGES = [
    "",
    ":act_bits=3,weight_bits=2",
    ":outlier_percent=30",
    ":thresholds=static",
    ":kv_outliers=false",
    ":norm=fp16",
    ":gamma=activations",
    ":score_bits=8",
    ":weight_bits=3,outlier_percent=0",
]


@cache
def prepared(change: str = "", make: Any = kllm_plain.small) -> Any:
    return models.prepare(make(), f"kllm-a4{change}", calibration=CALIBRATION)


def by_units(parts: Any, ids: list[int]) -> Any:
    """The logits of single tokens, and counters, as the units give them."""
    step, parts._step = parts._step, None
    try:
        session = models.session(parts)
        return np.concatenate([session.append([token]) for token in ids]), session.counters
    finally:
        parts._step = step


def by_steps(parts: Any, ids: list[int]) -> Any:
    session = models.session(parts)
    return np.concatenate([session.append([token]) for token in ids]), session.counters


@needs_jit
@pytest.mark.parametrize("change", CHANGES)
def test_a_step_gives_the_bits_of_the_units(change: str) -> None:
    parts = prepared(change)
    logits, counters = by_steps(parts, IDS)
    wanted, counted = by_units(parts, IDS)

    assert parts._step is not None
    assert logits.tobytes() == wanted.tobytes()
    assert counters == counted
    assert logits.tobytes() == models.session(parts).append(IDS).tobytes()


@needs_jit
@pytest.mark.parametrize("make", [kllm_plain.layered, lambda: kllm_plain.layered("relu")])
def test_a_step_gives_the_bits_of_other_decoders(make: Any) -> None:
    """The norms are left to the units, the layers without one, with biases, are not."""
    parts = models.prepare(make(), "kllm-a4", calibration=CALIBRATION)

    assert by_steps(parts, IDS)[0].tobytes() == by_units(parts, IDS)[0].tobytes()
    assert {names for _, names in parts._step.groups} == {("o",), ("down",)}


@needs_jit
def test_the_layout_grows_and_is_made_anew_after_a_rewind() -> None:
    """Behind 64 tokens the buffers double; other tokens take the places of those that were forgotten."""

    def make() -> Model:
        config = ModelConfig(blocks=1, width=9, ffn=11, heads=4, kv_heads=2, head_dim=4, vocab=13, context=200)
        return Model("long", config, kllm_plain.Random(config), "")

    parts, ids = models.prepare(make(), "kllm-a4:outlier_percent=50", calibration=CALIBRATION), IDS * 15
    whole, session = models.session(parts).append(ids), models.session(parts)
    session.append(ids[:50])
    mark = session.mark()
    for token in ids[:30]:
        session.append([token])
    session.rewind(mark)

    assert np.concatenate([session.append([token]) for token in ids[50:]]).tobytes() == whole[50:].tobytes()


@needs_jit
def test_what_is_left_to_the_units() -> None:
    """Another arithmetic, other tables and scales; two tokens at once, or a tap, do not count as a step."""
    for change in (":preset=exact", ":function_table=literal", ":score_scale=max,v_scale=static"):
        assert prepared(change)._step is None
    parts = prepared()

    assert parts._single(np.zeros((1, 9), np.float32), Watch())
    assert not parts._single(np.zeros((2, 9), np.float32), Watch())
    assert not parts._single(np.zeros((1, 9), np.float32), Watch(lambda *_: None))


@needs_jit
@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda parts, x: parts.linear(0, ("gate", "up"), x, Watch()), r"blk\.0\.ffn_in: values must be finite"),
        (
            lambda parts, x: parts.linear(0, ("o",), np.resize(x, (1, 16)), Watch()),
            r"blk\.0\.o_in: values must be finite",
        ),
        (lambda parts, x: parts.cache(0).append(*np.resize(x, (2, 1, 2, 4))), r"blk\.0\.k: values must be finite"),
        (
            lambda parts, x: parts.activation(0, *np.resize(x, (2, 1, 11)), Watch()),
            r"blk\.0\.gate: values must be finite",
        ),
        (
            lambda parts, x: parts.attention(0, np.resize(x, (1, 4, 4)), parts.cache(0), Watch()),
            r"blk\.0\.q: values must",
        ),
    ],
)
def test_refuses_in_the_words_of_the_units(call: Any, message: str) -> None:
    x = np.full((1, 9), 1, np.float32)
    x[0, 3] = np.inf
    with pytest.raises(Refused, match=message):
        call(prepared(), x)


@needs_jit
def test_products_and_logits_beyond_fp16_are_refused() -> None:
    """Finite gates whose product with up is not; keys and queries whose product is +Inf."""
    parts, x = prepared(), np.full((1, 11), 60000, np.float32)
    with pytest.raises(Refused, match=r"blk\.0\.down_in: the product of two outliers left FP16"):
        parts.activation(0, x, x, Watch())
    held, large = parts.cache(0), np.full((1, 2, 4), 60000, np.float32)
    held.append(large, large)
    with np.errstate(over="ignore"), pytest.raises(Refused, match=r"functional: x must hold neither NaN nor \+Inf"):
        parts.attention(0, np.full((1, 4, 4), 60000, np.float32), held, Watch())
