"""A prompt at the ports of LeanKV's units: significance, classes, codes, pages, allocation. [leankv §4, §5.3, §6.1]"""

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import numpy as np

from refemu import units
from refemu.arith import fp16, integers
from refemu.models.machine.report import Cost, Operation, differences, unchecked
from refemu.models.schemes.leankv.machine.pages import filled, paging, run_of, stored
from refemu.models.schemes.leankv.machine.prompt_tokens import PromptTokens
from refemu.models.schemes.leankv.pool import Pool
from refemu.units.leankv.kv_compressor import APPEND_HIGH, APPEND_LOW
from refemu.units.leankv.kv_quantizer import BITS
from refemu.units.leankv.page_table import HIGH, LOW

NAMES = {HIGH: "high", LOW: "low"}
EVENTS = ("written", "moved", "n_high", "n_low")  #: counters of kv_compressor


def prompt(prepared: Any, layer: int, pool: Pool, kept: PromptTokens, held: Any) -> Iterator[Operation]:
    """The results of a prompt, compared with the scheme's sums, shares and pages."""
    name = held.names[0]
    cells, lengths = (array[0, layer] for array in (pool.manager.cells([name]), pool.manager.lengths([name])))
    yield _significance(prepared, layer, kept)
    yield _classes(prepared, layer, pool, kept, cells, lengths)
    for section, page in enumerate(pool.layouts.sections[: 1 + (pool.layouts.low is not None)]):
        for part, bits in (("key", page.config.k_bits), ("value", page.config.v_bits)):
            if bits in BITS and int(lengths[:, section].max()):
                yield _codes(prepared, layer, pool, kept, section, part, cells)
    yield _pages(prepared, layer, pool, kept, cells, lengths)
    yield _allocation(layer, pool, held, cells)


def _significance(prepared: Any, layer: int, kept: PromptTokens) -> Operation:
    """Sums and shares of all tokens, head by head."""
    unit, heads, tokens = units.find("significance"), *kept.sums.shape
    config = {"tokens": tokens, "heads": kept.q.shape[2], **prepared.units.scoring()}
    differing, cost = 0, Cost()
    for head in range(heads):
        queries = kept.q[:, head], kept.key[:, head : head + 1]
        p = prepared.units.probabilities(*queries, prepared._scale, 0, tokens)
        words = np.ascontiguousarray(p).view(np.uint32).reshape(1, -1)
        result = unit.evaluate(config, {"p": words})
        for got, due in ((result.sum, kept.sums[head]), (result.share, kept.shares[head])):
            differing += differences(got.reshape(-1), due.reshape(-1).view(np.uint32))
        cost += Cost(comparisons=result.comparisons, words={"activations": p.size})
    sizes = (heads, tokens), 2 * kept.sums.size, differing, 0
    more: dict[str, Any] = {
        "kind": "significance",
        "cost": cost,
        "unchecked": unchecked(unit.name, config, "sum", "share"),
    }
    return Operation(f"blk.{layer}.significance", unit.name, config, *sizes, **more)


def _classes(
    prepared: Any, layer: int, pool: Pool, kept: PromptTokens, cells: np.ndarray, lengths: np.ndarray
) -> Operation:
    """Where each stored token is: positions in the pages, slot by slot, and the number of pruned tokens."""
    unit, (heads, tokens) = units.find("prompt_compressor"), kept.shares.shape
    config = {"tokens": tokens, **prepared.units.classifying()}
    ports = {"share": kept.shares, "window": np.uint32(prepared.lean.window), "thresholds": prepared.units.limits()}
    result = unit.evaluate(config, ports)
    high, low = lengths.T
    inside = min(prepared.lean.window, tokens)  # in the window, high without being counted
    numbers = {"n_pruned": tokens - high - low, "n_low": low, "n_high": high - inside}
    wrong = sum(differences(getattr(result, name).astype(np.int64), due) for name, due in numbers.items())
    elements, counts = len(numbers) * heads, {"high": 0, "low": 0, "pruned": 0}
    cls, order = (array.reshape(heads, tokens) for array in (result.cls, result.order))
    for head in range(heads):
        plan = kept.planned(prepared, cls[head], order[head].astype(np.int64), head)
        for section, positions in ((HIGH, plan.high), (LOW, plan.low)):
            held = stored(pool, cells[head], section, int(lengths[head, section]))[1].view(np.int32)
            same = np.array_equal(held, plan.position[positions])
            wrong += 0 if same else max(len(held), len(positions))
            elements += len(positions)
            counts[NAMES[section]] += len(positions)
        counts["pruned"] += tokens - len(plan.high) - len(plan.low)
    cost = Cost(comparisons=int(result.comparisons), words={"activations": kept.shares.size})
    sizes = (heads, tokens), elements, wrong, 0
    more: dict[str, Any] = {
        "cost": cost,
        "counts": counts,
        "unchecked": unchecked(unit.name, config, "cls", "order", *numbers),
    }
    return Operation(f"blk.{layer}.classes", unit.name, config, *sizes, kind="compress", **more)


