"""A model: its sizes, its weights by canonical name, its tokenizer."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from refemu.arith import fp16, panels
from refemu.arith.checks import Refused, at, first_index, lookup
from refemu.models.config import ModelConfig
from refemu.models.encoder.config import EncoderConfig
from refemu.models.tokenizer import ByteTokenizer, Tokenizer

if TYPE_CHECKING:
    from refemu.models.weights.files import Weights


@dataclass(frozen=True, eq=False)
class Model:
    """A model as stored in its file; nothing is prepared or cached."""

    name: str  #: name in the catalogue, or of the file
    config: ModelConfig | EncoderConfig  #: sizes of a decoder or an encoder
    weights: "Weights"  #: by canonical name
    sha256: str  #: digest of the weight file, or of the values without a file
    make_tokenizer: Callable[[], Tokenizer] = ByteTokenizer  #: makes the tokenizer, at its first use

    def __repr__(self) -> str:
        return f"Model({self.name!r}, {self.config!r}, sha256={self.sha256!r})"

    def tensor(self, name: str) -> np.ndarray:
        """Read a weight as float32.

        Parameters
        ----------
        name : str
            Canonical name, one of `config.shapes`; a tied `head` is `embed`.

        Returns
        -------
        ndarray of float32
            Weight; of a linear layer (out, in).

        Raises
        ------
        Refused
            An unknown name; a value that FP16 rounds to infinity.
        """
        values = self.weights.tensor(self.stored_name(name))
        self._require_finite(name, values, np.abs(values) < fp16.OVERFLOW)
        return values

    def half(self, name: str) -> np.ndarray:
        """Read a weight rounded once to fp16.

        Parameters
        ----------
        name : str
            As for `tensor`.

        Returns
        -------
        ndarray of float16
            Weight; read-only and mapped where the file holds float16.

        Raises
        ------
        Refused
            An unknown name; a value that FP16 rounds to infinity.
        """
        from refemu.models.weights import files

        rounded = files.half(self.weights, self.stored_name(name))
        if not panels.peak(rounded) <= fp16.MAX:
            self._require_finite(name, self.tensor(name), np.isfinite(rounded))
        return rounded

    def _require_finite(self, name: str, values: np.ndarray, finite: np.ndarray) -> None:
        if not finite.all():
            index = first_index(~finite)
            value = f"{values[index]}{at(index)}"
            raise Refused(f"{self.name}: tensor {name} must round to a finite FP16 value, got {value}; scale it down")

    def stored_name(self, name: str) -> str:
        """Return the name under which a weight is stored.

        Parameters
        ----------
        name : str
            As for `tensor`.

        Returns
        -------
        str
            `name`; "embed" for a tied head.

        Raises
        ------
        Refused
            An unknown name.
        """
        tied = isinstance(self.config, ModelConfig) and self.config.tied_head
        lookup("tensor", name, dict.fromkeys([*self.config.shapes, *(["head"] if tied else [])]))
        return "embed" if tied and name == "head" else name

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """Tokenizer: text to token ids and back."""
        return self.make_tokenizer()
