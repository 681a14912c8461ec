"""Compiled form of prompt_compressor over many prompts at once. [leankv §4]

Running sums and sorts cover whole rows; a stage of the sorting network exchanges all its pairs together.
"""

from collections.abc import Sequence

import numpy as np

from refemu.arith import integers
from refemu.units.derivation import Arrays, compiled_run
from refemu.units.leankv.prompt_compressor import HIGH, LOW, PRUNED, UNIT, WINDOW, PromptCompressor
from refemu.units.leankv.prompt_compressor.prompt_compressor import LARGEST


@compiled_run(UNIT)
def run(device: PromptCompressor, inputs: Arrays, outputs: Arrays) -> Sequence[int]:
    """Run all prompts. Classes follow (share, position) for any order from the network."""
    tokens, window = device.tokens, inputs[1].astype(np.int64)
    limits, inside = inputs[2].view(np.float32), np.arange(tokens) >= tokens - window[:, None]
    keys = np.where(inside, np.float32(1), inputs[0].reshape(inside.shape).view(np.float32))
    ranked, exchanges = _stable(keys, inside), 0
    order, network = ranked.copy(), (window < tokens) & (device.order == "bitonic")
    places = order
    if device.order == "bitonic":
        keys = _padded(keys)
        places = np.tile(np.arange(keys.shape[1]), (len(keys), 1))
        places[network], exchanges = _exchanged(keys[network])
        order = places[places < tokens].reshape(order.shape)
    share, in_window = (np.take_along_axis(array, ranked, 1) for array in (keys, inside))
    ordered, running = _classes(device, share, in_window, window, limits)
    cls = np.empty_like(ordered)
    np.put_along_axis(cls, ranked, ordered, 1)
    counts = [integers.total(ordered == wanted, axis=1) for wanted in (PRUNED, LOW, HIGH)]
    registers = np.ascontiguousarray(keys).view(np.uint32), places, np.ascontiguousarray(running).view(np.uint32)
    *columns, rank = outputs[:9]
    for output, column in zip(columns, (cls, order, *counts, *registers), strict=True):
        output[...] = column.reshape(output.shape)
    rank[...] = tokens
    for output, value in zip(outputs[9:], (0, network * keys.shape[1], 0), strict=False):  # of a network
        output[...] = value
    return comparisons(tokens) * int(np.count_nonzero(network)), exchanges, cls.size


def _stable(keys: np.ndarray, inside: np.ndarray) -> np.ndarray:
    """Positions by (in the window, share, position); in the window by position."""
    order = np.argsort(np.where(inside, np.float32(np.inf), keys), axis=1, kind="stable")
    return order.astype(np.int64)


def comparisons(tokens: int) -> int:
    """Pairs that the network compares: half of the padded length, log2 * (log2 + 1) / 2 times."""
    levels = (tokens - 1).bit_length()
    return (1 << levels >> 1) * levels * (levels + 1) // 2


def bitonic(keys: np.ndarray) -> tuple[np.ndarray, int]:
    """Positions (rows, N) in the order of the network, and its number of exchanges."""
    places, exchanges = _exchanged(_padded(keys))
    return places[places < keys.shape[1]].reshape(keys.shape), exchanges


def _padded(keys: np.ndarray) -> np.ndarray:
    """Keys (rows, N) with pads up to a power of two."""
    rows, tokens = keys.shape
    values = np.full((rows, 1 << (tokens - 1).bit_length()), np.uint32(LARGEST).view(np.float32), np.float32)
    values[:, :tokens] = keys
    return values


def _exchanged(keys: np.ndarray) -> tuple[np.ndarray, int]:
    """Places (rows, padded) in the order of the network, and its number of exchanges."""
    values, (rows, padded) = keys.copy(), keys.shape
    order, exchanges = np.tile(np.arange(padded), (rows, 1)), 0
    at, size = np.arange(padded), 2
    while size <= padded:
        distance = size // 2
        while distance:
            low = at[at & distance == 0]
            high, up = low | distance, low & size == 0
            left, right = values[:, low], values[:, high]
            swap = np.where(up, left > right, left < right)
            exchanges += int(np.count_nonzero(swap))
            values[:, low], values[:, high] = np.where(swap, right, left), np.where(swap, left, right)
            first, second = order[:, low], order[:, high]
            order[:, low], order[:, high] = np.where(swap, second, first), np.where(swap, first, second)
            distance //= 2
        size *= 2
    return order, exchanges


def _classes(
    device: PromptCompressor, share: np.ndarray, inside: np.ndarray, window: np.ndarray, limits: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Classes (rows, N) of tokens in order, share and whether in the window; the last running sums (rows,)."""
    tokens, running = share.shape[1], np.zeros(len(share), np.float32)
    low, high = limits[:, :1], limits[:, 1:]
    if device.rule == "static":
        budget = np.maximum(window, tokens * device.keep_percent // 100)[:, None]
        rank = np.cumsum(~inside, axis=1)
        cls = np.where(rank <= tokens - budget, PRUNED, HIGH)
    elif device.rule == "per_token":
        base = np.float32(1) / np.float32(tokens)
        with np.errstate(over="ignore", under="ignore"):
            cls = np.where(share < base * low, PRUNED, np.where(share < base * high, LOW, HIGH))
    else:
        cls, running = _cumulative(device, np.where(inside, np.float32(0), share), low, high)
    return np.where(inside, WINDOW, cls).astype(np.uint8), running


def _cumulative(
    device: PromptCompressor, share: np.ndarray, low: np.ndarray, high: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    with np.errstate(over="ignore"):
        running = np.add.accumulate(share, axis=1, dtype=np.float32)
        pruned, last = running < low, running[:, -1]
        if device.low_cumsum == "restart":
            running = np.add.accumulate(np.where(pruned, np.float32(0), share), axis=1, dtype=np.float32)
            last = np.where(pruned[:, -1], last, running[:, -1])
    return np.where(pruned, PRUNED, np.where(running < high, LOW, HIGH)), last
