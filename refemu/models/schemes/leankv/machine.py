"""LeanKV's machine on a block: what a prompt leaves in pages, and a generation step of all KV heads.

Paper: [leankv §4, §5.3, §6.1, §6.2]. A prompt goes through significance, prompt_compressor, kv_quantizer, kv_compressor
and page_manager, the token behind it through layer_step. Everything else of a block, the attention of a prompt too, is
computed in fp16 (D-leankv-64).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from refemu import units
from refemu.arith import fp16
from refemu.models.machine.report import Absent, Cost, Operation, differences
from refemu.models.machine.runner import Call
from refemu.models.schemes.leankv.kept import Kept, of_prompt
from refemu.models.schemes.leankv.pool import Pool
from refemu.models.schemes.leankv.steps import patterns
from refemu.models.schemes.leankv.taps import CHOICES
from refemu.units.leankv.head_step import COUNTERS
from refemu.units.leankv.kv_compressor import APPEND_HIGH, APPEND_LOW
from refemu.units.leankv.kv_quantizer import BITS
from refemu.units.leankv.page_table import HIGH, LOW
from refemu.units.leankv.paged_attention import CONSTANTS

NAMES = {HIGH: "high", LOW: "low"}
OUTSIDE = {
    "norm": "norms are computed in fp16 (D-leankv-64)",
    "linear": "linear layers are computed in fp16 (D-leankv-64)",
    "rotate": "rotary positions are computed in fp16, before a key is stored (D-leankv-50)",
    "activation": "the activation is computed in fp16 (D-leankv-64)",
    "add": "the residual sum is computed in fp16 (D-leankv-64)",
}
PROMPT = {"attention": "a prompt attends to its own keys and values in fp16 (D-leankv-49)"}


def machine(prepared: Any, layer: int, calls: Sequence[Call]) -> tuple[list[Operation], list[Absent]]:
    """Operations of the block's cache and attention, and what stays outside.

    Parameters
    ----------
    prepared : LeanKv
        Decoder under a LeanKV scheme.
    layer : int
        Block.
    calls : sequence of Call
        What its parts took and gave, of the prompt first.

    Returns
    -------
    operations, absent : list
        In the order of the block.
    """
    prompt, *step = [call for call in calls if call.part == "attention"]
    q, cache = prompt.inputs
    held = cache.held
    operations: list[Operation] = []
    for pool, heads in zip(held.pools.pools, held.pools.parts, strict=True):
        kept = of_prompt(prepared, q, cache, heads)
        if step:
            operations += _step(prepared, layer, pool, kept, heads, step[0])
        else:
            operations += _prompt(prepared, layer, pool, kept, held)
    outside = OUTSIDE if step else PROMPT | OUTSIDE
    return operations, [Absent(f"blk.{layer}.{name}", reason) for name, reason in _there(prepared, outside)]


def _there(prepared: Any, outside: Mapping[str, str]) -> list[tuple[str, str]]:
    rotary = prepared.model.positions == "rotary"
    return [(name, reason) for name, reason in outside.items() if rotary or name != "rotate"]


# A prompt.


def _prompt(prepared: Any, layer: int, pool: Pool, kept: Kept, held: Any) -> Iterator[Operation]:
    """What a prompt leaves, against the scheme's sums, shares and pages."""
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


def _significance(prepared: Any, layer: int, kept: Kept) -> Operation:
    """Sums and shares of all tokens, head by head."""
    unit, heads, tokens = units.find("significance"), *kept.sums.shape
    config = {"tokens": tokens, "heads": kept.q.shape[2], **prepared.units.scoring()}
    differing, cost = 0, Cost()
    for head in range(heads):
        queries = kept.q[:, head], kept.key[:, head : head + 1]
        p = prepared.units.probabilities(*queries, prepared._scale, 0, tokens)
        words = np.ascontiguousarray(p).view(np.uint32).reshape(1, -1)
        result = unit.evaluate(config, {"p": words if words.shape[1] > 1 else words[:, 0]})
        for got, due in ((result.sum, kept.sums[head]), (result.share, kept.shares[head])):
            differing += differences(got.reshape(-1), due.reshape(-1).view(np.uint32))
        cost += Cost(comparisons=result.comparisons, words={"activations": p.size})
    sizes = (heads, tokens), 2 * kept.sums.size, differing, 0
    return Operation(f"blk.{layer}.significance", unit.name, config, *sizes, kind="significance", cost=cost)


