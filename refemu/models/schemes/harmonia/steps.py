"""Steps of a Harmonia scheme: compiled, or with backend `numpy` the readable definitions.

Paper: [harmonia §IV-A]. Both give the same bits; the scheme names the steps and their order.
"""

from dataclasses import asdict
from typing import Any, NamedTuple

import numpy as np

from refemu.arith import fp16, fp32
from refemu.arith.attention.scores import PLAIN, ScoreRule
from refemu.arith.checks import Refused
from refemu.arith.orders import Sequential
from refemu.formats.groupint import GroupIntTensor
from refemu.formats.harmonia import bfp_dot
from refemu.formats.harmonia.bfp import Bfp, BfpTensor
from refemu.models.backend import Backend
from refemu.models.schemes.harmonia.config import HarmoniaConfig
from refemu.units.harmonia.k_offset import KOffsetGenerator, Offsets


class Scoring(NamedTuple):
    """Operations of a block on its logits."""

    scale: np.float32  #: 1 / sqrt(head_dim), or as the model says
    rule: ScoreRule = PLAIN


class Units:
    """The units under one configuration. FP16 values are float32 arrays, words are uint16."""

    def __init__(self, backend: Backend, config: HarmoniaConfig) -> None:
        self.backend: Backend = backend
        self.config: HarmoniaConfig = config
        self.compiled: bool = backend.name == "jit"

    def __repr__(self) -> str:
        return f"Units({self.backend!r})"

    def words(self, x: np.ndarray) -> np.ndarray:
        """fp16 values as words."""
        if not self.compiled:
            return fp16.bits(fp16.to_f16(x))
        from refemu.arith import fp16_compiled

        return fp16.bits(fp16_compiled.to_f16(x))

    def values(self, words: np.ndarray) -> np.ndarray:
        """Words as fp16 values."""
        if not self.compiled:
            return fp16.to_f32(fp16.values(words))
        from refemu.arith import fp16_compiled

        return fp16_compiled.to_f32(fp16.values(words))

    def encode(self, fmt: Bfp, words: np.ndarray, axis: int = -1, name: str = "") -> BfpTensor:
        """`fmt.encode` of words of any shape; errors begin with `name`, the tensor."""
        try:
            if not self.compiled:
                return fmt.encode(words, axis, bits=True)
            from refemu.formats.harmonia.compiled import bfp as bfp_compiled

            return bfp_compiled.encode(fmt, words, axis, bits=True)
        except Refused as error:
            raise Refused(f"{name}: {error}") from None

    def decode(self, tensor: BfpTensor) -> np.ndarray:
        """Values of a tensor, float32; exact."""
        if not self.compiled:
            return tensor.dequantize().astype(np.float32)
        from refemu.formats.harmonia.compiled import bfp as bfp_compiled

        return bfp_compiled.dequantize(tensor).astype(np.float32)

    def quantize(self, rows: np.ndarray) -> GroupIntTensor:
        """Weights, float32 (outputs, inputs), as INT4."""
        fmt = self.config.weight_format()
        if not self.compiled:
            return fmt.encode(rows)
        from refemu.formats.compiled import groupint as groupint_compiled

        return groupint_compiled.encode(fmt, rows)

    def prepare(self, weights: GroupIntTensor) -> Any:
        """The right operand of `dot_int`."""
        if not self.compiled:
            return weights
        from refemu.formats.harmonia.compiled import bfp_dot as bfp_dot_compiled

        return bfp_dot_compiled.prepare(weights, self.config.group)

    def prepared_weights(self, right: Any) -> GroupIntTensor:
        """The weights prepared by `prepare`."""
        weights: GroupIntTensor = right.tensor if self.compiled else right
        return weights

    def dot_int(self, a: BfpTensor, weights: Any) -> np.ndarray:
        """Activations times INT4 weights, float32 (tokens, outputs)."""
        options: dict[str, Any] = {
            "partial": self.config.partial,
            "product": self.config.product,
            "scale_per": self.config.scale_per,
        }
        if not self.compiled:
            return bfp_dot.bfp_dot_int(a, weights, **options)
        from refemu.formats.harmonia.compiled import bfp_dot as bfp_dot_compiled

        return bfp_dot_compiled.bfp_dot_int(a, weights, **options)

    def dot(self, a: BfpTensor, b: BfpTensor) -> np.ndarray:
        """Activations times activations, float32 (rows of a, rows of b)."""
        if not self.compiled:
            return bfp_dot.bfp_dot(a, b, partial=self.config.partial)
        from refemu.formats.harmonia.compiled import bfp_dot as bfp_dot_compiled

        return bfp_dot_compiled.bfp_dot(a, b, partial=self.config.partial)

    def half(self, x: np.ndarray) -> np.ndarray:
        """FP2Half: float32 rounded to fp16 values, with overflow to infinity or 65504 (D-harmonia-13)."""
        y = self.backend.round16(x)
        return np.where(np.isinf(y), np.copysign(np.float32(fp16.MAX), y), y) if self.config.saturate else y

    def softmax(self, x: np.ndarray) -> np.ndarray:
        """Softmax of rows in ascending order of the keys, rounded to fp16; -inf for invisible keys."""
        if not self.compiled:
            return fp16.round16(fp32.softmax32(x, Sequential()))
        from refemu.arith import fp32_compiled

        return self.backend.round16(fp32_compiled.softmax32(x, Sequential()))

    def offsets(self, rule: Offsets, words: np.ndarray) -> np.ndarray:
        """Offsets, words (channels,), from the first tokens of (tokens, channels) (D-harmonia-26)."""
        window = words[: rule.window]
        if self.compiled:
            from refemu.units.harmonia.k_offset import compiled as k_offset_compiled

            return k_offset_compiled.select(rule, window)[0]
        generator = KOffsetGenerator(**asdict(rule))
        for token, row in enumerate(window, 1):
            generator.step(row, 1, int(token == len(window)))
        for _ in range(generator.chosen):
            generator.go_on()
        return np.array(generator.state.offset, np.uint16).reshape(-1)

    def shift(self, words: np.ndarray, offset: np.ndarray) -> np.ndarray:
        """Keys (tokens, channels) minus the offsets, words; a channel with offset 0 is unchanged."""
        if self.compiled:
            from refemu.units.harmonia.k_offset import compiled as k_offset_compiled

            return k_offset_compiled.shift(words, offset)
        keys, shifts = fp16.values(words), fp16.values(offset)
        less = fp16.bits(fp16.to_f16(fp16.sub16(keys, shifts)))
        return np.where(offset & 0x7FFF != 0, less, words)
