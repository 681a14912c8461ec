"""Keys and values of a block at the ports: demotion to fewer bits, offsets, groups of V.

Paper: [harmonia §III-A, §III-B, §III-C]. Decisions: D-harmonia-19 (bits of a prompt), D-harmonia-26 (offsets).
"""

from functools import cached_property
from typing import Any

import numpy as np

from refemu.formats.groups import count
from refemu.models.machine.report import Cost, Operation, differences, unchecked
from refemu.models.schemes.harmonia.cache import HarmoniaCache, Held, allocation, offsets
from refemu.models.schemes.harmonia.machine.ports import Ports
from refemu.models.schemes.harmonia.machine.products import Heads
from refemu.models.schemes.harmonia.machine.work import untimed
from refemu.units.harmonia.k_offset import WINDOW

GROUP = 32


class Memory:
    """The part of a cache that the queries of one call see."""

    def __init__(self, ports: Ports, q: np.ndarray, cache: HarmoniaCache) -> None:
        """q: (tokens, heads, head_dim), the last ones of the cache."""
        self.ports: Ports = ports
        self.q: np.ndarray = q
        self.cache: HarmoniaCache = cache

    def __repr__(self) -> str:
        return f"Memory({self.ports!r}, {self.cache!r})"

    @property
    def start(self) -> int:
        """Position of the first query."""
        return len(self.cache) - len(self.q)

    @property
    def by_query(self) -> bool:
        """Whether every query sees different bits: in a prompt (D-harmonia-19)."""
        return self.start == 0 and self.cache.config.prefill_window == "query"

    @cached_property
    def held(self) -> Held:
        """Codes; in `high` bits if queries see different ones."""
        return self.cache.falling().high if self.by_query else self.cache.held()

    @cached_property
    def falls(self) -> tuple[np.ndarray, np.ndarray]:
        """Cache lengths at which each key, and each group of values, is demoted; 0: not yet. From the allocator."""
        return falling(self.ports, len(self.cache))

    @property
    def keys(self) -> np.ndarray:
        """Keys that every token may see."""
        return self.start + 1 + np.arange(len(self.q))

    @property
    def heads(self) -> Heads:
        """The attention on the timeline."""
        scheme, (_, heads, size) = self.ports.prepared.harmonia, self.q.shape
        sizes = heads, self.held.heads, size, len(self.cache)
        return Heads(*sizes, self.seen, self.keys, self.falls, (scheme.high, scheme.low))

    @property
    def seen(self) -> np.ndarray:
        """Cache length whose widths every token sees."""
        return self.keys if self.by_query else np.full(len(self.q), len(self.cache))

    def wide(self, score: bool) -> np.ndarray:
        """Port `wide` of a product for one query head."""
        return wide(self.falls[0 if score else 1], self.seen)

    def allocated(self) -> Operation:
        """The allocator token by token, compared with the bits of the cache."""
        rule, tokens = allocation(self.cache.config), len(self.cache)
        if self.by_query:
            _, k, v = self.cache.falling(), *self.cache.falling().falls
            due = [k, v[::GROUP]]
        else:
            due = [(bits == rule.low) & (rule.low < rule.high) for bits in rule.bits(tokens)]
        fallen = [falls if self.by_query else falls > 0 for falls in self.falls]
        wrong = sum(differences(f.astype(np.int64), d.astype(np.int64)) for f, d in zip(fallen, due, strict=True))
        return Operation(
            self.ports.full("kv.bits"),
            "bit_allocator",
            allocator(self.ports),
            (tokens,),
            sum(part.size for part in due),
            wrong,
            0,
            words={
                f"{name} in {rule.low} bits": int(np.count_nonzero(f)) for name, f in zip("KV", fallen, strict=True)
            },
            kind="grouping",
            unchecked=unchecked("bit_allocator", allocator(self.ports), "demote_k", "k_token", "demote_v", "v_group"),
        )


def wide(falls: np.ndarray, seen: np.ndarray) -> np.ndarray:
    """Keys or groups that queries see in 8 bits, uint8 (queries, units).

    falls: cache lengths at which each is demoted, 0 for never. seen: cache length for each query.
    """
    return np.asarray((falls == 0) | (falls > seen[:, None]), np.uint8)


def allocator(ports: Ports) -> dict[str, int]:
    """Parameters of the bit allocator."""
    scheme = ports.prepared.harmonia
    return {name: getattr(scheme, name) for name in ("n_initial", "n_local", "high", "low")}