def _classes(
    prepared: Any, layer: int, pool: Pool, kept: Kept, cells: np.ndarray, lengths: np.ndarray
) -> Operation:
    """Which tokens are kept where: positions in the pages, slot by slot, and how many are pruned."""
    unit, (heads, tokens) = units.find("prompt_compressor"), kept.shares.shape
    config = {"tokens": tokens, **prepared.units.classifying()}
    shares = kept.shares if tokens > 1 else kept.shares[:, 0]
    ports = {"share": shares, "window": np.uint32(prepared.lean.window), "thresholds": prepared.units.limits()}
    result = unit.evaluate(config, ports)
    wrong, elements, counts = 0, 0, {"high": 0, "low": 0, "pruned": 0}
    cls, order = (array.reshape(heads, tokens) for array in (result.cls, result.order))
    for head in range(heads):
        plan = kept.planned(prepared, cls[head], order[head].astype(np.int64), head)
        for section, positions in ((HIGH, plan.high), (LOW, plan.low)):
            stored = _stored(pool, cells[head], section, int(lengths[head, section]))[1]
            same = len(stored) == len(positions) and (plan.position[positions] == stored.view(np.int32)).all()
            wrong += 0 if same else max(len(stored), len(positions))
            elements += len(positions)
            counts[NAMES[section]] += len(positions)
        counts["pruned"] += tokens - len(plan.high) - len(plan.low)
    cost = Cost(comparisons=int(result.comparisons), words={"activations": shares.size})
    sizes = (heads, tokens), elements, wrong, 0
    return Operation(
        f"blk.{layer}.classes", unit.name, config, *sizes, kind="compress", cost=cost, counts=counts
    )


