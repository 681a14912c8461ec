"""Golden cases of orizuru_clocked: the row of [kllm Fig. 7], ties and infinities, back to back and cut off.

Stimuli only: every answer comes from orizuru_clocked.py. The rows are those of orizuru.
"""

from collections.abc import Iterator, Mapping

import numpy as np

from refemu.units import find
from refemu.units.kllm.cases import orizuru as orizuru_cases
from refemu.units.stimuli import Seeds, edges, in_turn, joined, streamed
from refemu.units.unit import Cases, Config, Kind


def cases(config: Config, kind: Kind, seed: Seeds) -> Iterator[Cases]:
    """Golden cases of one kind for one configuration."""
    whole = list(orizuru_cases.cases(config, kind, seed))
    events = 1 + find("orizuru").unit_class(**config).last
    if kind == "paper":
        why = "[kllm §IV-C, Fig. 7] both trees of the row are set, popped and repaired edge by edge; then an idle edge"
        yield Cases(kind, why, edges(whole[0].inputs, [[*in_turn([0], events), (0, 0)]]))
    if kind == "edge":
        yield from _edge(joined((block.inputs for block in whole), few=1), events)
    if kind == "random":
        for block in whole:
            label = f"orizuru_clocked/{block.why}/start"
            inputs = streamed(label, seed, block.inputs, 32, rare=2)
            yield Cases(kind, f"{block.why}, others at every edge", inputs)


def _edge(operations: Mapping[str, np.ndarray], events: int) -> Iterator[Cases]:
    count = len(operations["x"])
    why = "rows back to back, others on the port while one is under way"
    yield Cases("edge", why, edges(operations, [in_turn(range(count), events)]))
    why = "start high at every edge, with other rows: one counts when the last one is closed"
    yield Cases("edge", why, edges(operations, [[(1, row % count) for row in range(events + 8)]]), "D-arith-19")
    why = "idle edges between two rows, with others on the port"
    yield Cases("edge", why, edges(operations, [in_turn([2, 4], events, gap=2)]), "D-arith-21")
    why = "a row cut off by a reset while trees are set, popped and repaired; then nothing begins"
    rows = in_turn([count - 1, 3], events)
    cut = [[(0, 1)] * (events - left) + rows[:left] for left in (events - 1, events * 2 // 3, events // 2, 3)]
    yield Cases("edge", why, edges(operations, [*cut, [(0, 2)] * events]), "D-arith-20")
