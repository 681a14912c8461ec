"""Taps of LeanKV's units: values at their ports while a model runs, layer by layer and KV head by KV head.

A tap shows complete operations of the scheme: all tokens of a prompt with all query heads of a KV head, a vector or
group of a stored token, the pages of a head as attention finds them, a request of a head or of all heads of a layer
since its prompt (taps_steps.py), all calls of the memory manager for all layers. The configuration of a case has every
parameter and size of the scheme and the model, and is a ready one only if a ready one has them. Two things differ from
the scheme's own arrays and decide no bit. The pages of a head are numbered in their order in the pool, of which the
unit sees no others. Slots after the last stored token are zeros, as many as in the smallest ready configuration of
generation_compressor with enough slots, or else as fit a table entry.

These are not shown:

- free_page_list, page_table and prefix_sum alone: page_manager consists of them and has their registers;
- kv_compressor, scores that attention adds to the pages between two of its operations: it has the initial score of a
  token, in a moved record too;
- kv_quantizer, a token that moves to the low precision: its features are decoded in float32, while port x is fp16;
- kv_quantizer, groups whose size is not a multiple of 16, and vectors of 16 bits, which are not quantized;
- page_manager, the pools of other workers than the first.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import lru_cache, partial
from typing import Any

import numpy as np

from refemu import units
from refemu.arith import fp16
from refemu.formats.leankv import hetero_kv
from refemu.formats.leankv.affine import WORD, Affine
from refemu.models.schemes.leankv import taps_steps
from refemu.models.schemes.leankv.cache import Call, Held, LayerCache, Pools
from refemu.models.schemes.leankv.config import LeanKvConfig
from refemu.models.schemes.leankv.pool import Plan, Pool, Prompt
from refemu.models.schemes.leankv.steps import Classes, Units, patterns
from refemu.models.schemes.leankv.taps_steps import History
from refemu.models.schemes.scheme import Half
from refemu.models.taps import Later, Watch, model_case, sized
from refemu.units.leankv import generation_compressor, prompt_compressor
from refemu.units.leankv.generation_compressor import GenerationCompressor
from refemu.units.leankv.kv_quantizer import BITS
from refemu.units.leankv.page_manager import Shape
from refemu.units.leankv.page_table import HIGH, LOW
from refemu.units.leankv.paged_attention import CONSTANTS

UNITS = (
    "generation_compressor",
    "kv_compressor",
    "kv_quantizer",
    "layer_step",
    "page_manager",
    "paged_attention",
    "prompt_compressor",
    "significance",
)
ALGORITHM1, STATIC = ("W", "A1", "A2", "A3", "B1", "B2", "C"), ("STATIC_APPEND", "STATIC_DROP")
DIFFKV = ("APPEND", "PRUNE", "SWAP", "DOWNGRADE")
CHOICES = {getattr(generation_compressor, name): name for name in (*ALGORITHM1, *DIFFKV, *STATIC)}
STORED = {
    HIGH: (prompt_compressor.HIGH, prompt_compressor.WINDOW),
    LOW: (prompt_compressor.LOW,),
}  #: section -> classes of the tokens in its pages


def tapped(config: LeanKvConfig, half: Half | None = None) -> tuple[str, ...]:
    """The units whose ports a run under any configuration can show, in alphabetical order.

    half: the attention, the only one.
    """
    return UNITS


class Taps:
    """The taps of one layer in one pass."""

    def __init__(self, steps: Units, layer: int, watch: Watch) -> None:
        self._steps, self._config, self._layer, self._watch = steps, steps.config, layer, watch

    def _emit(
        self,
        unit: str,
        config: str,
        why: str,
        inputs: Mapping[str, np.ndarray],
        tensor: str = "attention",
        **source: Any,
    ) -> None:
        """inputs: arrays by port, with the axis of cases first."""
        full, first = f"blk.{self._layer}.{tensor}", {"first_token": self._watch.first_token, **source}
        self._watch.emit(self._layer, unit, model_case(why, config, full, self._layer, inputs, **first))

    def significance(self, q: np.ndarray, k: np.ndarray, shares: np.ndarray, scale: np.float32) -> None:
        """Attention of all queries of a prompt to all its tokens: q (N, H * G, F), k (N, H, F), shares (H, N)."""
        if not self._watch.wants("significance"):
            return
        tokens, heads = len(q), q.shape[1] // k.shape[1]
        name = _named("significance", tokens=tokens, heads=heads, **self._steps.scoring())
        for head, share in enumerate(shares.view(np.float32)):
            shared = q[:, head * heads : (head + 1) * heads], k[:, head : head + 1]
            inputs = Later(partial(_paid, self._steps, *shared, scale))
            why, largest = "all tokens of a prompt, all query heads of a KV head", float(share.max())
            self._emit("significance", name, why, inputs, kv_head=head, largest=largest)

    def prompt(self, shares: np.ndarray) -> None:
        """Shares (H, N) of all tokens of a prompt."""
        if not self._watch.wants("prompt_compressor"):
            return
        name = _named("prompt_compressor", tokens=shares.shape[-1], **self._steps.classifying())
        for head, share in enumerate(shares):
            ports = {
                "share": share,
                "window": np.uint32(self._config.window),
                "thresholds": self._steps.limits(),
            }
            self._emit("prompt_compressor", name, "all tokens of a prompt", _case(ports), kv_head=head)

    def stored(self, key: np.ndarray, value: np.ndarray, cls: np.ndarray) -> None:
        """Stored tokens: key, value (N, H, F), cls (H, N); for each head the largest at each precision."""
        if not self._watch.wants("kv_quantizer"):
            return
        for section, pair_name in ((HIGH, self._config.high), (LOW, self._config.low)):
            pair = hetero_kv.find(pair_name) if pair_name else None
            for head, classes in enumerate(cls):
                tokens = np.flatnonzero(np.isin(classes, STORED[section]))
                if pair and tokens.size:
                    preset, name = self._config.preset, pair.name
                    self._group(f"key of a token at {name}", key[:, head], tokens, pair.key(preset), head)
                    self._group(f"value of a token at {name}", value[:, head], tokens, pair.value(preset), head)

    def _group(self, what: str, x: np.ndarray, tokens: np.ndarray, fmt: Affine, head: int) -> None:
        """The group with the largest feature of these tokens: x (N, F)."""
        if fmt.bits not in BITS or x.shape[-1] % (fmt.groups * WORD):
            return
        features = x.shape[-1] // fmt.groups
        rank, place = divmod(int(np.argmax(np.abs(x[tokens]))), x.shape[-1])
        token, group = int(tokens[rank]), place // features
        piece = fp16.bits(fp16.to_f16(x[token, group * features : (group + 1) * features]))
        name = _named("kv_quantizer", features=features, preset=self._config.preset, quantize_with=fmt.quantize_with)
        self._emit(
            "kv_quantizer",
            name,
            f"{what}, the {'vector' if fmt.groups == 1 else 'group'} with the largest feature",
            _case({"x": piece, "bits": np.uint8(fmt.bits)}),
            kv_head=head,
            largest=float(np.abs(x[token, place])),
            token=token,
            group=group,
        )

    def decision(self, pool: Pool, plan: Plan, first_head: int) -> None:
        """All slots of the heads of the first sequence."""
        if not self._watch.wants("generation_compressor"):
            return
        parameters, policy = self._steps.deciding(), self._config.of("policy")
        ready, room = _deciding(parameters), _room(pool, plan)
        for head in range(plan.lengths.shape[2]):
            at, n = (0, self._layer, head), int(plan.positions[0])
            high, low = plan.before.lengths[at].tolist()
            wide = [(slots, name) for slots, name in ready if slots >= high + low]
            slots, name = min(wide) if wide else (room, _named("generation_compressor", slots=room, **parameters))
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
            why, stored = f"slots of a head whose choice is {choice}", high + low
            source = {"kv_head": first_head + head, "largest": n, "stored": stored}
            self._emit("generation_compressor", name, why, _case(ports), **source)

    def attention(self, pool: Pool, plan: Plan, q: np.ndarray, first_head: int) -> None:
        """All stored tokens of the first sequence, in the pages of its heads before attention adds to their scores.

        q: (S, H, G, F) of this worker's heads.
        """
        if not self._watch.wants("paged_attention"):
            return
        cells, lengths = plan.cells[0, self._layer], plan.lengths[0, self._layer].tolist()
        layouts, config = pool.layouts, self._config
        name = _named(
            "paged_attention",
            **asdict(self._steps.arithmetic),
            **{name: getattr(layouts.high, name) for name in CONSTANTS},
            head_size=q.shape[-1],
            heads=q.shape[2],
            high=config.high,
            low=config.low,
            page_bytes=layouts.high.size,
            cells=cells.shape[-1],
            preset=config.preset,
        )
        for head, (high, low) in enumerate(lengths):
            entry, images = _pages(pool, cells[head], high, low)
            ports = {
                "q": fp16.bits(fp16.to_f16(q[0, head])).ravel(),
                "entry": entry,
                "n_high": high,
                "n_low": low,
                "newest": int(plan.positions[0]),
            }
            inputs = Later(partial(_attended, ports, images, cells.shape[-1]))
            place: dict[str, Any] = {"kv_head": first_head + head, "largest": high + low}
            self._emit("paged_attention", name, "all stored tokens of a head", inputs, **place)

    def request(self, pool: Pool, history: History, first_head: int) -> None:
        """A request so far, for all heads of a worker and for each alone."""
        config, why = taps_steps.stepping(self._steps, pool, history), "a prompt and all steps after it"
        source: dict[str, Any] = {"largest": len(history.steps), "prompt": history.prompt}
        if self._watch.wants("layer_step"):
            inputs = Later(partial(taps_steps.events, self._steps, history))
            name = _named("layer_step", **config)
            self._emit("layer_step", name, f"{why}, all heads", inputs, kv_head=first_head, **source)
        alone = {**config, "kv_heads": 1, "pages": config["pages"] // config["kv_heads"]}
        for head, plan in enumerate(history.kept.plans):
            place = {"kv_head": first_head + head, **source}
            if self._watch.wants("layer_step") and alone != config:
                inputs = Later(partial(taps_steps.events, self._steps, history, head))
                self._emit("layer_step", _named("layer_step", **alone), f"{why}, one head", inputs, **place)
            if self._watch.wants("kv_compressor"):
                inputs, size = Later(partial(taps_steps.compressed, history, head)), len(plan.high) + len(plan.low)
                name = _named("kv_compressor", **taps_steps.compressing(pool, history))
                self._emit("kv_compressor", name, f"{why}, tokens of a head", inputs, **{**place, "kept": size})

    def manager(self, pools: Pools) -> None:
        """All calls so far."""
        if not self._watch.wants("page_manager"):
            return
        shape, calls = pools.pools[0].manager.shape, tuple(pools.calls)
        inputs = Later(partial(_called, shape, calls))
        name, why = _named("page_manager", **asdict(shape)), "all calls so far, of all layers"
        self._emit("page_manager", name, why, inputs, "pages", largest=len(calls))


def _named(unit: str, **parameters: Any) -> str:
    """The configuration of a unit with exactly these parameters."""
    return _sized(unit, tuple(parameters.items()))


@lru_cache(maxsize=64)
def _sized(unit: str, parameters: tuple[tuple[str, Any], ...]) -> str:
    name = sized(unit, {}, **dict(parameters))
    assert name is not None, "without sizes every parameter set has a name"
    return name


def _case(inputs: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Values by port as a case of one row."""
    return {name: np.asarray(array)[None] for name, array in inputs.items()}