def _stored(pool: Pool, cells: np.ndarray, section: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Records (count, record_words) and positions of a section's slots, as the scheme's pages hold them."""
    page, slots = pool.layouts.sections[section], np.arange(count)
    images = pool.images[_ids(cells, section, -(-count // page.tokens))]
    records = [page.read(images[slot // page.tokens], slot % page.tokens) for slot in slots]
    table = np.array(records, np.uint16).reshape(count, page.record_words)
    halves = table[:, page.parts["pos"]].astype(np.uint32)
    return table, halves[:, 0] | halves[:, 1] << np.uint32(16)


def _ids(cells: np.ndarray, section: int, pages: int) -> np.ndarray:
    """Pages of a run."""
    return cells[:pages] if section == HIGH else cells[::-1][:pages]


def _codes(
    prepared: Any, layer: int, pool: Pool, kept: Kept, section: int, part: str, cells: np.ndarray
) -> Operation:
    """Keys or values of all kept tokens of a section through the quantizer, group by group."""
    unit, page = units.find("kv_quantizer"), pool.layouts.sections[section]
    fmt = (page.config.key if part == "key" else page.config.value)(pool.layouts.preset)
    segment, features = "key" if part == "key" else "val", page.head_size // fmt.groups
    due_words, due_meta, groups = [], [], []
    for head, plan in enumerate(kept.plans):
        positions = plan.high if section == HIGH else plan.low
        records = _stored(pool, cells[head], section, len(positions))[0]
        due_words.append(records[:, page.parts[segment]].reshape(len(positions) * fmt.groups, -1))
        due_meta.append(records[:, page.parts[f"{segment}_meta"]].reshape(-1, 2))
        groups.append((kept.key if part == "key" else kept.value)[positions, head].reshape(-1, features))
    x = fp16.bits(fp16.to_f16(np.concatenate(groups)))
    config = {"features": features, "preset": pool.layouts.preset, "quantize_with": fmt.quantize_with}
    result = unit.evaluate(config, {"x": x, "bits": np.full(len(x), fmt.bits, np.uint8)})
    words, meta = np.concatenate(due_words), np.concatenate(due_meta)
    wrong = differences(np.ascontiguousarray(result.words[:, : words.shape[1]]), words)
    wrong += differences(np.stack([result.scale, result.zero], axis=1), meta)
    cost = Cost(comparisons=result.comparisons, conversions=x.size, words={"kv": words.size + meta.size})
    sizes = (len(x), features), words.size + meta.size, wrong, 0
    name = f"blk.{layer}.{NAMES[section]}.{part}"
    return Operation(name, unit.name, {**config, "bits": fmt.bits}, *sizes, kind="quantize", cost=cost)


def paging(pool: Pool) -> dict[str, Any]:
    """Parameters of the pages."""
    high, low = pool.layouts.sections
    constants = {name: getattr(high, name) for name in CONSTANTS}
    pairs = {"high": high.config.name, "low": low.config.name}
    return {"head_size": high.head_size, **pairs, "page_bytes": high.size, "preset": pool.layouts.preset, **constants}


def _pages(
    prepared: Any, layer: int, pool: Pool, kept: Kept, cells: np.ndarray, lengths: np.ndarray
) -> Operation:
    """All kept tokens written, high ones first: every word of the pages of every head."""
    unit, elements, wrong, written = units.find("kv_compressor"), 0, 0, 0
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
            due = pool.images[_ids(cells[head], section, used[section])]
            got = images[0, -1].reshape(-1, due.shape[1])[: len(due)] if len(op) else np.zeros_like(due)
            wrong, elements = wrong + differences(got, due), elements + due.size
        written += result.tokens_written
    cost = Cost(words={"kv": int(elements)})
    sizes = (len(kept.plans), written), elements, wrong, 0
    return Operation(
        f"blk.{layer}.pages",
        unit.name,
        config,
        *sizes,
        words={"kv": int(elements)},
        kind="pages",
        cost=cost,
        counts={"tokens": written},
    )


def _allocation(layer: int, pool: Pool, held: Any, cells: np.ndarray) -> Operation:
    """All calls of the manager so far, of all layers: the entries of this layer, and the list."""
    unit, shape, manager = units.find("page_manager"), pool.manager.shape, pool.manager
    first, size = layer * shape.heads, shape.length
    result = unit.evaluate(asdict(shape), ports_of_calls(pool, held))
    table = result.cells[0, -1].reshape(shape.entries, size)[first : first + shape.heads]
    used = result.used[0, -1].reshape(shape.entries, 2)[first : first + shape.heads]
    wrong = differences(np.ascontiguousarray(table), cells.astype(table.dtype))
    wrong += int(np.count_nonzero(used != manager.used(held.names)[0, layer]))
    wrong += int(result.free[0, -1] != manager.free)
    counts = {"pages": int(used.sum(dtype=np.int64)), "allocated": result.allocated, "recycled": result.recycled}
    sizes = (shape.heads, size), table.size + used.size + 1, wrong, 0
    return Operation(
        f"blk.{layer}.allocation", unit.name, asdict(shape), *sizes, kind="allocate", counts=counts
    )


def ports_of_calls(pool: Pool, held: Any) -> dict[str, np.ndarray]:
    """Calls of a worker's manager for a prompt: allocate, then release what its tokens do not need."""
    shape, name = pool.manager.shape, held.names[0]
    request, lengths = pool.manager.requests.table[name], pool.manager.lengths([name])[0].reshape(-1, 2)
    entries = {port: np.zeros((1, 2, shape.entries), np.int64) for port in ("high", "low")}
    for port, counts in zip(entries, lengths.T, strict=True):
        entries[port][0, 1, : len(counts)] = counts
    names = {port: np.zeros((1, 2, shape.slots), np.int64) for port in ("sequences", "prompts")}
    names["sequences"][:], names["prompts"][0, 0, 0] = name, request.prompt
    ports = {"op": np.array([[0, 1]]), "members": np.array([[1, 1]]), **names, **entries}
    return {port: x[..., 0] if x.ndim == 3 and x.shape[2] == 1 else x for port, x in ports.items()}


# A generation step.


def stepping(prepared: Any, pool: Pool, tokens: int) -> dict[str, Any]:
    """Parameters of layer_step for the heads of a pool: as many pages as a prompt of `tokens` and a step take."""
    shape, arithmetic = pool.manager.shape, asdict(prepared.units.arithmetic)
    deciding = prepared.units.deciding()
    low = deciding.pop("low")
    max_len, cells = tokens + 1, -(-(tokens + 1) // shape.high_tokens) + 2
    return {
        **paging(pool),
        **deciding,
        **arithmetic,
        "low": paging(pool)["low"] if low else None,
        "kv_heads": shape.heads,
        "heads": prepared.model.heads // prepared.model.kv_heads,
        "pages": shape.heads * cells,
        "max_len": max_len,
        "reserve_low": shape.reserve_low,
        "table_extra": 2,
        "table_tokens": None,
        "lazy_pages": shape.lazy_pages,
        "scrub": shape.scrub,
    }


def _step(
    prepared: Any, layer: int, pool: Pool, kept: Kept, heads: slice, call: Call
) -> Iterator[Operation]:
    """The token behind the prompt, against the scheme's decisions, records, outputs and scores."""
    q, cache = call.inputs
    held, unit = cache.held, units.find("layer_step")
    (plan,) = [each for each, of in zip(held.current.plans, held.pools.pools, strict=True) if of is pool]
    config = stepping(prepared, pool, kept.sums.shape[1])
    grouped = q.reshape(len(q), cache.key.shape[1], -1, q.shape[-1])[0, heads]
    inputs = kept.events(prepared, grouped, cache.key[0, heads], cache.value[0, heads])
    limits = patterns(prepared.lean.thresholds(prepared.units.deciding()["policy"]))
    events = inputs["op"].shape[1]
    inputs |= {"window": np.full((1, events), prepared.lean.window), "thresholds": np.tile(limits, (1, events, 1))}
    result = unit.evaluate(config, inputs)
    decided, out = plan.decided, call.output.reshape(grouped.shape[0] * 0 + held.pools.parts[-1].stop, -1)[heads]
    last = {name: getattr(result, name)[0, -1].reshape(config["kv_heads"], -1) for name in OUTPUTS}
    wrong, elements = 0, 0
    for name in ("choice", "victim", "low_slot"):
        wrong += int(np.count_nonzero(last[name][:, 0] != getattr(decided, name)[0, layer]))
        elements += config["kv_heads"]
    wrong += differences(last["out"].astype(np.uint16), fp16.bits(fp16.to_f16(out)))
    elements += out.size
    for head in range(config["kv_heads"]):
        for got, due in _of_head(pool, plan, layer, head, last):
            wrong, elements = wrong + differences(got, due), elements + due.size
    moved = {name: int(getattr(result, name)) for name in COUNTERS}
    choices = [CHOICES[int(choice)] for choice in last["choice"][:, 0]]
    lengths = plan.lengths[0, layer]
    counts = {f"choice {name}": choices.count(name) for name in sorted(set(choices))}
    counts |= {"high": int(lengths[:, 0].sum(dtype=np.int64)), "low": int(lengths[:, 1].sum(dtype=np.int64))}
    counts |= {"moved": int(np.count_nonzero(plan.moves[0, layer])), "pages": int((last["taken"] >= 0).sum())}
    yield Operation(
        f"blk.{layer}.attention",
        unit.name,
        config,
        grouped.shape,
        elements,
        wrong,
        0,
        words={name: moved[name] for name in moved if name.endswith("_words")},
        kind="attention",
        cost=step_cost(moved, config["kv_heads"]),
        counts=counts,
    )


OUTPUTS = ("choice", "victim", "low_slot", "taken", "written", "moved", "out", "scores")


def _of_head(
    pool: Pool, plan: Any, layer: int, head: int, last: Mapping[str, np.ndarray]
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Records and scores of a head, and the scheme's; behind the step a score is no longer what was written."""
    at = (0, layer, head)
    high, low = pool.layouts.sections
    targets = [("written", high, plan.high[at])] + [("moved", low, plan.low[at])] * bool(plan.moves[at])
    for name, page, (image, slot) in targets:
        record = page.read(pool.images[image], slot)
        same = np.ones(page.record_words, np.bool_)
        same[page.parts["score"]] = False
        yield last[name][head, : page.record_words][same].astype(np.uint16), record[same]
    scores = [
        _stored(pool, plan.cells[at], section, int(count))[0][:, page.parts["score"]].astype(np.uint32)
        for section, (page, count) in enumerate(zip((high, low), plan.lengths[at], strict=True))
    ]
    due = np.concatenate([halves[:, 0] | halves[:, 1] << np.uint32(16) for halves in scores])
    yield last["scores"][head, : len(due)].astype(np.uint32), due


def step_cost(counted: Mapping[str, int], heads: int) -> Cost:
    """Cost of generation steps from the counters of layer_step (D-leankv-65)."""
    words = [counted[name] for name in counted if name.endswith("_words")]
    total = 0
    for count in words:
        total += count
    return Cost(
        {"attention": counted["macs"]},
        comparisons=counted["comparisons"],
        conversions=counted["tokens_written"] + counted["requantized"],
        words={"kv": total},
    )


