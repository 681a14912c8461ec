"""Streaming significance: equal to the oracle's recurrences, and to the whole matrix where sums allow."""

from typing import Any

import numpy as np
import pytest

from refemu import units
from refemu.arith import fp32
from refemu.arith.checks import Refused
from refemu.arith.orders import Sequential
from refemu.units import variant
from refemu.units.leankv import significance
from tests.oracles.leankv import streaming
from tests.oracles.leankv import units as oracle

UNIT = units.find("streaming_significance")
KINDS = "paper", "edge", "random"


def prompts(block: Any, config: Any) -> np.ndarray:
    """Logits (prompts, N, G, N)."""
    words = np.asarray(block.inputs["logits"]).astype(np.uint32)
    return words.view(np.float32).reshape(-1, config["tokens"], config["heads"], config["tokens"])


@pytest.mark.parametrize("name", UNIT.configs)
@pytest.mark.parametrize("kind", KINDS)
def test_every_word_is_the_oracles(name: str, kind: str) -> None:
    """D-leankv-73."""
    config = UNIT.configs[name]
    rule = {name: config[name] or 0 for name in ("score_queries", "include_self", "normalize") if name in config}
    for block in UNIT.cases(config, kind, 0):
        result = UNIT.evaluate(config, block.inputs)
        for number, logits in enumerate(prompts(block, config).tolist()):
            p = streaming.probabilities(logits, config["keys"], config.get("rescale") != "two_pass")
            wanted = oracle.significance(p, **rule)
            for port, values in (("sum", wanted.sums), ("mean", wanted.means), ("share", wanted.shares)):
                assert getattr(result, port)[number].tolist() == np.float32(values).view(np.uint32).tolist(), port


@pytest.mark.parametrize("name", UNIT.configs)
@pytest.mark.parametrize("kind", KINDS)
def test_compiled_form_equals_unit(name: str, kind: str) -> None:
    config = UNIT.configs[name]
    for block in UNIT.cases(config, kind, 0):
        assert UNIT.evaluate(config, block.inputs, jit=False).equals(UNIT.evaluate(config, block.inputs))


def whole(logits: np.ndarray) -> Any:
    """The significance of the matrix of probabilities."""
    hidden = np.triu(np.ones((logits.shape[-1],) * 2, np.bool_), 1)[:, None]
    p = fp32.softmax32(np.where(hidden, np.float32(-np.inf), logits), Sequential())
    return significance.of_prompts(p)


@pytest.mark.parametrize("changed", [{"rescale": "two_pass"}, {"keys": 8}, {"keys": 100}], ids=str)
def test_all_maxima_first_equal_the_whole_matrix(changed: Any) -> None:
    """D-leankv-73: two passes, or one tile with all keys."""
    config = {**UNIT.configs["paper"], **changed}
    for block in (block for kind in KINDS for block in UNIT.cases(config, kind, 0)):
        result, wanted = UNIT.evaluate(config, block.inputs), whole(prompts(block, config))
        for port in ("sum", "mean", "share", "count"):
            assert np.array_equal(getattr(result, port), getattr(wanted, port)), port


def test_online_sums_differ_only_where_the_maximum_grows() -> None:
    config = UNIT.configs["paper"]
    falling, rising = next(block for block in UNIT.cases(config, "edge", 0) if "first tile" in block.why).inputs[
        "logits"
    ]
    (later,) = (block for block in UNIT.cases(config, "edge", 0) if "every tile" in block.why)
    result = UNIT.evaluate(config, {"logits": np.stack([falling, rising])})
    wanted = whole(np.stack([falling, rising]).astype(np.uint32).view(np.float32).reshape(2, 8, 2, 8))

    assert np.array_equal(result.sum[0], wanted.sum[0])
    assert not np.array_equal(UNIT.evaluate(config, later.inputs).sum, whole(prompts(later, config)).sum)


@pytest.mark.parametrize("says", ["sums are not corrected", "rescale is 'two_pass'"])
def test_faulty_devices_are_detected(says: str) -> None:
    config = UNIT.configs["paper"]
    (wrong,) = (variant.device(UNIT, config, [each]) for each in UNIT.variants if each.says == says)
    assert wrong is not None
    blocks = [block.inputs for block in UNIT.cases(config, "edge", 0)]

    assert any(not np.array_equal(wrong.evaluate(each).sum, UNIT.evaluate(config, each).sum) for each in blocks)


def test_infinite_logits_are_rejected() -> None:
    logits = np.zeros((1, 128), np.int64)
    logits[0, 5] = 0x7F800000
    with pytest.raises(Refused, match="logits must be finite, got 0x7f800000"):
        UNIT.evaluate(UNIT.configs["paper"], {"logits": logits})


def test_events_are_tiles_queries_means_shares() -> None:
    """Two tiles of four keys; two passes of them."""
    for name, tiles in (("paper", 2), ("two_pass", 4)):
        device = UNIT.unit_class(**UNIT.configs[name])
        states = list(device.operations([np.zeros((1, 128), np.uint32)]))
        assert [state.event for state in states] == ["tile"] * tiles + ["query"] * 8 + ["mean"] * 8 + ["share"] * 8
