"""Linear layers of a Harmonia scheme: BFP times INT4, mode M8W4 [harmonia §III-D, §IV-B].

The rows of all layers that read one input form one matrix, since outputs do not depend on each other.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from refemu.arith import fp16
from refemu.formats.groupint import GroupIntTensor
from refemu.formats.harmonia.bfp import BfpTensor
from refemu.models.prepared import tensors
from refemu.models.prepared.prepared_cache import NOWHERE, PreparedCache
from refemu.models.schemes.fp16.layers import slices
from refemu.models.schemes.harmonia.steps import Units
from refemu.models.weights import files


class Linear:
    """Linear layers that read one input."""

    def __init__(
        self,
        names: Sequence[str],
        outputs: Sequence[int],
        rows: Callable[[], np.ndarray],
        biases: Sequence[np.ndarray],
        units: Units,
        prepared_cache: PreparedCache = NOWHERE,
    ) -> None:
        """Quantize the weights, or read them from the cache.

        names: "blk.3.q", with as many `outputs` each. rows: makes their concatenated matrices, float32 (outputs,
        inputs). biases: one each, or none. prepared_cache: cache of INT4 weights, or of FP16 ones.
        """
        self.names: tuple[str, ...] = tuple(names)
        self.units: Units = units
        self.columns: list[slice] = slices(outputs)
        self.quantized: bool = units.config.weights == "int4"  #: INT4 weights, else FP16
        name = "+".join(names)
        self._right: Any = (
            self._prepare(prepared_cache, name, rows) if self.quantized else self._halves(prepared_cache, name, rows)
        )
        self.bias: np.ndarray | None = fp16.to_f16(np.concatenate(biases)).astype(np.float32) if biases else None

    def __repr__(self) -> str:
        return f"Linear({', '.join(self.names)})"

    def _prepare(self, prepared_cache: PreparedCache, name: str, rows: Callable[[], np.ndarray]) -> Any:
        """INT4 weights as the right operand of a product."""
        if prepared_cache.folder is None:
            return self.units.prepare(self.units.quantize(rows()))
        from refemu.formats.harmonia.compiled import bfp_dot as bfp_dot_compiled

        def make() -> dict[str, np.ndarray]:
            return bfp_dot_compiled.arrays(self.units.prepare(self.units.quantize(rows())))

        return bfp_dot_compiled.of_arrays(prepared_cache.item(f"{name}.int4", make), self.units.config.weight_format())

    def _halves(self, prepared_cache: PreparedCache, name: str, rows: Callable[[], np.ndarray]) -> Any:
        """FP16 weights as the right operand of a product."""
        return tensors.matrix(prepared_cache, self.units.backend, f"{name}.fp16", lambda: files.narrow(rows()))

    @property
    def weight(self) -> GroupIntTensor | None:
        """INT4 weights; with backend `jit` built at each call from the codes in the kernel's order; or None."""
        return self.units.prepared_weights(self._right) if self.quantized else None

    def direct(self, x: np.ndarray) -> list[np.ndarray] | None:
        """The layers of fp16 values (tokens, inputs) in float32, or None if the input must be a tensor."""
        if not self.quantized or not self.units.compiled:
            return None
        from refemu.models.schemes.harmonia.compiled import linear as harmonia_linear_compiled

        totals = harmonia_linear_compiled.sums(self.units.config, x, self._right)
        return None if totals is None else self.finish(totals)

    def sums(self, a: BfpTensor) -> np.ndarray:
        """FP32 sums (tokens, outputs), without the bias; FP16 weights times decoded activations, in ascending order."""
        if not self.quantized:
            return self.units.backend.matmul(self.units.decode(a), self._right, "fp32")
        return self.units.dot_int(a, self._right)

    def __call__(self, a: BfpTensor) -> list[np.ndarray]:
        """fp16 values (tokens, outputs) of every layer."""
        return self.finish(self.sums(a))

    def accumulated(self, y: np.ndarray) -> np.ndarray:
        """Inputs of FP2Half: the sums, with the bias if it is added before (D-harmonia-29)."""
        return y + self.bias if self.bias is not None and self.units.config.bias_add == "accumulator" else y

    def finish(self, y: np.ndarray) -> list[np.ndarray]:
        """Outputs from the sums; a bias is added after FP2Half, or before (D-harmonia-29)."""
        y = self.units.half(self.accumulated(y))
        if self.bias is not None and self.units.config.bias_add == "after":
            y = self.units.half(y + self.bias)
        return [y[:, part] for part in self.columns]
