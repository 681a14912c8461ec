"""What a prompt keeps, as events of layer_step."""

import numpy as np

from refemu.models.schemes.leankv.machine.prompt_tokens import PromptTokens
from refemu.units.leankv.kv_compressor import PromptPlan
from refemu.units.leankv.layer_step import ADMIT, LOAD, STEP


def test_events_load_stored_tokens_then_the_new_one() -> None:
    tokens = np.arange(4, dtype=np.float32)
    plans = [
        PromptPlan(np.array(high), np.array(low, np.int64), tokens, tokens.astype(np.int32))
        for high, low in (([3, 1], [0]), ([2], []))
    ]
    vectors = np.zeros((4, 2, 8), np.float32)
    none = np.zeros((2, 4), np.uint32)
    kept = PromptTokens(np.zeros((4, 2, 1, 8), np.float32), vectors, vectors + 1, none, none, plans)
    events = kept.events([(np.ones((2, 1, 8), np.float32), vectors[0], vectors[0])])

    assert events["op"].tolist() == [[ADMIT, LOAD, LOAD, LOAD, STEP]] and events["prompt"][0, 0] == 4
    assert events["keep_high"][0, 0].tolist() == [2, 1] and events["keep_low"][0, 0].tolist() == [1, 0]
    assert events["section"][0].tolist() == [[0, 0], [1, 1], [1, 0], [2, 0], [0, 0]]
    assert events["position"][0].tolist() == [[0, 0], [3, 2], [1, 0], [0, 0], [0, 0]]
    assert (events["q"][0, -1] == 0x3C00).all() and not events["q"][0, :-1].any()
    assert (events["value"][0, 1] == 0x3C00).all()


def test_some_heads_and_several_tokens() -> None:
    tokens = np.arange(4, dtype=np.float32)
    plans = [PromptPlan(np.array([at]), np.array([], np.int64), tokens, tokens.astype(np.int32)) for at in (3, 2)]
    vectors, none = np.zeros((4, 2, 8), np.float32), np.zeros((2, 4), np.uint32)
    kept = PromptTokens(np.empty(0), vectors, vectors, none, none, plans).of_heads(slice(1, 2))
    events = kept.events([(np.full((1, 1, 8), x, np.float32), vectors[0, :1], vectors[0, :1]) for x in (1, 2)])

    assert events["op"].tolist() == [[ADMIT, LOAD, STEP, STEP]] and events["position"].tolist() == [
        [[0], [2], [0], [0]]
    ]
    assert events["q"][0, -2:, 0].tolist() == [0x3C00, 0x4000]
