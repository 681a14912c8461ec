"""Taps of LeanKV's units: values at their ports while a model runs, layer by layer and KV head by KV head.

Ready configurations are smaller than a model's tensors, so a tap shows a piece of what the scheme worked with: of a
prompt its first tokens, which see no others; of shares those around the border of the window; of a vector features
around the largest; of stored tokens some, moved to smaller pages as they are. What decides by all that a head stores is
shown whole or not at all: a head of generation_compressor where a ready configuration has slots for it, and the memory
manager, as that of one layer, as long as its calls fit a ready one.
"""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from refemu import units
from refemu.arith import fp16
from refemu.formats.leankv import hetero_kv
from refemu.formats.leankv.kv_page import UnifiedPage
from refemu.models.schemes.leankv.cache import Held, LayerCache, Pools
from refemu.models.schemes.leankv.config import LeanKvConfig
from refemu.models.schemes.leankv.pool import Plan, Pool
from refemu.models.schemes.leankv.steps import Units, patterns
from refemu.models.taps import Watch, config_of, model_case
from refemu.units.leankv import generation_compressor, page_table
from refemu.units.leankv.generation_compressor import GenerationCompressor
from refemu.units.leankv.page_table import HIGH, LOW

UNITS = (
    "generation_compressor",
    "kv_quantizer",
    "page_manager",
    "paged_attention",
    "prompt_compressor",
    "significance",
)
ALGORITHM1, STATIC = ("W", "A1", "A2", "A3", "B1", "B2", "C"), ("STATIC_APPEND", "STATIC_DROP")
DIFFKV = ("APPEND", "PRUNE", "SWAP", "DOWNGRADE")
CHOICES = {getattr(generation_compressor, name): name for name in (*ALGORITHM1, *DIFFKV, *STATIC)}
PAGES = (3, 2)  #: high and low pages of stored tokens that paged_attention shows


def tapped(config: LeanKvConfig) -> tuple[str, ...]:
    """The units whose ports a run under any configuration can show, in alphabetical order."""
    return UNITS


