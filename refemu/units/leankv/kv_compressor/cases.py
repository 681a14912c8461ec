"""Cases of kv_compressor. A prompt and steps of every kind [leankv §4]; then full pages, constants, overwrites."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from refemu.arith import fp16
from refemu.formats.leankv import hetero_kv
from refemu.units import Cases, Config, Kind, find
from refemu.units.stimuli import Seeds, random_inputs

APPEND_HIGH, APPEND_LOW, REPLACE, DROP = range(4)
Event = tuple[int, int, int]  #: op, victim, low_slot
SAME = 18  #: tokens with one step in a history of moves


def cases(config: Config, kind: Kind, seed: Seeds) -> Iterator[Cases]:
    """Golden cases of one kind for one configuration."""
    features, tokens = config["head_size"], _tokens(config)
    if config.get("high_pages", 1) > 1 or config.get("low_pages", 1) > 1:
        yield from _several(config, kind, seed, tokens)
        return
    if kind == "paper":
        for why in ("a high and a low token", "the same again, from empty pages", "and once more"):
            yield _case(kind, f"[leankv §4] {why}", features, [(APPEND_HIGH, 0, 0), (APPEND_LOW, 0, 0)])
        yield _case(
            kind,
            "[leankv §4] two high tokens and a low one, then a move to the end of the low section, a "
            "move onto a pruned token, a drop",
            features,
            [
                (APPEND_HIGH, 0, 0),
                (APPEND_LOW, 0, 0),
                (APPEND_HIGH, 0, 0),
                (REPLACE, 0, 1),
                (REPLACE, 1, 0),
                (DROP, 0, 0),
            ],
            "D-leankv-31",
        )
    if kind == "edge":
        yield _case(kind, "the high page filled", features, [(APPEND_HIGH, 0, 0)] * tokens[0])
        yield _case(
            kind,
            "the low page filled from the first high slot, then its last token overwritten",
            features,
            [(APPEND_HIGH, 0, 0), *((REPLACE, 0, slot) for slot in range(tokens[1])), (REPLACE, 0, tokens[1] - 1)],
            "D-leankv-30",
        )
        events = [(APPEND_HIGH, 0, 0)] * tokens[0]
        for slot in range(tokens[1]):
            events += [(DROP, 0, 0), (REPLACE, 0, slot)]
        why = "the new token in the slot of a dropped one moves next; the others stay"
        yield _case(kind, why, features, events, "D-leankv-31")
        yield from _codes(config, tokens)
    if kind == "random":
        drawn = random_inputs("kv_compressor", find("kv_compressor").ports(config).inputs, (2, 8), seed)
        yield Cases(kind, "uniform words and operations", legal(config, drawn))
        near = {name: drawn[name] & 0x83FF | 0x3800 | (drawn[name] & 0x400) for name in ("key", "value")}
        why = "features of one order of magnitude, as in keys and values, and any operations"
        yield Cases(kind, why, legal(config, drawn | near))


def _several(config: Config, kind: Kind, seed: Seeds, tokens: Sequence[int]) -> Iterator[Cases]:
    """Sections of several pages, in sets whose rows hold all of them."""
    features, (high, low) = config["head_size"], tokens
    if kind == "paper":
        for why in ("a high and a low token", "the same again, from empty pages", "and once more"):
            yield _case(kind, f"[leankv §4] {why}", features, [(APPEND_HIGH, 0, 0), (APPEND_LOW, 0, 0)])
        why = "[leankv §4] a token after a full high page"
        per_page = high // config["high_pages"]
        yield _case(kind, why, features, [(APPEND_HIGH, 0, 0)] * (per_page + 1), "D-leankv-61")
    if kind == "edge":
        events = [(APPEND_HIGH, 0, 0)] * high + [(REPLACE, (5 * slot + 3) % high, slot) for slot in range(low)]
        events += [(REPLACE, high - 1, 0), (REPLACE, 0, low - 1), (DROP, high - 1, 0), (REPLACE, high - 1, low // 2)]
        why = "every page of both sections filled, then moves and drops from page to page"
        yield _case(kind, why, features, events, "D-leankv-61")
        yield from _codes(config, tokens)
    if kind == "random":
        drawn = random_inputs("kv_compressor", find("kv_compressor").ports(config).inputs, (1, 6), seed)
        yield Cases(kind, "uniform words and operations", legal(config, drawn))


def _codes(config: Config, tokens: Sequence[int]) -> Iterator[Cases]:
    """Tokens whose codes and steps change under another rounding; every bit of a low record."""
    yield from _steps(config, tokens)
    yield _moves(config, tokens)
    events = [(APPEND_HIGH, 0, 0), (REPLACE, 0, 0), (APPEND_LOW, 0, 0)]
    why = "constant vectors: scales of 0 in both precisions"
    yield _case("edge", why, config["head_size"], events, "D-leankv-6", constant=True)


def _steps(config: Config, tokens: Sequence[int]) -> Iterator[Cases]:
    """Tokens appended to both pages: ties of codes and of steps, and steps that underflow."""
    pair = [hetero_kv.find(config[name]) for name in ("high", "low")]
    ops = [APPEND_HIGH] * tokens[0] + [APPEND_LOW] * tokens[1]
    widths = [(pair[op].k_bits, pair[op].v_bits) for op in ops]
    ties = [[_tie(config["head_size"], bits, event) for bits in both] for event, both in enumerate(widths)]
    why = (
        "halfway between codes at steps whose reciprocals change codes; steps halfway that round up, and down, to even"
    )
    yield _appended(why, ops, np.array(ties), "D-leankv-2")
    f = np.arange(config["head_size"])
    tiny = [[np.where(f == event + 5, 1 + event % 2, 0), np.where(f == event, 0, 1)] for event in range(len(ops))]
    yield _appended("steps that are stored as 0: one or two subnormals", ops, np.array(tiny) / (1 << 24), "D-leankv-7")


def _moves(config: Config, tokens: Sequence[int]) -> Cases:
    """A token with different codes for every move: bits of a word in turn, from the lowest level to the highest.

    All high slots but one are in use: the last of several pages is not full, and tokens of every page move. Later
    tokens have different steps and zero points, and a larger score; one has the least position.
    """
    used, slots = max(tokens[0] - 1, 1), tokens[1]
    events, f = used + 4 * slots + 1, np.arange(config["head_size"])
    turns = np.arange(events)[:, None]
    size = np.where(turns < SAME, 1, 1 + turns * 37 % 64 / 64)
    key = ((f * 7 + turns * 5) % 16 - 5) / 8 * size
    value = ((f * 3 + turns * 7) % 16 - 9) / 4 * size
    moves = range(events - used)
    inputs = {
        "op": [APPEND_HIGH] * used + [REPLACE] * len(moves),
        "victim": [0] * used + [move % used for move in moves],
        "low_slot": [0] * used + [move % slots for move in moves],
        "score": [0x3F80_0000 + 0x12345 * turn + (turn // SAME << 23) for turn in range(events)],
        "position": [(1 << turn % 32) - (turn % 32 == 31 and 1 << 32) for turn in range(events)],
    }
    columns = {name: np.array(column, np.int64)[None] for name, column in inputs.items()}
    words = {name: fp16.bits(fp16.to_f16(x)).astype(np.int64)[None] for name, x in (("key", key), ("value", value))}
    return Cases("edge", "a move at every event: all codes of a low record", columns | words, "D-leankv-30")


def _appended(why: str, ops: Sequence[int], vectors: np.ndarray, decision: str) -> Cases:
    """One case: the token of event i is vectors[i], key and value."""
    inputs = {"op": ops, "victim": [0] * len(ops), "low_slot": [0] * len(ops)}
    inputs |= {"score": [0x3F80_0000] * len(ops), "position": list(range(len(ops)))}
    columns = {name: np.array(column, np.int64)[None] for name, column in inputs.items()}
    words = fp16.bits(fp16.to_f16(vectors)).astype(np.int64)
    return Cases("edge", why, columns | {"key": words[None, :, 0], "value": words[None, :, 1]}, decision)


def _tie(features: int, bits: int, event: int) -> np.ndarray:
    """A vector of half codes; every second event has a step of 2049 or 2051 times a power of two."""
    top, f = (1 << bits) - 1, np.arange(features)
    if event % 2:
        size, least = 1 / (1 << (bits // 2 * (bits > 2) + event)), 3 if event % 4 == 1 and event > 1 else 1
        largest, others = top * (2048 + least) + least, least + 1024 * (f % top)
        return np.where(f == 0, least, np.where(f == 1, largest, others)) * size / 64
    step = {8: (7,), 4: (41, 61, 63), 2: (117, 223), 1: (3, 5)}[bits]
    return np.where(f < 2, f * top, 2 * (f - 2) % top + 0.5) * step[event % len(step)]


def _case(
    kind: Kind, why: str, features: int, events: Sequence[Event], decision: str = "", constant: bool = False
) -> Cases:
    """One case: event i has its own key and value, score i / 8 and position 3 * i + 1."""
    i, f = np.arange(len(events))[:, None], np.arange(features)
    key = np.full((len(events), features), 1.5) * (i + 1) if constant else (f * (2 * i + 3) % 64 - 20) / 8
    value = -key if constant else (f * f + 7 * i) % 61 / 16 - 1
    columns = {
        name: np.array(column)
        for name, column in zip(("op", "victim", "low_slot"), zip(*events, strict=True), strict=True)
    }
    vectors = (("key", key), ("value", value))
    columns |= {name: fp16.bits(fp16.to_f16(array)).astype(np.int64) for name, array in vectors}
    columns["score"] = (i[:, 0] / 8).astype(np.float32).view(np.uint32).astype(np.int64)
    columns["position"] = 3 * i[:, 0] + 1
    return Cases(kind, why, {name: column[None] for name, column in columns.items()}, decision)


def _tokens(config: Mapping[str, Any]) -> list[int]:
    """Capacity of the high and of the low pages, in tokens."""
    device: Any = find("kv_compressor").unit_class(**config)
    return [count * page.tokens for count, page in zip(device.counts, device.pages, strict=True)]


def legal(config: Mapping[str, Any], inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
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
    for name in ("key", "value"):
        x = changed[name]
        changed[name] = np.where(x & 0x7C00 == 0x7C00, x ^ 0x4000, x).astype(x.dtype)
    changed["score"] &= changed["score"].dtype.type(0x7F7F_FFFF)
    return changed