def _paid(steps: Units, q: np.ndarray, k: np.ndarray, scale: np.float32) -> dict[str, np.ndarray]:
    """Probabilities of a prompt as port values: q (N, G, F), k (N, 1, F)."""
    p = steps.probabilities(q, k, scale, 0, len(q))
    return {"p": np.ascontiguousarray(p).view(np.uint32).reshape(1, -1)}


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


def _room(pool: Pool, plan: Plan) -> int:
    """Most tokens in the pages of a table entry."""
    return int(plan.cells.shape[-1] * max(page.tokens for page in pool.layouts.sections))


def _pages(pool: Pool, cells: np.ndarray, high: int, low: int) -> tuple[np.ndarray, np.ndarray]:
    """A table entry with new page numbers, used pages first in the order of the pool, and these pages."""
    used = [-(-count // page.tokens) for count, page in zip((high, low), pool.layouts.sections, strict=True)]
    inside = np.zeros(len(cells), np.bool_)
    inside[: used[HIGH]] = inside[len(cells) - used[LOW] :] = True
    order = np.lexsort((cells, ~inside))
    entry = np.empty(len(cells), np.int64)
    entry[order] = np.arange(len(cells))
    return entry, pool.images[cells[order[: used[HIGH] + used[LOW]]]]


def _attended(ports: Mapping[str, Any], images: np.ndarray, cells: int) -> dict[str, np.ndarray]:
    """Port values of paged_attention with the used pages, then zeros, one for each cell of the entry."""
    return _case({**ports, "images": np.pad(images, ((0, cells - len(images)), (0, 0))).ravel()})


def _called(shape: Shape, calls: Sequence[Call]) -> dict[str, np.ndarray]:
    """Port values of page_manager (1, calls, lanes)."""
    sizes = (shape.slots, shape.slots, shape.entries, shape.entries)
    rows = [
        [np.pad(array, (0, size - array.size)) for size, array in zip(sizes, call.lanes().values(), strict=True)]
        for call in calls
    ]
    ports: dict[str, Any] = {"op": [call.op for call in calls], "members": [len(call.names) for call in calls]}
    names = ("sequences", "prompts", "high", "low")
    return _case(ports | {name: np.stack(row) for name, row in zip(names, zip(*rows, strict=True), strict=True)})


def prompted(
    steps: Units, layer: int, q: np.ndarray, cache: LayerCache, shares: np.ndarray, scale: np.float32, watch: Watch
) -> None:
    """A prompt in one layer: q (N, H * G, F), shares (H, N)."""
    taps = Taps(steps, layer, watch)
    taps.significance(q, cache.key, shares, scale)
    taps.prompt(shares)


def compressed(
    steps: Units, pools: Pools, prompts: Mapping[int, Prompt], classes: Sequence[Sequence[Classes]], watch: Watch
) -> None:
    """Prompts in their pages. classes: by worker, prompt by prompt, (layers, H, N)."""
    for (name, prompt), parts in zip(prompts.items(), zip(*classes, strict=True), strict=True):
        if any(watch.wants(unit) for unit in taps_steps.UNITS):
            taps_steps.prompted(steps, pools, name, prompt, parts)
        cls = np.concatenate([part.cls for part in parts], axis=1)
        for layer, (key, value) in enumerate(zip(prompt.keys, prompt.values, strict=True)):
            Taps(steps, layer, watch).stored(key, value, cls[layer])
    Taps(steps, 0, watch).manager(pools)


def stepped(steps: Units, layer: int, held: Held, cache: LayerCache, q: np.ndarray, watch: Watch) -> None:
    """A step in one layer, with its tokens stored, before it attends: q (S, H, G, F)."""
    taps = Taps(steps, layer, watch)
    taps.stored(cache.key, cache.value, np.full(cache.key.shape[1::-1], prompt_compressor.HIGH))
    for pool, plan, heads in zip(held.pools.pools, held.current.plans, held.pools.parts, strict=True):
        taps.decision(pool, plan, heads.start)
        taps.attention(pool, plan, q[:, heads], heads.start)
    if any(watch.wants(unit) for unit in taps_steps.UNITS):
        histories = taps_steps.stepped(held.pools, held.names, layer, held.current.plans, cache.key, cache.value, q)
        for pool, history, heads in zip(held.pools.pools, histories, held.pools.parts, strict=True):
            taps.request(pool, history, heads.start)
    if layer == 0:
        taps.manager(held.pools)
