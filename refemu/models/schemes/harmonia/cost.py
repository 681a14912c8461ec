"""Cost of a run on Harmonia's accelerator, from sizes and the bits of keys and values alone.

Paper: [harmonia §III-B, §IV]. Decisions: D-harmonia-46 (rows with different codes), D-harmonia-51 (operations outside).
"""

import functools
from collections.abc import Iterator
from typing import Any

import numpy as np

from refemu.formats.groups import count
from refemu.models.machine.report import Call, Cost
from refemu.models.schemes.harmonia.cache import allocation, offsets
from refemu.models.schemes.harmonia.machine import work
from refemu.models.schemes.harmonia.machine.attention import product
from refemu.models.schemes.harmonia.machine.block import cached, options, own_input
from refemu.models.schemes.harmonia.machine.memory import GROUP, wide
from refemu.models.schemes.harmonia.machine.ports import Ports
from refemu.units.harmonia.bit_allocator import Allocation
from refemu.units.harmonia.harmonia_core import HarmoniaCore
from refemu.units.harmonia.k_offset import WINDOW
from refemu.units.unit import Config


def costs(prepared: Any, layer: int, call: Call) -> Iterator[tuple[str, Cost]]:
    """Cost of one call of a part, by kind of work: "quantize", "linear", "offset", "grouping" and "attention".

    Raises Refused as the accelerator does.
    """
    ports = Ports(prepared, layer)
    if call.part == "linear":
        yield from _linear(ports, *call.inputs)
    elif call.part == "attention":
        yield from _attention(ports, *call.inputs)
    elif call.part == "head":
        yield "linear", work.head(prepared.model, *call.inputs)


def _linear(ports: Ports, names: Any, x: np.ndarray) -> Iterator[tuple[str, Cost]]:
    """The conversion of the input and the products, except those of K and V, which depend on the cache."""
    if own_input(ports, names):
        yield "quantize", _converted(*x.shape)
    layers = ports.linear(names)
    for name, some in zip(names, layers.columns, strict=True):
        if name not in ("k", "v"):
            sizes = {"rows": len(x), "inner": x.shape[1], "columns": some.stop - some.start}
            yield "linear", _product(ports.core(**sizes, **options(ports, names, name)))


def _converted(tokens: int, channels: int) -> Cost:
    """Conversion of a matrix, by tokens."""
    from refemu.units.harmonia.bfp_converter import compiled as bfp_converter_compiled

    _, cycles, _, _, comparisons = bfp_converter_compiled.stream(tokens, channels, "token")
    return Cost(comparisons=comparisons, conversions=tokens * channels, cycles=cycles)


def _product(config: Config, codes: np.ndarray | None = None, products: int = 1) -> Cost:
    """Products of one size. codes: port `wide` of each, (rows, units)."""
    wide = np.zeros((config["rows"], 0), np.uint8) if codes is None else codes
    return _kept(tuple(sorted(config.items())), wide.tobytes(), products)


@functools.lru_cache(maxsize=256)
def _kept(config: tuple[tuple[str, Any], ...], wide: bytes, products: int) -> Cost:
    """`_products`, cached: blocks of a model have products of the same sizes."""
    from refemu.units.harmonia.harmonia_core import compiled as harmonia_core_compiled

    core, codes = HarmoniaCore(**dict(config)), np.frombuffer(wide, np.uint8)
    counters = harmonia_core_compiled.counted(core, codes.reshape(1, -1))
    scaled = {name: products * number for name, number in counters.items()}
    return work.cost(core, scaled, products, work.timeline(core, codes.reshape(core.rows, -1), products))


def _attention(ports: Ports, q: np.ndarray, cache: Any) -> Iterator[tuple[str, Cost]]:
    """K, V, offsets and groups of the new tokens, then both products of every query head."""
    tokens, heads, size = q.shape
    length, model, names = len(cache), ports.prepared.model, ("q", "k", "v")
    start, width = length - tokens, model.kv_heads * size
    for name in ("k", "v"):
        parameters = options(ports, names, name) | cached(cache, name, start)
        yield "linear", _product(ports.core(rows=tokens, inner=model.width, columns=width, **parameters))
    rule = offsets(cache.config, model.kv_heads, size)
    if cache.config.online and not start:
        tracked = min(WINDOW, tokens) * rule.channels
        yield "offset", Cost(comparisons=tracked + rule.chosen * (rule.scope - 1))
    for token in range(start, length) if start else ():
        yield "grouping", Cost(conversions=(token % GROUP + 1) * width)
        yield from _products(ports, heads, size, np.array([token + 1]), token + 1)
    if not start:
        yield "grouping", Cost()
        by_query = cache.config.prefill_window == "query"
        yield from _products(ports, heads, size, 1 + np.arange(tokens) if by_query else np.full(tokens, length), length)


def _products(ports: Ports, heads: int, size: int, seen: np.ndarray, length: int) -> Iterator[tuple[str, Cost]]:
    """Both products for queries that see the bits of caches of `seen` tokens."""
    by_side = falls(allocation(ports.prepared.harmonia), length)
    for score, falling in zip((True, False), by_side, strict=True):
        codes = wide(falling, seen) if ports.kv_type == "mixed" else None
        yield "attention", _product(product(ports, score, len(seen), size, length), codes, heads)


def falls(rule: Allocation, tokens: int) -> tuple[np.ndarray, np.ndarray]:
    """Cache lengths at which keys and groups of values are demoted to `low` bits; 0: beyond `tokens`."""
    keys, groups = np.arange(tokens), np.arange(count(tokens, GROUP))
    k = np.where(keys >= rule.n_initial, keys + 1 + rule.n_local, 0)
    v = np.where(groups * GROUP >= rule.n_initial, (groups + 1) * GROUP + rule.n_local, 0)
    reached = rule.low < rule.high
    return k * (k <= tokens) * reached, v * (v <= tokens) * reached
