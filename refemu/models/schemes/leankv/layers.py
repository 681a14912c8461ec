"""A decoder under a LeanKV scheme: scheme `fp16` except for attention and cache [leankv §4, §6, §7.4].

A prompt attends as in scheme `fp16`, over keys and values that are not quantized, in the same order of sums; its
probabilities are the significance of its tokens (D-leankv-49). Steps attend to the pages.
"""

import copy
from collections.abc import Mapping
from typing import Any, NoReturn

import numpy as np

from refemu.arith import integers
from refemu.arith.checks import Refused
from refemu.models.backend import Backend
from refemu.models.cache import Caches
from refemu.models.config import ModelConfig
from refemu.models.model import Model
from refemu.models.schemes.fp16.decoder import Fp16
from refemu.models.schemes.leankv import layout, taps
from refemu.models.schemes.leankv.cache import Held, LayerCache, Pools
from refemu.models.schemes.leankv.config import LeanKvConfig
from refemu.models.schemes.leankv.pool import Pool, Prompt
from refemu.models.schemes.leankv.steps import Units
from refemu.models.schemes.scheme import Progress
from refemu.models.taps import Watch


class LeanKv(Fp16):
    """A decoder under a LeanKV scheme."""

    units: Units
    lean: LeanKvConfig

    def __init__(self, model: Model, config: LeanKvConfig, backend: Backend, progress: Progress) -> None:
        require_plain_scores(model)
        self._configure(model.config, config, backend)  # checks before the weights are prepared
        super().__init__(model, config, backend, progress)

    def _configure(self, sizes: Any, config: LeanKvConfig, backend: Backend) -> None:
        if sizes.kv_heads % config.workers:
            raise Refused(f"leankv: workers must divide the {sizes.kv_heads} KV heads, got {config.workers}")
        self.lean, self.units = config, Units(config, backend, layout.pages(config, sizes.head_dim))

    def under(self, config: LeanKvConfig) -> "LeanKv":
        """The same weights under another configuration; nothing is prepared again."""
        other = copy.copy(self)
        other._configure(self.model, config, self.backend)
        other.config = config
        return other

    def pools(self, slots: int) -> Pools:
        """Empty pools for this number of requests."""
        shape = layout.shape(self.lean, self.model, slots)
        return Pools([Pool(self.units, shape) for _ in range(self.lean.workers)], self.model.kv_heads)

    def caches(self) -> Caches:
        """Caches of one sequence, with its own pools."""
        return Held(self.model.blocks, self.pools(1))

    def cache(self, layer: int) -> NoReturn:
        """Raises Refused: layers share the pages of a sequence."""
        raise Refused("leankv: layers share one pool of pages; use caches()")

    def attention(self, layer: int, q: np.ndarray, cache: Any, watch: Watch) -> np.ndarray:
        """Attention over the prompt itself, or over the pages once the new tokens are in them."""
        held: Held = cache.held
        if not held.engine:  # an engine checks requests in `submit`
            require_within_window(self.model, len(cache))
        if cache.fresh:
            return self._prompt(layer, held, q, watch)
        if layer == 0:
            held.start_step()
            self.planned(held, watch)
        grouped = q.reshape(len(q), cache.key.shape[1], -1, q.shape[-1])
        held.pools.write(held.current.plans, layer, cache.key, cache.value)
        if watch.taps is not None:
            taps.stepped(self.units, layer, held, cache, grouped, watch)
        out = held.pools.attend(held.current.plans, layer, grouped)
        return out.reshape(len(q), -1)

    def prompt_attention(self, layer: int, q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
        """Attention of a prompt without later tokens: that of scheme `fp16`, without pages (D-leankv-49)."""
        return self.backend.attention(q, k, v, self._scale, 0, self.model.score_rule(layer)).reshape(len(q), -1)

    def _prompt(self, layer: int, held: Held, q: np.ndarray, watch: Watch) -> np.ndarray:
        """One layer of a prompt; after the last one its tokens are compressed, unless the engine does that."""
        if layer == 0:
            held.start_prompt(len(q))
        out = self.prompted(layer, held.current.prompt, held[layer], q, watch)
        if layer == len(held) - 1 and not held.engine:
            self.compress(held.pools, {held.names[0]: held.current.prompt}, watch)
        return out

    def prompted(self, layer: int, prompt: Prompt, cache: LayerCache, q: np.ndarray, watch: Watch) -> np.ndarray:
        """Attention of a prompt; `prompt` receives the arrays for the compressor."""
        out, significance = self.units.prompt(q, cache.key, cache.value, self._scale)
        for stored, array in (
            (prompt.keys, cache.key),
            (prompt.values, cache.value),
            (prompt.sums, significance.sum),
            (prompt.shares, significance.share),
        ):
            stored.append(array)
        if watch.taps is not None:
            taps.prompted(self.units, layer, q, cache, significance.share, self._scale, watch)
        return out.reshape(len(q), -1)

    def compress(self, pools: Pools, prompts: Mapping[int, Prompt], watch: Watch) -> None:
        """Write prompts into their pages, and count the outcomes of the tokens of all layers and KV heads."""
        classes = pools.compress(prompts)
        if watch.taps is not None:
            taps.compressed(self.units, pools, prompts, classes, watch)
        for pool in pools.pools:
            sizes: list[int] = [pool.manager.requests.table[name].prompt for name in prompts]
            seen = sum(sizes) * self.model.blocks * pool.manager.shape.heads
            kept = int(integers.total(pool.manager.lengths(list(prompts))))
            watch.count("tokens_written", kept)
            watch.count("tokens_pruned", seen - kept)

    def planned(self, held: Held, watch: Watch) -> None:
        """Count the reads of a planned step in all its layers, and the outcomes of tokens."""
        for pool, plan in zip(held.pools.pools, held.current.plans, strict=True):
            size, heads = pool.layouts.high.head_size, plan.moves[0].size
            read = [
                int(integers.total(plan.lengths[..., section])) * page.config.token_bytes(size)
                for section, page in enumerate(pool.layouts.sections)
            ]
            watch.count("bytes_read", read[0] + read[1])
            watch.count("bytes_read_fp16", 4 * size * heads * int(integers.total(plan.positions + 1)))
            watch.count("tokens_written", plan.moves.size)
            watch.count("tokens_requantized", int(np.count_nonzero(plan.moves)))
            watch.count("tokens_pruned", plan.moves.size - int(np.count_nonzero(plan.grown)))


def require_plain_scores(model: Model) -> None:
    """Raise Refused for features that attention over pages lacks: a soft cap, ALiBi, another scale (D-leankv-67)."""
    sizes: Any = model.config
    absent = {
        "soft cap of the logits": sizes.attention_cap != 0,
        "ALiBi": sizes.positions == "alibi",
        f"scale of 1 / sqrt({sizes.scale_dim})": sizes.scale_dim not in (None, sizes.head_dim),
    }
    more = [name for name, there in absent.items() if there]
    if more:
        raise Refused(f"leankv: attention over pages lacks {' and '.join(more)}, which {model.name} needs")


def require_within_window(sizes: ModelConfig, tokens: int) -> None:
    """Raise Refused for a text longer than a sliding window of the model (D-leankv-67)."""
    window = sizes.shortest_window
    if window and tokens > window:
        raise Refused(
            "leankv: pages have no sliding window, so a text must have at most the "
            f"{window} tokens of the model's window, got {tokens}"
        )


def prepare(config: LeanKvConfig, model: Model, backend: Backend, calibration: Any, progress: Progress) -> LeanKv:
    """Round the weights as scheme `fp16` does. calibration: not used."""
    return LeanKv(model, config, backend, progress)
