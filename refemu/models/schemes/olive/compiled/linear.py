"""Linear layers of the OliVe schemes for one token: weights are read as pairs of 4 bits [olive §3.4, §4].

Read linear.py first. A token reads every weight once, so its time is that of the bytes read: half a byte a weight
instead of the two of a panel. For 4-bit integer pairs whose sums surely fit 32 bits.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from refemu.arith.fp16_compiled import ready
from refemu.arith.jit import quiet
from refemu.arith.threads import share_out, worth
from refemu.formats.olive.compiled import ovp as ovp_compiled
from refemu.formats.olive.kernels.products import fixes, outlier_places, pair_products, pair_values, suits
from refemu.formats.olive.ovp import Ovp

NAMES = ("words", "starts", "places")  #: arrays of an item of a prepared model


class Packed(NamedTuple):
    """Weights of all layers of a part, as the kernel reads them."""

    format: Ovp
    words: np.ndarray  #: uint8 (outputs, pairs)
    starts: np.ndarray  #: int64 (outputs + 1,)
    places: np.ndarray  #: int32: pairs with an outlier


class Sums(NamedTuple):
    """A token's product."""

    pairs: np.ndarray  #: words of the encoded input (1, pairs)
    exact: np.ndarray  #: sums, int32 (1, outputs)
    outputs: np.ndarray  #: float32 (1, outputs)


def arrays(formats: Sequence[Ovp], words: Sequence[np.ndarray]) -> dict[str, np.ndarray]:
    """Arrays for `of_arrays` of weights with these formats; empty if the kernel does not read them."""
    if len(set(formats)) > 1 or not suits(formats[0]):
        return {}
    joined = np.concatenate(words)
    return dict(zip(NAMES, (joined, *outlier_places(joined, formats[0])), strict=True))


def of_arrays(fmt: Ovp, item: Mapping[str, np.ndarray]) -> Packed | None:
    """The weights with these `arrays`."""
    return Packed(fmt, *(item[name] for name in NAMES)) if NAMES[0] in item else None


class TokenProduct:
    """The product of a token with a part: what does not depend on the token is looked up once."""

    def __init__(self, fmt: Ovp, scale: np.float32, weights: Packed, rescale: np.ndarray) -> None:
        """fmt, scale: of the input. rescale: float32 (outputs,). Sums of magnitudes must be below 2**31."""
        ready()
        self._encoder = ovp_compiled.VectorEncoder(fmt, scale)
        self._values = pair_values(fmt)
        self._rows = weights.words, weights.starts, weights.places, fixes(weights.format), rescale
        self.suits: bool = self._values is not None and self._encoder.suits  #: whether it computes at all

    def __repr__(self) -> str:
        return f"TokenProduct({self._encoder!r}, {len(self._rows[0])} outputs)"

    def __call__(self, x: np.ndarray) -> Sums | None:
        """x: (1, inputs), float32. None if another form must compute it or reject it."""
        pairs = self._encoder(x[0])
        if pairs is None or len(pairs) != self._rows[0].shape[1]:
            return None
        count = len(self._rows[0])
        sums, out = np.empty((1, count), np.int32), np.empty((1, count), np.float32)

        def run(first: int, last: int) -> None:
            with quiet():
                pair_products(pairs, self._values, *self._rows, sums[0], out[0], first, last)

        share_out(run, count, least=worth(2 * len(pairs)))
        return Sums(pairs[None], sums, out)
