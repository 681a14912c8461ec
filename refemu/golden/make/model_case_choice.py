"""Selection of cases from a model's run for a set.

A set has cases of three blocks: the first, the last, and the one with the largest linear input, a massive activation.
Of a tensor's rows, which are listed token by token, it has windows of at most WINDOW rows:

- of token 0, whose activations are unlike all others', the window with the most flagged rows (pairs with an outlier);
- of the token with the most flagged rows, the window with the most of them;
- the window with the largest magnitude.

Of cases with a size, such as dot products, it has the largest of each block. All other cases are complete.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from refemu import units
from refemu.units.unit import Cases

WINDOW = 128  #: chosen rows of a token


def chosen_layers(peaks: Mapping[int, float]) -> dict[int, str]:
    """Chosen block -> reason. peaks: largest magnitude of a block's linear inputs; the first of equal peaks counts."""
    blocks = sorted(layer for layer in peaks if layer >= 0)
    highest = max(blocks, key=lambda layer: peaks[layer])
    reasons = ((blocks[0], "the first"), (blocks[-1], "the last"), (highest, "its linear inputs peak highest"))
    return {layer: ", and ".join(why for at, why in reasons if at == layer) for layer, _ in sorted(reasons)}


def largest(cases: Sequence[tuple[int, str, Cases]]) -> Iterator[tuple[int, str, Cases]]:
    """The largest case of each block, unit, configuration and reason; cases without a size are unchanged.

    The source of a case may have `largest`, its size; the first of equal cases is chosen.
    """
    most: dict[tuple[int, str, str, str], Cases] = {}
    for layer, unit, case in cases:
        key = layer, unit, case.config, case.why
        if "largest" in case.source and (key not in most or case.source["largest"] > most[key].source["largest"]):
            most[key] = case
    for layer, unit, case in cases:
        if "largest" not in case.source:
            yield layer, unit, case
        elif case is most[layer, unit, case.config, case.why]:
            yield layer, unit, replace(case, why=f"{case.why}, of the linear layers here the one where it is largest")


def windows(unit: str, case: Cases) -> Iterator[Cases]:
    """The chosen rows of a case that lists tokens; any other case unchanged."""
    if "pairs_per_token" not in case.source:
        yield case
        return
    size = case.source["pairs_per_token"]
    source_ = {name: value for name, value in case.source.items() if name != "peak_row"}
    for first, reasons in sorted(_starts(unit, case).items()):
        token, pair = divmod(first, size)
        count = min(WINDOW, size - pair)
        inputs = {name: array[first : first + count] for name, array in case.inputs.items()}
        position = case.source["first_token"] + token
        rows = f"rows {pair} to {pair + count - 1} of {size} of token {position}"
        place = {"first_token": position, "tokens": 1, "first_pair": pair, "pairs": count}
        why = f"{case.why}, {rows} ({', and '.join(reasons)})"
        yield replace(case, inputs=inputs, why=why, source={**source_, **place})


def _starts(unit: str, case: Cases) -> dict[int, list[str]]:
    """First row of every chosen window, and the reasons."""
    size = case.source["pairs_per_token"]
    flagged = _flagged(unit, case).reshape(-1, size)
    most = int(np.argmax(np.count_nonzero(flagged, axis=1)))
    starts: dict[int, list[str]] = {}
    for token, why in ((0, "the first token"), (most, "the token with the most flagged rows")):
        counts = [np.count_nonzero(flagged[token, at : at + WINDOW]) for at in range(0, size, WINDOW)]
        starts.setdefault(token * size + WINDOW * int(np.argmax(counts)), []).append(why)
    if "peak_row" in case.source:
        token, at = divmod(case.source["peak_row"], size)
        starts.setdefault(token * size + at // WINDOW * WINDOW, []).append("the largest magnitude")
    return starts


def _flagged(unit: str, case: Cases) -> np.ndarray:
    """Whether each row carries a flag, in compiled form, since these are all rows."""
    descriptor = units.find(unit)
    config, inputs = descriptor.config(case.config), dict(case.inputs)
    rows = np.zeros(len(next(iter(inputs.values()))), np.bool_)
    for mark in (
        descriptor.mark(config, inputs, descriptor.evaluate(config, inputs)).values() if descriptor.mark else ()
    ):
        rows |= mark
    return rows
