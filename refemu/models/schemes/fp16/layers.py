"""The parts of scheme `fp16` that decoders and encoders share: embedding, linear layers, residual sum [D-arith-15]."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from refemu.arith import fp16
from refemu.arith.operands import Accumulator, Precision
from refemu.models.backend import Backend
from refemu.models.encoder.config import BIAS
from refemu.models.model import Model
from refemu.models.prepared import tensors
from refemu.models.prepared.prepared_cache import Recipe, prepared_cache
from refemu.models.schemes import model_share
from refemu.models.schemes.fp16.config import Fp16Config
from refemu.models.schemes.scheme import Progress, Scheme
from refemu.models.taps import Watch

#: recipe of this scheme's linear layers and embeddings; every scheme with such a layer shares its cached tensors
RECIPE = Recipe("fp16", ("models/schemes/fp16/layers.py", "models/schemes/fp16/decoder.py"))


class Fp16Layers:
    """Parts shared by every kind of model under scheme `fp16`; hidden states are fp16 values held in float32."""

    model: Any  #: sizes of a decoder or an encoder

    def __init__(self, model: Model, config: Scheme, backend: Backend, progress: Progress) -> None:
        self.name: str = model.name
        self.sha256: str = model.sha256
        self.model = model.config
        self.config: Scheme = config
        self.backend: Backend = backend
        self.acc: Accumulator = config.acc if isinstance(config, Fp16Config) else "fp32"
        self.residual: Precision = config.residual
        self._fp16 = prepared_cache(model, backend, RECIPE)
        if model_share.outer(model):
            self._embed = tensors.half(self._fp16, model, "embed")
        self._vectors = {
            name: self._vector(model, name) for name, shape in model.config.shapes.items() if len(shape) == 1
        }
        self._linears = self._prepare_linears(model, progress)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, {self.config!r}, backend={self.backend.name!r})"

    def embed(self, ids: np.ndarray) -> np.ndarray:
        """Rows of the embedding, each rounded once to fp16."""
        return self._embed[ids].astype(np.float32)

    def linear(self, layer: int, names: Sequence[str], x: np.ndarray, watch: Watch) -> Sequence[np.ndarray]:
        """`matmul(order=Sequential(), acc=acc)`, one rounding; the rows of all `names` form one matrix."""
        weights, parts = self._linears[layer, tuple(names)]
        full = [f"blk.{layer}.{name}" for name in names]
        y = self.finish(full, self.backend.matmul(x, weights, self.acc))
        return [y[:, part] for part in parts]

    def finish(self, names: Sequence[str], y: np.ndarray) -> np.ndarray:
        """Outputs from the concatenated float32 sums of the linear layers `names` ("blk.3.q").

        Biases, if any, are fp16 values added in float32; then one rounding.
        """
        biases = self.biases(names)
        return self.backend.round16(y if biases is None else y + biases)

    def biases(self, names: Sequence[str]) -> np.ndarray | None:
        """Concatenated float32 biases of linear layers that read one input, fp16 values; None without biases."""
        there = [self._vectors[name + BIAS] for name in names if name + BIAS in self._vectors]
        return np.concatenate(there) if there else None

    def add(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """float32 sum, rounded to fp16 unless the residual stream is float32."""
        return self.streamed(x + y)

    def streamed(self, x: np.ndarray) -> np.ndarray:
        """A value of the residual stream: rounded to fp16 unless the stream is float32."""
        return self.backend.round16(x) if self.residual == "fp16" else x

    def _vector(self, model: Model, name: str) -> np.ndarray:
        return fp16.to_f16(model.tensor(name)).astype(np.float32)

    def _prepare_linears(self, model: Model, progress: Progress) -> dict[tuple[int, tuple[str, ...]], Any]:
        linears: dict[tuple[int, tuple[str, ...]], Any] = {}
        blocks, kinds = model_share.blocks(model), self.model.groups
        groups = [(layer, names) for layer in blocks for names in kinds]
        progress("weights", 0, len(blocks))
        ready = tensors.together(self._fp16, lambda group: self._prepare_group(model, *group), groups)
        for done, (group, prepared) in enumerate(zip(groups, ready, strict=True), 1):
            linears[group] = prepared
            if done % len(kinds) == 0:
                progress("weights", done // len(kinds), len(blocks))
        return linears

    def _prepare_group(self, model: Model, layer: int, names: Sequence[str]) -> Any:
        return self._fp16_matrix(model, [f"blk.{layer}.{name}" for name in names])

    def _fp16_matrix(self, model: Model, names: Sequence[str]) -> tuple[Any, list[slice]]:
        """Weights rounded to fp16, concatenated to one matrix, and the columns of each."""

        def rows() -> np.ndarray:
            return np.concatenate([model.half(name) for name in names])

        stored = [model.stored_name(name) for name in names]
        prepared = tensors.matrix(self._fp16, self.backend, "+".join(stored), rows)
        return prepared, slices([model.config.shapes[name][0] for name in stored])


def columns(rows: Sequence[np.ndarray]) -> list[slice]:
    """Slices of the outputs of each of the concatenated matrices `rows`."""
    return slices([len(part) for part in rows])


def slices(outputs: Sequence[int]) -> list[slice]:
    """Consecutive slices with these numbers of outputs."""
    ends = np.cumsum(outputs).tolist()
    return [slice(end - count, end) for count, end in zip(outputs, ends, strict=True)]