def _codes(
    prepared: Any, layer: int, pool: Pool, kept: PromptTokens, section: int, part: str, cells: np.ndarray
) -> Operation:
    """Keys or values of all stored tokens of a section through the quantizer, group by group."""
    unit, page = units.find("kv_quantizer"), pool.layouts.sections[section]
    fmt = (page.config.key if part == "key" else page.config.value)(pool.layouts.preset)
    segment, features = "key" if part == "key" else "val", page.head_size // fmt.groups
    due_words, due_meta, groups = [], [], []
    for head, plan in enumerate(kept.plans):
        positions = plan.high if section == HIGH else plan.low
        records = stored(pool, cells[head], section, len(positions))[0]
        due_words.append(records[:, page.parts[segment]].reshape(len(positions) * fmt.groups, -1))
        due_meta.append(records[:, page.parts[f"{segment}_meta"]].reshape(-1, 2))
        groups.append((kept.key if part == "key" else kept.value)[positions, head].reshape(-1, features))
    x = fp16.bits(fp16.to_f16(np.concatenate(groups)))
    config = {"features": features, "preset": pool.layouts.preset, "quantize_with": fmt.quantize_with}
    result = unit.evaluate(config, {"x": x, "bits": np.full(len(x), fmt.bits, np.uint8)})
    words, meta = np.concatenate(due_words), np.concatenate(due_meta)
    wrong = differences(result.words, filled(words, result.words.shape))
    wrong += differences(np.stack([result.scale, result.zero], axis=1), meta)
    cost = Cost(comparisons=result.comparisons, conversions=x.size)
    sizes = (len(x), features), result.words.size + meta.size, wrong, 0
    name = f"blk.{layer}.{NAMES[section]}.{part}"
    more: dict[str, Any] = {"cost": cost, "unchecked": unchecked(unit.name, config, "words", "scale", "zero")}
    return Operation(name, unit.name, {**config, "bits": fmt.bits}, *sizes, kind="quantize", **more)


