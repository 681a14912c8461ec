"""Cases of kv_compressor. A prompt and steps of every kind [leankv §4]; then full pages, constants, overwrites."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from refemu.formats.leankv import hetero_kv
from refemu.units import Config, find
from refemu.units.stimuli import Blocks, Inputs, Seeds, finite, patterns16, uniform

APPEND_HIGH, APPEND_LOW, REPLACE, DROP = range(4)
Event = tuple[int, int, int]  #: op, victim, low_slot
SAME = 18  #: tokens with one step in a history of moves


def paper(config: Config) -> Blocks:
    high = [(APPEND_HIGH, 0, 0)]
    for why in ("a high and a low token", "the same again, from empty pages", "and once more"):
        yield f"[leankv §4] {why}", _inputs(config, [*high, (APPEND_LOW, 0, 0)])
    if _has_several(config):
        per_page = _tokens(config)[0] // config["high_pages"]
        yield "[leankv §4] a token after a full high page", _inputs(config, high * (per_page + 1)), "D-leankv-61"
        return
    why = "[leankv §4] two high tokens and a low one, then a move to the end of the low section, a "
    why += "move onto a pruned token, a drop"
    events = [*high, (APPEND_LOW, 0, 0), *high, (REPLACE, 0, 1), (REPLACE, 1, 0), (DROP, 0, 0)]
    yield why, _inputs(config, events), "D-leankv-31"


def edge(config: Config) -> Blocks:
    high, low = _tokens(config)
    full = [(APPEND_HIGH, 0, 0)] * high
    if _has_several(config):
        events = full + [(REPLACE, (5 * slot + 3) % high, slot) for slot in range(low)]
        events += [(REPLACE, high - 1, 0), (REPLACE, 0, low - 1), (DROP, high - 1, 0), (REPLACE, high - 1, low // 2)]
        why = "every page of both sections filled, then moves and drops from page to page"
        yield why, _inputs(config, events), "D-leankv-61"
    else:
        yield "the high page filled", _inputs(config, full)
        why = "the low page filled from the first high slot, then its last token overwritten"
        moves = [(REPLACE, 0, slot) for slot in (*range(low), low - 1)]
        yield why, _inputs(config, [(APPEND_HIGH, 0, 0), *moves]), "D-leankv-30"
        moves = [event for slot in range(low) for event in ((DROP, 0, 0), (REPLACE, 0, slot))]
        why = "the new token in the slot of a dropped one moves next; the others stay"
        yield why, _inputs(config, full + moves), "D-leankv-31"
    yield from _steps(config, high, low)
    yield "a move at every event: all codes of a low record", _moves(config, max(high - 1, 1), low), "D-leankv-30"
    events = [(APPEND_HIGH, 0, 0), (REPLACE, 0, 0), (APPEND_LOW, 0, 0)]
    inputs = _inputs(config, events, constant=True)
    yield "constant vectors: scales of 0 in both precisions", inputs, "D-leankv-6"


def random(config: Config, seed: Seeds) -> Blocks:
    drawn = uniform("kv_compressor", config, (1, 6) if _has_several(config) else (2, 8), seed)
    yield "uniform words and operations", legal(config, drawn)
    if not _has_several(config):
        near = {name: drawn[name] & 0x83FF | 0x3800 | (drawn[name] & 0x400) for name in ("key", "value")}
        why = "features of one order of magnitude, as in keys and values, and any operations"
        yield why, legal(config, drawn | near)


def _has_several(config: Config) -> bool:
    """Whether a section has several pages; rows of its set hold all of them."""
    return config.get("high_pages", 1) > 1 or config.get("low_pages", 1) > 1


def _steps(config: Config, high: int, low: int) -> Blocks:
    """Tokens appended to both pages: ties of codes and of steps, and steps that underflow."""
    pair = [hetero_kv.find(config[name]) for name in ("high", "low")]
    ops = [APPEND_HIGH] * high + [APPEND_LOW] * low
    columns = {"op": ops, "victim": 0, "low_slot": 0, "score": 0x3F80_0000, "position": range(len(ops))}
    widths = [(pair[op].k_bits, pair[op].v_bits) for op in ops]
    ties = [[_tie(config["head_size"], bits, event) for bits in both] for event, both in enumerate(widths)]
    why = (
        "halfway between codes at steps whose reciprocals change codes; steps halfway that round up, and down, to even"
    )
    yield why, _one(columns, *np.array(ties).swapaxes(0, 1)), "D-leankv-2"
    f, event = np.arange(config["head_size"]), np.arange(len(ops))[:, None]
    key, value = (f == event + 5) * (1 + event % 2), f != event
    tiny = _one(columns, key / (1 << 24), value / (1 << 24))
    yield "steps that are stored as 0: one or two subnormals", tiny, "D-leankv-7"


def _moves(config: Config, used: int, slots: int) -> Inputs:
    """A token with different codes for every move: bits of a word in turn, from the lowest level to the highest.

    All high slots but one are in use: the last of several pages is not full, and tokens of every page move. Later
    tokens have different steps and zero points, and a larger score; one has the least position.
    """
    events, f = used + 4 * slots + 1, np.arange(config["head_size"])
    turn = np.arange(events)
    size = np.where(turn < SAME, 1, 1 + turn * 37 % 64 / 64)[:, None]
    key = ((f * 7 + turn[:, None] * 5) % 16 - 5) / 8 * size
    value = ((f * 3 + turn[:, None] * 7) % 16 - 9) / 4 * size
    move, moves = np.maximum(turn - used, 0), turn >= used
    columns = {"op": np.where(moves, REPLACE, APPEND_HIGH), "victim": move % used, "low_slot": move % slots}
    score = 0x3F80_0000 + 0x12345 * turn + (turn // SAME << 23)
    return _one(columns | {"score": score, "position": (1 << turn % 32).astype(np.int32)}, key, value)


def _one(columns: Mapping[str, Any], key: np.ndarray, value: np.ndarray) -> Inputs:
    """Inputs of one case; a column may be one number."""
    inputs = {name: np.full((1, len(key)), column, np.int64) for name, column in columns.items()}
    vectors = {"key": key, "value": value}
    return inputs | {name: patterns16(array)[None] for name, array in vectors.items()}


def _tie(features: int, bits: int, event: int) -> np.ndarray:
    """A vector of half codes; every second event has a step of 2049 or 2051 times a power of two."""
    top, f = (1 << bits) - 1, np.arange(features)
    if event % 2:
        size, least = 1 / (1 << (bits // 2 * (bits > 2) + event)), 3 if event % 4 == 1 and event > 1 else 1
        largest, others = top * (2048 + least) + least, least + 1024 * (f % top)
        return np.where(f == 0, least, np.where(f == 1, largest, others)) * size / 64
    step = {8: (7,), 4: (41, 61, 63), 2: (117, 223), 1: (3, 5)}[bits]
    return np.where(f < 2, f * top, 2 * (f - 2) % top + 0.5) * step[event % len(step)]


def _inputs(config: Config, events: Sequence[Event], constant: bool = False) -> Inputs:
    """One case: event i has its own key and value, score i / 8 and position 3 * i + 1."""
    i, f = np.arange(len(events)), np.arange(config["head_size"])
    turn = i[:, None]
    key = 1.5 * (turn + 1) + 0 * f if constant else (f * (2 * turn + 3) % 64 - 20) / 8
    value = -key if constant else (f * f + 7 * turn) % 61 / 16 - 1
    columns = dict(zip(("op", "victim", "low_slot"), np.array(events).T, strict=True))
    columns |= {"score": (i / 8).astype(np.float32).view(np.uint32), "position": 3 * i + 1}
    return _one(columns, key, value)


def _tokens(config: Mapping[str, Any]) -> list[int]:
    """Capacity of the high and of the low pages, in tokens."""
    device: Any = find("kv_compressor").unit_class(**config)
    return [count * page.tokens for count, page in zip(device.counts, device.pages, strict=True)]


def legal(config: Config, inputs: Inputs) -> dict[str, np.ndarray]:
    """`inputs` of devices, (..., events), with slots that exist when used, and finite vectors."""
    tokens = _tokens(config)
    changed = {name: np.array(array) for name, array in inputs.items()}
    ops, victims, low_slots = (changed[name] for name in ("op", "victim", "low_slot"))
    n_high, n_low = (np.zeros(ops.shape[:-1], np.int64) for _ in range(2))
    for event in range(ops.shape[-1]):
        op, low_slot = (array[..., event].astype(np.int64) for array in (ops, low_slots))
        op = np.where((op == APPEND_LOW) & (n_low == tokens[1]), DROP, op)
        op = np.where((n_high == 0) & ((op == REPLACE) | (op == DROP)), APPEND_HIGH, op)
        op = np.where((op == APPEND_HIGH) & (n_high == tokens[0]), DROP, op)
        low_slot = low_slot % np.minimum(n_low + 1, tokens[1])
        ops[..., event], low_slots[..., event] = op, low_slot
        victims[..., event] = victims[..., event].astype(np.int64) % np.maximum(n_high, 1)
        n_low += (op == APPEND_LOW) | ((op == REPLACE) & (low_slot == n_low))
        n_high += op == APPEND_HIGH
    changed |= {name: finite(changed[name]) for name in ("key", "value")}
    changed["score"] &= changed["score"].dtype.type(0x7F7F_FFFF)
    return changed
