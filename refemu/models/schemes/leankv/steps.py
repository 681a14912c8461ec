"""Steps of a LeanKV scheme: compiled, or with backend `numpy` the readable units.

Paper: [leankv §4, §6]. Both give the same bits; the scheme names the steps and their order.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from refemu import units
from refemu.arith import fp16, fp32
from refemu.arith.orders import Sequential
from refemu.models.backend import Backend
from refemu.models.schemes.leankv.config import LeanKvConfig
from refemu.units.leankv.page_manager import PageManager, Shape
from refemu.units.leankv.paged_attention import Arithmetic, Pages
from refemu.units.leankv.significance import Significance, significance
from refemu.units.stepping import Result

ROWS = 128  #: queries whose probabilities are in memory at a time


@dataclass(frozen=True, eq=False)
class Classes:
    """Outcome of the tokens of prompts."""

    cls: np.ndarray  #: (..., N)
    order: np.ndarray  #: (..., N) positions
    low: np.ndarray  #: (...) tokens at the low precision
    high: np.ndarray  #: (...) tokens at the high precision, with the window


class Units:
    """The units under one configuration; G query heads share each of the H KV heads."""

    def __init__(self, config: LeanKvConfig, backend: Backend, pages: Pages) -> None:
        self.config: LeanKvConfig = config
        self.backend: Backend = backend
        self.pages: Pages = pages
        self.arithmetic: Arithmetic = arithmetic(config)
        self._compiled = backend.name == "jit"
        self._modules: dict[str, Any] = {}

    def __repr__(self) -> str:
        return f"Units({self.config!r}, {self.backend!r})"

    def unit(self, name: str) -> Any:
        """The module of a unit, or of its compiled form."""
        if name not in self._modules:
            self._modules[name] = units.module(name, self._compiled)
        return self._modules[name]

    def manager(self, shape: Shape) -> PageManager:
        """A memory manager."""
        manager: PageManager = self.unit("page_manager").PageManager(**vars(shape))
        return manager

    def probabilities(self, q: np.ndarray, k: np.ndarray, scale: np.float32, first: int, end: int) -> np.ndarray:
        """Attention of queries first to end - 1 of a prompt to its tokens: float32 (H, end - first, G, N); 0: hidden.

        q: (N, H * G, F), k: (N, H, F), fp16 values. The steps of scheme `fp16` up to the softmax (D-leankv-49).
        """
        tokens, heads = len(q), k.shape[1]
        group = q.shape[1] // heads
        hidden = np.arange(tokens) > np.arange(first, end)[:, None]
        result = np.empty((heads, end - first, group, tokens), np.float32)
        for shared in range(heads):
            keys = self.backend.weights(fp16.to_f16(k[:, shared]))
            for g in range(group):
                rows = np.ascontiguousarray(q[first:end, shared * group + g])
                logits = self.backend.matmul(rows, keys, "fp32") * scale
                result[shared, :, g] = self._softmax(np.where(hidden, np.float32(-np.inf), logits))
        return result

    def _softmax(self, logits: np.ndarray) -> np.ndarray:
        if not self._compiled:
            return fp32.softmax32(logits, Sequential())
        from refemu.arith import fp32_compiled

        return fp32_compiled.softmax32(logits, Sequential())

    def prompt(self, q: np.ndarray, k: np.ndarray, v: np.ndarray, scale: np.float32) -> tuple[np.ndarray, Result]:
        """Attention of a prompt as scheme `fp16` computes it, (N, H * G, F), and the significance of its tokens (H, N).

        q: (N, H * G, F), k, v: (N, H, F), fp16 values.
        """
        if self._compiled:
            from refemu.units.leankv.significance import compiled as significance_compiled

            device = self._device(q, k)
            attended = significance_compiled.attended(device, q, k, v, scale)
            if attended is not None:
                with np.errstate(all="ignore"):
                    return attended[0], significance_compiled.finish(device, attended[1])
        significance = self.significance(q, k, scale)
        return self.backend.attention(q, k, v, scale, 0), significance

    def _device(self, q: np.ndarray, k: np.ndarray) -> Significance:
        return Significance(len(q), q.shape[1] // k.shape[1], **self.scoring())

    def scoring(self) -> dict[str, Any]:
        """Parameters of significance, except its sizes."""
        config, (queries, include_self) = self.config, self.scores()
        return {
            "score_queries": queries,
            "include_self": include_self,
            "normalize": config.of("normalize"),
            "gqa": config.gqa,
            "gqa_order": config.gqa_order,
        }

    def significance(self, q: np.ndarray, k: np.ndarray, scale: np.float32) -> Result:
        """Significance of the tokens of a prompt, (H, N); arguments as for `probabilities`."""
        device, tokens, heads = self._device(q, k), len(q), k.shape[1]
        if not self._compiled:
            return significance.of_prompts(
                self.probabilities(q, k, scale, 0, tokens),
                score_queries=device.score_queries,
                include_self=device.include_self,
                normalize=device.normalize,
                gqa=device.gqa,
                gqa_order=device.gqa_order,
            )
        from refemu.units.leankv.significance import compiled as significance_compiled

        sums = np.zeros((heads, device.sums, tokens), np.float32)
        start = max(0, tokens - (device.score_queries or tokens))
        for first in range(start, tokens, ROWS):
            p = self.probabilities(q, k, scale, first, min(first + ROWS, tokens))
            significance_compiled.add_rows(device, sums, significance.require_p(p), first)
        with np.errstate(all="ignore"):
            return significance_compiled.finish(device, sums)

    def scores(self) -> tuple[int | None, bool]:
        """`score_queries` and `include_self` as parameters of the units."""
        return self.config.of("score_queries") or None, self.config.of("include_self")

    def classify(self, share: np.ndarray) -> Classes:
        """Classes and order of prompts: patterns (..., N) of their shares."""
        lanes = share.shape[-1]
        compressed = self.unit("prompt_compressor").run(
            share,
            self.config.window,
            self.limits(),
            tokens=lanes,
            **self.classifying(),
        )
        return Classes(
            compressed.cls.reshape(share.shape),
            compressed.order.reshape(share.shape).astype(np.int64),
            compressed.n_low.astype(np.int64),
            lanes - compressed.n_pruned.astype(np.int64) - compressed.n_low,
        )

    def limits(self) -> np.ndarray:
        """Thresholds of prompts, float32 patterns."""
        return patterns(self.config.thresholds(self.config.of("rule")))

    def classifying(self) -> dict[str, Any]:
        """Parameters of prompt_compressor, except its tokens."""
        config = self.config
        return {
            "rule": config.of("rule"),
            "order": config.of("sort"),
            "low_cumsum": config.low_cumsum,
            "keep_percent": config.keep_percent,
        }

    def deciding(self) -> dict[str, Any]:
        """Parameters of generation_compressor, except its slots."""
        config, (queries, include_self) = self.config, self.scores()
        return {
            "policy": config.of("policy"),
            "score_rule": config.score_rule,
            "low": config.low is not None,
            "keep_percent": config.keep_percent,
            "score_queries": queries,
            "include_self": include_self,
            "epoch": "position_epoch" in config.quirks,
        }

    def decide(
        self,
        score: np.ndarray,
        position: np.ndarray,
        n_high: np.ndarray,
        n_low: np.ndarray,
        n: np.ndarray,
        prompt: np.ndarray,
    ) -> Any:
        """Decisions of heads (...), with score patterns and positions (..., slots)."""
        config, parameters = self.config, self.deciding()
        limits = patterns(config.thresholds(parameters["policy"]))
        unit, slots = self.unit("generation_compressor"), score.shape[-1]
        if not self._compiled:
            return unit.run(score, position, n_high, n_low, n, prompt, config.window, limits, slots=slots, **parameters)
        alone = [np.broadcast_to(np.asarray(x), n_high.shape) for x in (n_high, n_low, n, prompt, config.window)]
        device = unit.GenerationCompressor(slots, **parameters)
        return unit.decide(device, [score, position, *alone, np.broadcast_to(limits, (*n_high.shape, 2))])


def arithmetic(config: LeanKvConfig) -> Arithmetic:
    """The arithmetic of the attention over pages."""
    return Arithmetic(
        order=config.order,
        fma=config.fma,
        softmax_div=config.of("softmax_div"),
        softmax_eps=config.of("softmax_eps"),
        lane_max="lane_max" in config.quirks,
        partition_tokens=config.of("partition_tokens"),
        partition_score="partition_score" in config.quirks,
        include_self=config.of("include_self"),
        gqa=config.gqa,
    )


def patterns(thresholds: tuple[float, float]) -> np.ndarray:
    """float32 patterns of two thresholds."""
    return np.array(thresholds, np.float32).view(np.uint32)