def _pages(
    prepared: Any, layer: int, pool: Pool, kept: PromptTokens, cells: np.ndarray, lengths: np.ndarray
) -> Operation:
    """Write all stored tokens, high ones first: every word of the pages of every head."""
    unit, elements, wrong, written = units.find("kv_compressor"), 0, 0, 0
    records = 0
    per_page = [page.tokens for page in pool.layouts.sections]
    config: dict[str, Any] = {}
    for head, plan in enumerate(kept.plans):
        used = [-(-int(count) // tokens) for count, tokens in zip(lengths[head], per_page, strict=True)]
        config = {**paging(pool), "high_pages": max(used[HIGH], 1), "low_pages": max(used[LOW], 1)}
        positions = np.concatenate([plan.high, plan.low])
        op = np.repeat([APPEND_HIGH, APPEND_LOW], [len(plan.high), len(plan.low)])
        vectors = {"key": kept.key[positions, head], "value": kept.value[positions, head]}
        result = unit.evaluate(
            config,
            {
                "op": op[None],
                "victim": np.zeros((1, len(op)), np.int64),
                "low_slot": np.zeros((1, len(op)), np.int64),
                **{port: fp16.bits(fp16.to_f16(x))[None] for port, x in vectors.items()},
                "score": plan.score[positions].view(np.uint32)[None],
                "position": plan.position[positions][None],
            },
        )
        for section, images in ((HIGH, result.high), (LOW, result.low)):
            due = pool.images[run_of(cells[head], section, used[section])]
            got = images[0, -1].reshape(-1, due.shape[1])[: len(due)] if len(op) else np.zeros_like(due)
            wrong, elements = wrong + differences(got, due), elements + due.size
        for name, due in _events(pool, cells[head], len(plan.high), len(plan.low)).items():
            got = getattr(result, name)[0]
            wrong, elements = wrong + differences(got, filled(due, got.shape).astype(got.dtype)), elements + got.size
        written += result.tokens_written
        for page, positions in zip(pool.layouts.sections, (plan.high, plan.low), strict=True):
            records += len(positions) * page.record_words
    cost = Cost(words={"kv": int(records)})
    sizes = (len(kept.plans), written), elements, wrong, 0
    return Operation(
        f"blk.{layer}.pages",
        unit.name,
        config,
        *sizes,
        words={"kv": int(records)},
        kind="pages",
        cost=cost,
        counts={"tokens": written},
        unchecked=unchecked(unit.name, config, *EVENTS),
    )


def _events(pool: Pool, cells: np.ndarray, high: int, low: int) -> dict[str, np.ndarray]:
    """Results of a head's events, high tokens first: the records in its pages; none moves in a prompt."""
    at = 1 + np.arange(high + low)
    parts = [stored(pool, cells, section, count)[0] for section, count in ((HIGH, high), (LOW, low))]
    written = np.concatenate([filled(part, (len(part), parts[HIGH].shape[1])) for part in parts])
    due = written, np.zeros((len(at), 1)), np.minimum(at, high), np.maximum(at - high, 0)
    return dict(zip(EVENTS, due, strict=True))


def _allocation(layer: int, pool: Pool, held: Any, cells: np.ndarray) -> Operation:
    """All calls of the manager so far, for all layers: the entries of this layer, and the list."""
    unit, shape, manager = units.find("page_manager"), pool.manager.shape, pool.manager
    first, size = layer * shape.heads, shape.length
    result = unit.evaluate(asdict(shape), ports_of_calls(pool, held))
    table = result.cells[0, -1].reshape(shape.entries, size)[first : first + shape.heads]
    used = result.used[0, -1].reshape(shape.entries, 2)[first : first + shape.heads]
    wrong = differences(np.ascontiguousarray(table), cells.astype(table.dtype))
    wrong += int(np.count_nonzero(used != manager.used(held.names)[0, layer]))
    wrong += int(result.free[0, -1] != manager.free)
    of_all = {f"{name} in all layers": getattr(result, name) for name in ("allocated", "recycled")}
    counts = {"pages": int(integers.total(used)), **of_all}
    sizes = (shape.heads, size), table.size + used.size + 1, wrong, 0
    more: dict[str, Any] = {"counts": counts, "unchecked": unchecked(unit.name, asdict(shape), "free")}
    return Operation(f"blk.{layer}.allocation", unit.name, asdict(shape), *sizes, kind="allocate", **more)


def ports_of_calls(pool: Pool, held: Any) -> dict[str, np.ndarray]:
    """Calls of a worker's manager for a prompt: allocate, then release unneeded pages."""
    shape, name = pool.manager.shape, held.names[0]
    request, lengths = pool.manager.requests.table[name], pool.manager.lengths([name])[0].reshape(-1, 2)
    entries = {port: np.zeros((1, 2, shape.entries), np.int64) for port in ("high", "low")}
    for port, counts in zip(entries, lengths.T, strict=True):
        entries[port][0, 1, : len(counts)] = counts
    names = {port: np.zeros((1, 2, shape.slots), np.int64) for port in ("sequences", "prompts")}
    names["sequences"][:], names["prompts"][0, 0, 0] = name, request.prompt
    return {"op": np.array([[0, 1]]), "members": np.array([[1, 1]]), **names, **entries}
