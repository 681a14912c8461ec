"""Generation steps of LeanKV's heads, and its machine on a block of a model."""

import json
import subprocess
import time
from collections.abc import Callable

import numpy as np

from benchmarks.commands import REFEMU
from benchmarks.pairs import Absent, Row, absolute
from refemu.models.fetch import store
from refemu.units.leankv.cases.head_step import History, Prompt
from refemu.units.leankv.head_step import HeadStep
from refemu.units.leankv.twins.head_step import Devices, by_port

HEADS, STEPS, RATE = 30, 10, 5e3  #: heads side by side; steps of a call; steps a second, by the goals
MODEL, MACHINE_SECONDS = "smollm2-135m", 60.0
CONFIG = {"head_size": 64, "heads": 3, "page_bytes": None, "max_len": 700, "pages": 16}
LOW, HIGH = tuple(range(384)), tuple(range(384, 512))
THRESHOLDS = (0.0005, 0.002)  #: with which heads move, prune and append


def steps() -> list[Row]:
    """Steps of heads of 512 tokens, K8V4 and K4V2, behind a prompt that is loaded before."""
    histories = []
    for head in range(HEADS):
        history = History({**CONFIG, "high": "K8V4", "low": "K4V2"}, head + 1, 64)
        history.prompt(Prompt(512, HIGH, LOW))
        for _ in range(STEPS):
            history.step(THRESHOLDS)
        histories.append(history.inputs())
    device = HeadStep(**CONFIG)  # type: ignore[arg-type]  # a name has one type in the table
    inputs = device.admitted(**{name: np.concatenate([x[name] for x in histories]) for name in histories[0]})
    events = inputs[0].shape[1]
    ports = device.ports.outputs
    outputs = [np.zeros((HEADS, events, *((port.lanes,) if port.lanes > 1 else ())), port.dtype) for port in ports]
    columns, shown = by_port(device, inputs, outputs)
    loaded = Devices(device, HEADS)

    def event(devices: Devices, number: int) -> bool:
        return devices.event(
            {name: x[:, number] for name, x in columns.items()}, {name: x[:, number] for name, x in shown.items()}
        )

    fine = all(event(loaded, number) for number in range(events - STEPS))

    def ours() -> bool:
        devices = loaded.fork()
        return all(event(devices, number) for number in range(events - STEPS, events))

    return [
        absolute(
            "LEANKV-HEAD",
            f"head_step, {HEADS} heads side by side, 64 features, 3 query heads, 512 tokens: {STEPS} steps each",
            "goal: 5,000 steps/s",
            HEADS * STEPS / RATE,
            ours,
            lambda done: fine and done,
            count=5,
        )
    ]


def machine() -> list[Row | Absent]:
    """The command, from its start: block 0 under leankv, a prompt of 192 tokens, then the step behind it."""
    what = f"refemu machine: {MODEL}, leankv, block 0, 192 tokens, prompt and step"
    if store.path(MODEL) is None:
        return [Absent("LEANKV-MACHINE", what, f"no model: refemu models fetch {MODEL}")]
    words = [*REFEMU, "machine", "--model", MODEL, "--scheme", "leankv", "--layer", "0", "--tokens", "192", "--json"]

    def commands() -> list[str]:
        return [
            subprocess.run([*words, "--phase", phase], capture_output=True, text=True, check=False).stdout
            for phase in ("prompt", "decode")
        ]

    def equal(outputs: list[str]) -> bool:
        operations = [each for output in outputs if output for each in json.loads(output)["operations"]]
        return bool(operations) and not any(operation["differing"] for operation in operations)

    goal = f"goal: {MACHINE_SECONDS:g} s"
    clock = time.perf_counter
    return [absolute("LEANKV-MACHINE", what, goal, MACHINE_SECONDS, commands, equal, count=1, clock=clock)]


ROWS: dict[str, Callable[[], list[Row] | list[Row | Absent]]] = {"LEANKV-HEAD": steps, "LEANKV-MACHINE": machine}
