"""Golden cases of concat: [kllm §III-B]'s exchanged operands, both ends of both widths, every pair."""

from collections.abc import Iterator

from refemu.units import Cases, Config, Kind, find, stimuli
from refemu.units.stimuli import Seeds


def cases(config: Config, kind: Kind, seed: Seeds) -> Iterator[Cases]:
    """Golden cases of one kind for one configuration."""
    top = (1 << config["a_bits"]) - 1, (1 << config["b_bits"]) - 1
    if kind == "paper":
        yield _case(kind, "[kllm §III-B] not commutative: the operands exchanged", [[1, 0], [0, 1]], "D-kllm-6")
    if kind == "edge":
        why = "both ends of both operands; the register has the last edge only"
        yield _case(kind, why, [[top[0], top[1]], [0, top[1]], [top[0], 0], [0, 0]], decision="D-kllm-6")
    if kind == "random":
        drawn = stimuli.random_inputs("concat", find("concat").ports(config).inputs, (8, 16), seed)
        yield Cases(kind, "sequences of uniform indices", drawn)
    if kind == "exhaustive":
        pairs = [[a, b] for a in range(top[0] + 1) for b in range(top[1] + 1)]
        yield _case(kind, "every pair of indices", pairs[1:] + pairs[:1])


def _case(kind: Kind, why: str, events: list[list[int]], decision: str = "") -> Cases:
    return Cases(kind, why, stimuli.sequences(("a", "b"), [events]), decision)
