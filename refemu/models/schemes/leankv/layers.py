"""A decoder under a LeanKV scheme: scheme `fp16` but for the attention and the cache [leankv §4, §6, §7.4].

A prompt attends like scheme `fp16`, over keys and values that are not quantized, in the same order of sums; its
probabilities are the significance of its tokens (D-leankv-49). Steps attend to the pages.
"""

import copy
from typing import TYPE_CHECKING, Any

import numpy as np

from refemu.arith import integers
from refemu.arith.checks import Refused
from refemu.models.backend import Backend
from refemu.models.cache import Caches
from refemu.models.schemes import leankv_taps
from refemu.models.schemes.fp16 import Fp16
from refemu.models.schemes.leankv import LeanKvConfig
from refemu.models.schemes.leankv_cache import Held, LayerCache, Pools, sum_of
from refemu.models.schemes.leankv_pool import Pool, Prompt
from refemu.models.schemes.leankv_units import Units
from refemu.models.schemes.scheme import Progress

if TYPE_CHECKING:
    from refemu.models.model import Model
    from refemu.models.taps import Watch


class LeanKv(Fp16):
    """A decoder under a LeanKV scheme."""

    lean: LeanKvConfig

    def __init__(self, model: "Model", config: LeanKvConfig, backend: Backend, progress: Progress) -> None:
        self._configure(model.config, config, backend)  # refuses before the weights are prepared
        super().__init__(model, config, backend, progress)

    def _configure(self, sizes: Any, config: LeanKvConfig, backend: Backend) -> None:
        if sizes.kv_heads % config.workers:
            raise Refused(f"leankv: {sizes.kv_heads} KV heads cannot be shared out to {config.workers} workers")
        self.lean, self.units = config, Units(config, backend, config.pages(sizes.head_dim))

    def under(self, config: LeanKvConfig) -> "LeanKv":
        """The same weights under another configuration, nothing prepared anew."""
        other = copy.copy(self)
        other._configure(self.model, config, self.backend)
        other.config = config
        return other

    def pools(self, slots: int) -> Pools:
        """Empty pools for so many requests."""
        shape = self.lean.shape(self.model, slots)
        return Pools([Pool(self.units, shape) for _ in range(self.lean.workers)], self.model.kv_heads)

    def caches(self) -> Caches:
        """Those of one sequence, in pools of its own."""
        return Held(self.model.blocks, self.pools(1))

    def cache(self, layer: int) -> Any:
        """Refused: layers share the pages of a sequence."""
        raise Refused("leankv: layers share one pool of pages; use caches()")

    def attention(self, layer: int, q: np.ndarray, cache: Any, watch: "Watch") -> np.ndarray:
        """Over the prompt itself, or over the pages once the new tokens are in them."""
        held: Held = cache.held
        return held.attend(self, layer, q, watch)

    def prompted(self, layer: int, prompt: Prompt, cache: LayerCache, q: np.ndarray, watch: "Watch") -> np.ndarray:
        """Attention of a prompt; what the compressor needs of it goes into `prompt`."""
        out, found = self.units.prompt(q, cache.key, cache.value, self._scale)
        for stored, array in (
            (prompt.keys, cache.key),
            (prompt.values, cache.value),
            (prompt.sums, found.sum),
            (prompt.shares, found.share),
        ):
            stored.append(array)
        if watch.taps is not None:
            leankv_taps.prompted(self, layer, q, cache, found.share, self._scale, watch)
        return out.reshape(len(q), -1)

    def compressed(self, pools: Pools, names: list[int], watch: "Watch") -> None:
        """Prompts are in their pages: count what became of the tokens, of all layers and KV heads."""
        for pool in pools.pools:
            prompts = [pool.manager.requests.table[name].prompt for name in names]
            seen = sum_of(iter(prompts)) * self.model.blocks * pool.manager.shape.heads
            kept = int(integers.total(pool.manager.lengths(names)))
            watch.count("tokens_written", kept)
            watch.count("tokens_pruned", seen - kept)

    def planned(self, held: Held, watch: "Watch") -> None:
        """A step is planned: count what all its layers will read, and what becomes of the tokens."""
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

    def stepped(self, layer: int, held: Held, cache: LayerCache, q: np.ndarray, watch: "Watch") -> None:
        """One layer of a step is done."""
        if watch.taps is not None:
            leankv_taps.stepped(self, layer, held, cache, q, watch)
