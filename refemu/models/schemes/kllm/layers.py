"""A decoder under a KLLM scheme: the steps of a block, in the units of the paper [kllm §III-A, §III-C, §III-D].

After a norm the un-normalized x is quantized, its root mean square comes from the counts of its indices, and the
division waits until after the product (D-kllm-18). RoPE comes before the quantization of q and k (D-kllm-34). The
product of SiLU(gate) and up is read as FP16 values and quantized again (D-kllm-16); so is an activation of `up` without
a gate. A bias is added after the products, in FP16 (D-kllm-40).
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from refemu.arith import fp16
from refemu.models.backend import Backend
from refemu.models.model import Model
from refemu.models.schemes.fp16.decoder import Fp16
from refemu.models.schemes.kllm.block import Blocks
from refemu.models.schemes.kllm.cache import IndexCache
from refemu.models.schemes.kllm.calibration import Calibration
from refemu.models.schemes.kllm.config import KllmConfig
from refemu.models.schemes.kllm.operands import Operands
from refemu.models.schemes.kllm.taps import Taps
from refemu.models.schemes.kllm.tensors import NORMED
from refemu.models.schemes.scheme import Progress
from refemu.models.taps import Watch

if TYPE_CHECKING:
    from refemu.models.schemes.kllm.compiled.block import TokenBlocks


class Kllm(Fp16):
    """A decoder under a KLLM scheme, calibrated.

    Counters and taps read the records that the parts of a block return: observers change no part.
    """

    def __init__(
        self, model: Model, config: KllmConfig, backend: Backend, progress: Progress, calibration: Calibration
    ) -> None:
        self.operands: Operands = Operands(model, config, backend, calibration)
        super().__init__(model, config, backend, progress)
        self._blocks = Blocks(self.operands)
        self._token_blocks = self._prepare_token_blocks()

    @property
    def calibration(self) -> Calibration:
        """Result of the offline training."""
        return self.operands.calibration

    def _prepare_token_blocks(self) -> "TokenBlocks | None":
        """The fast path of single tokens; None if it does not apply."""
        if self.backend.name != "jit":
            return None
        from refemu.models.schemes.kllm.compiled import block as block_compiled

        return block_compiled.TokenBlocks(self.operands, self._blocks) if block_compiled.suits(self.operands) else None

    def blocks(self, x: np.ndarray) -> "Blocks | TokenBlocks":
        """The code for x (tokens, ...): the fast path for one token, if there is one, else the units."""
        return self._token_blocks if self._token_blocks is not None and len(x) == 1 else self._blocks

    def norm(self, name: str, x: np.ndarray) -> np.ndarray:
        """x itself if the norm is delayed: see `linear`; else as in scheme `fp16`, q's with the scale (D-kllm-64)."""
        part = name.rpartition(".")[2]
        if part == "q_norm":
            return self.backend.rmsnorm(x, self.backend.round16(self._vectors[name] * self._scale), self._eps)
        delayed = part in NORMED.values() and self.operands.config.norm == "delayed"
        return x if delayed else super().norm(name, x)

    def linear(self, layer: int, names: Sequence[str], x: np.ndarray, watch: Watch) -> Sequence[np.ndarray]:
        """Index products with the weights; after a norm also the norm, whose division comes last."""
        linear = self.blocks(x).linear(layer, names, x)
        counted(watch, x.size, linear.outliers)
        if watch.taps is not None:
            Taps(self.operands, layer, watch).linear(names, linear)
        return linear.outputs

    def cache(self, layer: int) -> IndexCache:
        """Keys and values as indices."""
        (book_k, encode_k), (book_v, encode_v) = (self._encoder(f"blk.{layer}.{name}") for name in "kv")
        size = self.model.kv_heads * self.model.head_dim
        return IndexCache(size, self.model.context, (book_k, encode_k), (book_v, encode_v))

    def _encoder(self, full: str) -> tuple[Any, Callable[[np.ndarray], Any]]:
        """The codebook of an activation, and the function that encodes it."""
        return self.operands.formats[full].codebook, lambda x: self.blocks(x).encode(full, x)

    def attention(self, layer: int, q: np.ndarray, cache: Any, watch: Watch) -> np.ndarray:
        """Index products with K, softmax, integer scores times V."""
        x = q.reshape(len(q), -1)
        attention = self.blocks(x).attention(layer, x, cache)
        counted(watch, x.size, attention.outliers)
        if watch.taps is not None:
            Taps(self.operands, layer, watch).attention(x, attention, cache)
        return attention.context

    def activation(self, layer: int, gate: np.ndarray, up: np.ndarray, watch: Watch) -> np.ndarray:
        """SiLU by a table on gate's indices, then the product of indices, read as FP16."""
        gated = self.blocks(gate).gated(layer, gate, up)
        counted(watch, 2 * gate.size, gated.outliers)
        if watch.taps is not None:
            Taps(self.operands, layer, watch).gated(gate, up, gated)
        return gated.product

    def activate(self, layer: int, up: np.ndarray, watch: Watch) -> np.ndarray:
        """GELU or ReLU by a table on up's indices, read as FP16; always with the units."""
        plain = self._blocks.plain(layer, up)
        counted(watch, up.size, plain.outliers)
        if watch.taps is not None:
            Taps(self.operands, layer, watch).plain(up, plain)
        return plain.values

    def head(self, x: np.ndarray, watch: Watch) -> np.ndarray:
        """FP16 operands; the logits are rounded to FP16, once (D-kllm-36)."""
        if self.operands.arith.acc == "exact":
            return self.operands.units.head(x, self._outputs)
        return self.backend.round16(super().head(x, watch))

    def _prepare_head(self, model: Model) -> Any:
        self._outputs = self._embed if self.model.tied_head else fp16.to_f16(model.tensor("head"))
        return super()._prepare_head(model)

    def _prepare_group(self, model: Model, layer: int, names: Sequence[str]) -> None:
        self.operands.add(model, layer, names)


def counted(watch: Watch, values: int, outliers: int) -> None:
    """Count encoded values and their outliers."""
    watch.count("encoded_values", values)
    watch.count("outliers", outliers)