def falling(ports: Ports, tokens: int) -> tuple[np.ndarray, np.ndarray]:
    """Cache lengths at which keys and groups of values are demoted to `low` bits, token by token; 0: never."""
    prefill = np.zeros((1, tokens, 1), np.int64)
    prefill[0, 0] = 1
    answer = ports.evaluate("bit_allocator", allocator(ports), {"prefill": prefill})
    k, v = np.zeros(tokens, np.int64), np.zeros(count(tokens, GROUP), np.int64)
    for falls, happens, which in ((k, "demote_k", "k_token"), (v, "demote_v", "v_group")):
        now = np.flatnonzero(np.ravel(getattr(answer, happens)))
        falls[np.ravel(getattr(answer, which))[now]] = now + 1
    return k, v


def shifted(ports: Ports, y: np.ndarray, words: np.ndarray, cache: HarmoniaCache) -> Operation:
    """The K-offset generator on the keys of a prompt: its window, the choice, all keys minus their offsets.

    y: keys before the rotation. words: keys of the cache.
    """
    rule, tokens, prepared = offsets(cache.config, *words.shape[1:]), len(words), ports.prepared
    keys = y.reshape(words.shape)
    if prepared.model.positions == "rotary":
        keys = prepared.rotate(keys, 0)
    flat = ports.steps.words(np.ascontiguousarray(keys)).reshape(tokens, -1)
    inside = min(WINDOW, tokens)
    idle = inside + rule.chosen
    valid, last = (np.zeros((1, tokens + idle, 1), np.uint8) for _ in range(2))
    valid[0, :inside], valid[0, inside + idle :], last[0, inside - 1] = 1, 1, inside < WINDOW
    k = np.concatenate([flat[:inside], np.zeros((idle, rule.channels), np.uint16), flat[inside:]])[None]
    config: dict[str, Any] = {"channels": rule.channels, "window": WINDOW, "offset_k": None, "heads": 1}
    config |= {"offset_scope": "layer", "offset_sign": "signed"}
    answer = ports.evaluate("k_offset", config, {"k": k, "valid": valid, "last": last})
    out = answer.k_out.reshape(k.shape[1:])[np.ravel(answer.out_valid) == 1]
    offset = answer.offset.reshape(k.shape[1:])[-1]
    wrong = differences(out, words.reshape(tokens, -1)) if len(out) == tokens else words.size
    return Operation(
        ports.full("k.offset"),
        "k_offset",
        config,
        flat.shape,
        flat.size + offset.size,
        wrong + differences(offset, cache.offset),
        0,
        words={"keys": flat.size, "offsets": int(np.count_nonzero(offset))},
        kind="offset",
        cost=Cost(comparisons=answer.comparisons + answer.select_comparisons),
        unchecked=unchecked("k_offset", config, "offset", "k_out", "out_valid"),
    )


def grouped(ports: Ports, cache: HarmoniaCache, start: int) -> Operation:
    """The groups of V of the last tokens, token by token, compared with the cache.

    For a decode step only the group of its token. The converter converts the groups of a prompt once.
    """
    words = cache.words()[1].reshape(len(cache), -1)
    first = start // GROUP * GROUP
    v = words[first:][None]
    config = {"channels": v.shape[2], "high": cache.config.high, "growth": "reconvert", "rounding": "truncate"}
    answer = ports.evaluate("v_grouper", config, {"v": v})
    ends = [*range(GROUP - 1, v.shape[1], GROUP)]
    ends += [v.shape[1] - 1] if v.shape[1] % GROUP else []
    due, wrong = ports.encode(words, 0, cache.config.high), 0
    for place, end in enumerate(ends):
        group, rows = first // GROUP + place, end % GROUP + 1
        wrong += differences(answer.exponent[0, end], due.exponent[group].astype(answer.exponent.dtype))
        for port in ("sign", "mantissa"):
            codes = getattr(answer, port)[0, end].reshape(GROUP, -1)[:rows]
            wanted = getattr(due, port)[group * GROUP :][:rows]
            wrong += differences(codes, wanted.astype(codes.dtype))
    residual = v.shape[1] - v.shape[1] // GROUP * GROUP or GROUP
    return Operation(
        ports.full("v.groups"),
        "v_grouper",
        config,
        v.shape[1:],
        v.size,
        wrong,
        0,
        words={"residual": residual * v.shape[2], "codes": v.size},
        kind="grouping",
        cost=Cost(conversions=residual * v.shape[2] if start else 0, works=(untimed("v.groups", "grouping"),)),
        unchecked=unchecked("v_grouper", config, "sign", "mantissa", "exponent"),
    )