class Taps:
    """The taps of one layer in one pass."""

    def __init__(self, steps: Units, layer: int, watch: Watch) -> None:
        self._steps, self._config, self._layer, self._watch = steps, steps.config, layer, watch

    def _emit(self, unit: str, config: str, why: str, head: int, inputs: Mapping[str, Any], **source: Any) -> None:
        """inputs: arrays by port, without the axis of cases."""
        tensor = f"blk.{self._layer}.attention"
        first = {"first_token": self._watch.first_token, "kv_head": head, **source}
        arrays = {name: np.asarray(array)[None] for name, array in inputs.items()}
        self._watch.emit(self._layer, unit, model_case(why, config, tensor, self._layer, arrays, **first))

    def _find(self, unit: str, parameters: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]] | None:
        """A ready configuration with these parameters, if anybody listens."""
        name = config_of(unit, parameters) if self._watch.wants(unit) else None
        return None if name is None else (name, units.find(unit).configs[name])

    def significance(self, q: np.ndarray, k: np.ndarray, scale: np.float32) -> None:
        """The first queries of a prompt and the tokens that they see."""
        config = self._config
        target = self._find(
            "significance", {"include_self": config.of("include_self"), "normalize": config.of("normalize")}
        )
        if target is None or (config.gqa, config.gqa_order) != ("max", "sums"):
            return
        (name, ready), group = target, q.shape[1] // k.shape[1]
        tokens, heads = ready["tokens"], ready["heads"]
        if len(q) >= tokens and group >= heads:
            p = self._steps.probabilities(q[:tokens], k[:tokens], scale, 0, tokens)
            for head in range(k.shape[1]):
                shown = np.ascontiguousarray(p[head, :, :heads]).view(np.uint32).ravel()
                self._emit("significance", name, "the first tokens of a prompt", head, {"p": shown}, query_heads=heads)

    def prompt(self, shares: np.ndarray) -> None:
        """Shares (H, N) on both sides of the window's border."""
        config, rule, window = self._config, self._config.of("rule"), self._config.window
        wanted: dict[str, Any] = {"rule": rule, "order": config.of("sort")}
        wanted |= {"keep_percent": config.keep_percent} if rule == "static" else {}
        wanted |= {"low_cumsum": config.low_cumsum} if rule == "cumulative" else {}
        target, total = self._find("prompt_compressor", wanted), shares.shape[-1]
        if target is None or total < target[1]["tokens"]:
            return
        name, tokens = target[0], target[1]["tokens"]
        first = min(max(total - window - 3 * tokens // 4, 0), total - tokens)
        inside = max(first + tokens - max(total - window, 0), 1)
        for head, share in enumerate(shares):
            ports = {
                "share": share[first : first + tokens],
                "window": np.uint32(inside),
                "thresholds": patterns(config.thresholds(rule)),
            }
            self._emit(
                "prompt_compressor", name, "shares around the border of the window", head, ports, first_position=first
            )

    def vectors(self, cache: LayerCache) -> None:
        """Keys and values around the largest one of each head."""
        pair = hetero_kv.find(self._config.high)
        target = self._find("kv_quantizer", {"preset": self._config.preset, "quantize_with": "unrounded"})
        for tensor, x, bits, groups in (
            ("key", cache.key, pair.k_bits, pair.k_groups),
            ("value", cache.value, pair.v_bits, pair.v_groups),
        ):
            if target is None or bits > 8 or x.shape[-1] // groups < target[1]["features"]:
                continue
            size = target[1]["features"]
            for head in range(x.shape[1]):
                token, place = divmod(int(np.argmax(np.abs(x[:, head]))), x.shape[-1])
                first = min(max(place - size // 2, 0), x.shape[-1] - size)
                piece = fp16.bits(fp16.to_f16(x[token, head, first : first + size]))
                self._emit(
                    "kv_quantizer",
                    target[0],
                    f"{tensor} around the largest feature of a head",
                    head,
                    {"x": piece, "bits": np.uint8(bits)},
                    largest=float(np.abs(x[:, head]).max()),
                    token=token,
                    first_feature=first,
                )

    def decision(self, plan: Plan, first_head: int) -> None:
        """All slots of the heads of the first sequence, each in the smallest configuration that has so many."""
        if not self._watch.wants("generation_compressor"):
            return
        ready, policy = _deciding(self._steps.deciding()), self._config.of("policy")
        for head in range(plan.lengths.shape[2]):
            at, n = (0, self._layer, head), int(plan.positions[0])
            high, low = plan.before.lengths[at].tolist()
            wide = [(slots, name) for slots, name in ready if slots >= high + low]
            if not wide:
                continue
            slots, name = min(wide)
            ports = {
                "n_high": high,
                "n_low": low,
                "n": n,
                "prompt": int(plan.prompts[0]),
                "window": self._config.window,
                "thresholds": patterns(self._config.thresholds(policy)),
            }
            for port, values in (("score", plan.before.score[at]), ("position", plan.before.position[at])):
                ports[port] = np.zeros(slots, np.uint32)
                ports[port][: high + low] = values[: high + low]
            choice = CHOICES[int(plan.decided.choice[at])]
            why = f"slots of a head whose choice is {choice}"
            self._emit("generation_compressor", name, why, first_head + head, ports, largest=n, stored=high + low)

    def attention(self, pool: Pool, plan: Plan, q: np.ndarray, first_head: int) -> None:
        """Some stored tokens of the first sequence, the newest among them, in pages of the ready size.

        q: (S, H, G, F) of this worker's heads.
        """
        wanted = asdict(self._steps.arithmetic) | {
            "head_size": q.shape[-1],
            "high": self._config.high,
            "low": self._config.low,
            "preset": self._config.preset,
        }
        del wanted["partition_tokens"]
        target = self._find("paged_attention", wanted)
        if target is None or q.shape[2] < target[1]["heads"]:
            return
        name, ready = target
        cells, lengths = plan.cells[0, self._layer], plan.lengths[0, self._layer]
        for head in range(len(cells)):
            images, counts = _small(pool, cells[head], lengths[head], plan.high[0, self._layer, head, 1], ready)
            entry = np.arange(ready["cells"])
            ports = {
                "q": fp16.bits(fp16.to_f16(q[0, head, : ready["heads"]])).ravel(),
                "images": images.ravel(),
                "entry": entry,
                "n_high": counts[HIGH],
                "n_low": counts[LOW],
                "newest": int(plan.positions[0]),
            }
            self._emit(
                "paged_attention",
                name,
                "stored tokens, in smaller pages",
                first_head + head,
                ports,
                largest=int(plan.positions[0]),
                query_heads=ready["heads"],
            )

    def manager(self, pools: Pools) -> None:
        """All calls so far, as those of a manager of this layer."""
        shape = pools.pools[0].manager.shape
        wanted = {
            name: getattr(shape, name)
            for name in ("heads", "high_tokens", "low_tokens", "reserve_low", "lazy_pages", "table_extra", "scrub")
        }
        target = self._find("page_manager", {**wanted, "layers": 1})
        if target is None or not pools.calls:
            return
        name, ready = target
        calls = [call.of_layer(self._layer) for call in pools.calls]
        if max(call.tokens for call in pools.calls) > ready["max_len"] or len(pools.calls[0].names) > ready["slots"]:
            return
        lanes = {"sequences": ready["slots"], "prompts": ready["slots"]}
        lanes |= dict.fromkeys(("high", "low"), ready["slots"] * shape.heads)
        ports: dict[str, Any] = {name: np.array([call[name] for call in calls]) for name in ("op", "members")}
        for port, count in lanes.items():
            rows = [np.ravel(call[port]) for call in calls]
            ports[port] = np.stack([np.pad(row, (0, count - row.size)) for row in rows])
        self._emit("page_manager", name, "the calls of a session", 0, ports, largest=len(calls))


def _deciding(parameters: Mapping[str, Any]) -> list[tuple[int, str]]:
    """Slots and name of the ready configurations of generation_compressor that decide as with these parameters.

    Without a low precision both thresholds are equal, so that `low` decides nothing.
    """
    read = {"policy", "epoch", "score_queries", "include_self"}
    read |= {"algorithm1": {"score_rule"}, "static": {"keep_percent"}}.get(parameters["policy"], set())
    configs = units.find("generation_compressor").configs
    devices = {name: GenerationCompressor(**config) for name, config in configs.items()}
    return [
        (device.slots, name)
        for name, device in devices.items()
        if all(getattr(device, key) == parameters[key] for key in read)
    ]


def _small(pool: Pool, cells: np.ndarray, lengths: np.ndarray, newest: int, ready: Mapping[str, Any]) -> Any:
    """Images (cells, words) of the ready size with some tokens of a head, and how many of each section."""
    from refemu.formats.leankv.twins import kv_page as kv_page_jit

    images, counts = None, [0, 0]
    for section, layout in enumerate(pool.layouts.sections):
        if section == LOW and pool.layouts.low is None:
            break
        page = UnifiedPage(layout.head_size, layout.config, ready["page_bytes"])
        images = page.empty(ready["cells"]) if images is None else images
        count = counts[section] = min(int(lengths[section]), PAGES[section] * page.tokens)
        rank = np.arange(count)
        if section == HIGH and newest >= count:
            rank[-1] = newest
        pages, slots = page_table.locate(np.broadcast_to(cells, (count, len(cells))), section, rank, layout.tokens)
        records = kv_page_jit.read(layout, pool.images, pages, slots)
        at = np.arange(count) // page.tokens
        at = at if section == HIGH else ready["cells"] - 1 - at
        kv_page_jit.write(page, images, at, np.arange(count) % page.tokens, records)
    return images, counts


def prompted(
    steps: Units, layer: int, q: np.ndarray, cache: LayerCache, shares: np.ndarray, scale: np.float32, watch: Watch
) -> None:
    """A prompt in one layer: q (N, H * G, F), shares (H, N)."""
    taps = Taps(steps, layer, watch)
    taps.significance(q, cache.key, scale)
    taps.prompt(shares)
    taps.vectors(cache)


def stepped(steps: Units, layer: int, held: Held, cache: LayerCache, q: np.ndarray, watch: Watch) -> None:
    """A step in one layer: q (S, H, G, F)."""
    taps = Taps(steps, layer, watch)
    taps.vectors(cache)
    for pool, plan, heads in zip(held.pools.pools, held.current.plans, held.pools.parts, strict=True):
        taps.decision(plan, heads.start)
        taps.attention(pool, plan, q[:, heads], heads.start)
    if len(held.pools.pools) == 1:
        taps.manager(held.pools)
