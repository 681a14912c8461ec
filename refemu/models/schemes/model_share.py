"""The share of a model that one part of a mix computes, and models whose weights another part changed.

A scheme prepares what its model contains: for a `Share`, the linear layers of some blocks or the attention; for any
other model, everything.
"""

import dataclasses
import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from refemu.models.model import Model
from refemu.models.schemes.scheme import PreparedPart
from refemu.models.weights.files import Weights


@dataclass(frozen=True, eq=False, repr=False)
class Share(Model):
    """A model of which one part of a mix computes a share."""

    blocks: tuple[int, ...] = ()  #: blocks whose norms, linear layers and activations the part computes
    outer: bool = False  #: whether it computes embedding, residual sums, last norm, output matrix
    attends: bool = False  #: whether it computes the attention of all blocks
    scaled: bool = False  #: whether the attention expects queries times 1 / sqrt(head_dim)
    attention: PreparedPart | None = None  #: attention of the mix, prepared first; None: this part

    @property
    def whole(self) -> Model:
        """The whole model."""
        return Model(**{field.name: getattr(self, field.name) for field in dataclasses.fields(Model)})


def blocks(model: Model) -> Sequence[int]:
    """Blocks whose linear layers are computed."""
    return model.blocks if isinstance(model, Share) else range(model.config.blocks)


def outer(model: Model) -> bool:
    """Whether embedding and output matrix are computed."""
    return not isinstance(model, Share) or model.outer


def attends(model: Model) -> bool:
    """Whether the attention is computed."""
    return not isinstance(model, Share) or model.attends


def scaled(model: Model, alone: bool) -> bool:
    """Whether attention expects queries times 1 / sqrt(head_dim); alone: whether it does in a whole model."""
    return model.scaled if isinstance(model, Share) else alone


def whole(model: Model) -> Model:
    """The model of a share, or the model itself."""
    return model.whole if isinstance(model, Share) else model


class Changed:
    """Weights changed by a function."""

    def __init__(self, weights: Weights, change: Callable[[str, np.ndarray], np.ndarray]) -> None:
        """change: of a canonical name and a tensor; returns float32 of the same shape."""
        self._weights, self._change = weights, change

    def __repr__(self) -> str:
        return f"Changed({self._weights!r})"

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all tensors."""
        return self._weights.names

    def shape(self, name: str) -> tuple[int, ...]:
        """Shape of a tensor."""
        return self._weights.shape(name)

    def tensor(self, name: str) -> np.ndarray:
        """A tensor as float32."""
        return self._change(name, self._weights.tensor(name))


def changed(model: Model, what: bytes, change: Callable[[str, np.ndarray], np.ndarray]) -> Model:
    """The model with changed weights. what: name of the change, which goes into the sha256."""
    sha256 = hashlib.sha256(model.sha256.encode() + b"|" + what).hexdigest()
    return dataclasses.replace(model, weights=Changed(model.weights, change), sha256=sha256)
