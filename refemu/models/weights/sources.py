"""Weights of a model as parts of the tensors of a file: renamed, sliced from fused ones, transposed, shifted by 1."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from refemu.arith.checks import Refused
from refemu.models.config import ModelConfig
from refemu.models.encoder.config import BIAS
from refemu.models.weights.checkpoint import require_blocks, require_same
from refemu.models.weights.files import WeightFile, half, narrow


@dataclass(frozen=True)
class Source:
    """Place of a weight in a file."""

    raw: str  #: name of the tensor
    shape: tuple[int, ...]  #: shape of the tensor
    transpose: bool = False  #: whether the tensor is (in, out)
    first: int = 0  #: first row of the weight in the (out, in) tensor
    count: int | None = None  #: number of rows; None: all that follow
    #: the tensor has rows (groups, parts, rows of a part); the weight is this part of every group; None: no parts
    part: tuple[int, int, int] | None = None
    plus: float = 0.0  #: added to every value, in float32

    def cut(self, tensor: np.ndarray) -> np.ndarray:
        """Slice the weight from the tensor."""
        rows = tensor.T if self.transpose else tensor
        if self.part is not None:
            number, parts, size = self.part
            rows = rows.reshape(-1, parts, size, *rows.shape[1:])[:, number].reshape(-1, *rows.shape[1:])
        rows = rows[slice(self.first, None if self.count is None else self.first + self.count)]
        return np.ascontiguousarray(rows + np.float32(self.plus) if self.plus else rows)


class Converted:
    """The weights of a file under canonical names and in canonical shapes."""

    def __init__(
        self,
        file: WeightFile,
        config: ModelConfig,
        source: Callable[[str], Source],
        unused: tuple[str, ...] = (),
        head: str = "lm_head.weight",
    ) -> None:
        """source: place of a weight. unused: tensors that may exist. head: the output matrix, if it is tied."""
        require_blocks(file, config.blocks)
        self.file: WeightFile = file
        self._shapes = config.shapes
        self._sources = {name: source(name) for name in config.shapes}
        wanted = {place.raw: place.shape for place in self._sources.values()}
        require_same(file, wanted, config.meaning, (*unused, *([head] if config.tied_head else [])))
        if config.tied_head and head in file.names and not np.array_equal(file.tensor(head), self.tensor("embed")):
            raise Refused(f"{file.path}: tensor {head} must be equal to the embedding, as tie_word_embeddings says")

    def __repr__(self) -> str:
        return f"Converted({self.file!r})"

    @property
    def names(self) -> tuple[str, ...]:
        """Canonical names in model order."""
        return tuple(self._sources)

    def shape(self, name: str) -> tuple[int, ...]:
        """Shape of a weight."""
        return self._shapes[name]

    def tensor(self, name: str) -> np.ndarray:
        """A weight as float32, decoded at every call."""
        source = self._sources[name]
        return source.cut(self.file.tensor(source.raw))

    def half(self, name: str) -> np.ndarray:
        """A weight rounded once to fp16."""
        source = self._sources[name]
        if source.plus:  # the sum is rounded, not its terms
            return narrow(self.tensor(name))
        return source.cut(half(self.file, source.raw))


def raw_name(name: str, table: Mapping[str, str], blocks: str, start: str = "") -> tuple[str, str]:
    """The part that a canonical name ends with, without the suffix of a bias, and the tensor's name.

    table: names by part. blocks: prefix of a block number, "model.layers.". start: prefix of other names.
    """
    prefix, _, part = name.removesuffix(BIAS).rpartition(".")
    before = f"{blocks}{prefix.removeprefix('blk.')}." if prefix else start
    return part, before + table[part] + (BIAS if name.endswith(BIAS) else ".weight")
