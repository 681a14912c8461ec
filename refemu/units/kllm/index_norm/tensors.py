"""The norm of a whole K-Means tensor: words for the ports of the unit or its compiled form, outputs as floats.

Paper: [kllm §III-C2].
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from refemu.formats import Codebook, KllmArith, KMeansTensor, squares
from refemu.formats.kllm.kllm_arith import Preset
from refemu.formats.kllm.kmeans_norm import quotient16, require_normed, width
from refemu.units import stepping
from refemu.units.kllm.index_norm.index_norm import IndexNorm, NormKind, run


@dataclass(frozen=True, eq=False)
class Divisors(stepping.Result):
    """Statistics of a norm and operands divided by them, for the matmul that follows; arrays of the vectors' shape."""

    divisor: np.ndarray  #: root mean square, or LayerNorm's standard deviation: float32, float64 where sums are exact
    mean: np.ndarray | None  #: means of LayerNorm, dtype of `divisor`; None for RMSNorm
    folded: np.ndarray | None  #: float16: scale of the dense path; None with an exact accumulator
    divided: np.ndarray | None  #: float16 (..., 2**w): centroids of the weights for the sparse path, if given
    shift: np.ndarray | None  #: float16: mean over deviation; None for RMSNorm
    overflow: np.ndarray  #: bool: a word of the fold is infinite
    indices: int  #: inliers counted
    macs: int  #: multiply-accumulates
    divides: int  #: divisions of the fold

    def of(self, weights: Codebook) -> "Divisors":
        """Divide the centroids of another weight matrix that reads the same vectors; counters are unchanged."""
        if self.folded is None:
            return self
        return replace(self, divided=quotient16(weights.centroids, self.divisor[..., None]))


def divisors(
    a: KMeansTensor,
    *,
    norm: NormKind = "rms",
    eps: float = 0.0,
    preset: Preset | KllmArith = "paper",
    weights: Codebook | None = None,
    vectors: Callable[..., stepping.Result] = run,
) -> Divisors:
    """Compute the divisor of every vector, which divides outputs of its matmul, from counts of indices. [kllm §III-C2]

    a: values before the norm, of fp16 scales, one codebook of fp16 centroids, no zero points. norm, eps and preset are
    those of `IndexNorm`. weights: codebook of a weight matrix, divided for the sparse path. vectors: `run`, or that of
    the compiled form. Raises Refused if a divisor is 0, vectors have no values, or the operand is not valid for a norm.
    """
    require_normed(a)
    config = {"n": a.length, "bits": a.bits, "weight_bits": weights.bits if weights is not None else 1}
    device = IndexNorm(**config, norm=norm, eps=eps, preset=preset)
    mask = a.rows(a.mask)
    x = np.zeros(mask.shape, np.uint16)
    x[mask] = a.outlier
    shape = *a.vectors, a.length
    words = {
        "q": a.rows().reshape(shape),
        "mask": mask.astype(np.uint8).reshape(shape),
        "x": x.reshape(shape),
        "scale": a.scale,
        "centroids": a.codebook.values,
        "weights": Codebook(1, np.zeros(2)).values if weights is None else weights.values,
        "squares": squares(a.codebook, device.arith.table).values,
    }
    inputs = {port.name: words[port.name] for port in device.ports.inputs}
    return _as_floats(vectors(**inputs, **config, norm=norm, eps=eps, preset=preset), device.arith, weights)


def _as_floats(answer: stepping.Result, arith: KllmArith, weights: Codebook | None) -> Divisors:
    """Words as floats, without those of weights if none are given."""
    wide = np.float64 if width(arith) == 64 else np.float32
    unused = answer.rms.size * 2 if weights is None and answer.divided is not None else 0
    return Divisors(
        divisor=answer.rms.view(wide),
        mean=None if answer.mean is None else answer.mean.view(wide),
        folded=None if answer.folded is None else answer.folded.view(np.float16),
        divided=None if weights is None or answer.divided is None else answer.divided.view(np.float16),
        shift=None if answer.shift is None else answer.shift.view(np.float16),
        overflow=np.zeros(answer.rms.shape, np.bool_) if answer.overflow is None else answer.overflow,
        indices=int(answer.indices),
        macs=int(answer.macs),
        divides=int(answer.divides) - unused,
    )
