"""All KV heads of a layer: one manager, and each head as head_step has it."""

import numpy as np
import pytest

from refemu import units
from refemu.units.leankv.cases.head_step import History, Prompt
from refemu.units.leankv.head_step import STEP, HeadStep
from refemu.units.leankv.layer_step import LayerStep


@pytest.mark.parametrize("name", units.find("layer_step").configs)
def test_every_head_does_what_it_does_alone(name: str) -> None:
    """[leankv §5.3]: heads share pages, not tokens; only page ids depend on the others."""
    unit, alone = units.find("layer_step"), units.find("head_step")
    config = unit.configs[name]
    heads, single = config["kv_heads"], {key: value for key, value in config.items() if key != "kv_heads"}
    for block in unit.cases(config, "paper", 0):
        whole = unit.evaluate(config, block.inputs)
        for head in range(heads):
            shared = ("op", "prompt", "window", "thresholds")
            inputs = {
                port: array if port in shared else part(array, head, heads) for port, array in block.inputs.items()
            }
            result = alone.evaluate(single, inputs)
            for port in ("choice", "victim", "low_slot", "written", "moved", "out", "p", "scores", "stored"):
                assert (part(getattr(whole, port), head, heads) == getattr(result, port)).all(), (head, port)


def part(array: np.ndarray, head: int, heads: int) -> np.ndarray:
    """Lanes of one head; one lane has no axis."""
    lanes = array.reshape(*array.shape[:2], heads, -1)[:, :, head]
    return lanes[..., 0] if lanes.shape[-1] == 1 else lanes


def test_heads_take_pages_by_one_prefix_sum() -> None:
    """D-leankv-38: head by head, high before low."""
    config = units.find("layer_step").configs["three"]
    device, history = LayerStep(**config), History(config, 5, 2)
    history.prompt(Prompt(4, (0, 1, 2, 3)))
    history.step((0.0, 0.0))
    inputs = {name: array[0] for name, array in history.inputs().items()}
    states = [state for state in device.steps(**inputs) if state.op == STEP]

    assert states[1].event == "allocate" and states[1].taken == (4, -1, 5, -1)
    assert states[1].levels - states[0].levels == 2 and states[1].adds - states[0].adds == 5


def test_a_layer_of_one_head_is_head_step() -> None:
    config = units.find("head_step").configs["paper"]
    layer, head = LayerStep(kv_heads=1, **config), HeadStep(**config)

    assert layer.ports == head.ports
