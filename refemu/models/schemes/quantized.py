"""Decoders whose linear layers multiply values quantized in any way; everything else is scheme `fp16`.

The base of a plug-in's schemes: such a scheme only quantizes weights and inputs.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from refemu.arith.checks import Refused, RefusedType
from refemu.models.backend import Backend
from refemu.models.model import Model
from refemu.models.schemes.fp16.decoder import Fp16
from refemu.models.schemes.fp16.layers import columns
from refemu.models.schemes.scheme import Progress, Scheme
from refemu.models.taps import Watch

Weight: TypeAlias = Callable[[str, np.ndarray], np.ndarray]  #: weight("blk.3.q", fp16 rows (outputs, inputs))
Activation: TypeAlias = Callable[[np.ndarray], np.ndarray]  #: activation(float32 (tokens, inputs))


class Quantized(Fp16):
    """A decoder, or part of one, whose linear layers multiply the results of two functions."""

    def __init__(
        self,
        model: Model,
        config: Scheme,
        backend: Backend,
        progress: Progress,
        weight: Weight,
        activation: Activation,
    ) -> None:
        self._weight, self._activation = weight, activation
        super().__init__(model, config, backend, progress)

    def linear(self, layer: int, names: Sequence[str], x: np.ndarray, watch: Watch) -> Sequence[np.ndarray]:
        """As in scheme `fp16`, on the quantized input."""
        return super().linear(layer, names, values(self._activation(x), x.shape, "an activation"), watch)

    def _prepare_group(self, model: Model, layer: int, names: Sequence[str]) -> Any:
        full = [f"blk.{layer}.{name}" for name in names]
        rows = [self._quantized(name, model.half(name)) for name in full]
        return self.backend.weights(np.concatenate(rows)), columns(rows)

    def _quantized(self, name: str, rows: np.ndarray) -> np.ndarray:
        return values(self._weight(name, rows), rows.shape, f"weight {name}")


def values(array: np.ndarray, shape: tuple[int, ...], thing: str) -> np.ndarray:
    """Values from a plug-in's function; Refused: another shape; RefusedType: not float32."""
    if not isinstance(array, np.ndarray) or array.dtype != np.float32:
        got = getattr(array, "dtype", type(array).__name__)
        raise RefusedType(f"quantized: {thing} must be float32, got {got}")
    if array.shape != shape:
        raise Refused(f"quantized: {thing} must have shape {shape}, got {array.shape}")
    return array
