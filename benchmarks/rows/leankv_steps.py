"""Generation steps of LeanKV's heads."""

from collections.abc import Callable, Sequence

import numpy as np

from benchmarks.pairs import Row, absolute, size
from refemu.units.leankv.layer_step import LayerStep
from refemu.units.leankv.layer_step.cases import History, Prompt
from refemu.units.leankv.layer_step.compiled import Devices, by_port, by_register

HEADS, STEPS, ALONE = 30, 10, 100  #: heads side by side, and steps of a call; those of one head
RATE = 5e3  #: steps a second, by the goals
CONFIG = {"kv_heads": 1, "head_size": 64, "heads": 3, "page_bytes": None, "max_len": 700, "pages": 16}
LOW, HIGH = tuple(range(384)), tuple(range(384, 512))
THRESHOLDS = (0.0005, 0.002)  #: with which heads move, prune and append


def steps() -> list[Row]:
    """Steps of heads of 512 tokens, K8V4 and K4V2, after a loaded prompt: one head, and many."""
    return [
        _steps("LEANKV-HEAD", "one head", 1, size(ALONE, 2)),
        _steps("LEANKV-HEAD", f"{HEADS} heads side by side", size(HEADS, 2), size(STEPS, 2)),
    ]


def _steps(row: str, whose: str, heads: int, steps: int) -> Row:
    """Steps of heads in one call."""
    histories = []
    for head in range(heads):
        history = History({**CONFIG, "high": "K8V4", "low": "K4V2"}, head + 1, 64)
        history.prompt(Prompt(512, HIGH, LOW))
        for _ in range(steps):
            history.step(THRESHOLDS)
        histories.append(history.inputs())
    device = LayerStep(**CONFIG)  # type: ignore[arg-type]  # a name has one type in the table
    inputs = device.validated(**{name: np.concatenate([x[name] for x in histories]) for name in histories[0]})
    loads = inputs[0].shape[1] - steps
    prompt, loaded = _operands(device, [x[:, :loads] for x in inputs]), Devices(device, heads)
    fine, following = loaded.events(*prompt), _operands(device, [x[:, loads:] for x in inputs])

    def ours() -> bool:
        return loaded.fork().events(*following)

    return absolute(
        row,
        f"layer_step, {whose}, 64 features, 3 query heads, 512 tokens: {steps} steps each",
        "goal: 5,000 steps/s",
        heads * steps / RATE,
        ours,
        lambda done: fine and done,
        count=2,
    )


def _operands(device: LayerStep, inputs: Sequence[np.ndarray]) -> tuple[dict[str, np.ndarray], ...]:
    """Inputs, outputs and registers by port."""
    ports = device.ports.outputs + device.ports.state
    arrays = [np.ascontiguousarray(array) for array in inputs]
    shape = arrays[0].shape
    filled = [np.zeros((*shape, *port.shape), port.result_dtype) for port in ports]
    count = len(device.ports.outputs)
    return *by_port(device, arrays, filled[:count]), by_register(device, filled[count:])


ROWS: dict[str, Callable[[], list[Row]]] = {"LEANKV-HEAD": steps}
