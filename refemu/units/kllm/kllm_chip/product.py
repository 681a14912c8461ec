"""Whole products on the lanes, every edge of each, by readable or compiled lanes; a function of the outputs.

Paper: [kllm §III-B, §III-D, §IV-A, Fig. 6].
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from refemu.arith.checks import require_choice
from refemu.formats import Codebook, KllmArith, KMeansTensor
from refemu.formats.kllm.kllm_arith import Preset
from refemu.units import stepping
from refemu.units.kllm.functional import Softmax, functional
from refemu.units.kllm.index_matmul import Norm, Scores, require_problem
from refemu.units.kllm.kllm_chip.lanes import LaneArray
from refemu.units.kllm.kllm_chip.plan import Operands, operands, passes
from refemu.units.kllm.kllm_chip.sizes import ChipSizes
from refemu.units.kllm.pe_lane import UNIT as LANE

#: function of the outputs: none, or one of the Functional Unit
Function = Literal["none", "exp", "sqrt", "recip", "softmax"]
#: counter of the chip -> that of the Functional Unit
APPLIED = {"function_cycles": "cycles", "exps": "exps", "roots": "roots", "divides": "divides"}
Apply = Callable[..., functional.Result]  #: `functional.apply`, or its compiled form


@dataclass(frozen=True, eq=False)
class Product(stepping.Result):
    """Outputs of a product, and counters of all lanes; `cycles` are edges of the chip."""

    y: np.ndarray  #: float16, rows of A by columns of B
    overflow: np.ndarray  #: bool, the same shape: not finite
    cycles: int  #: edges until the last output
    count_cycles: int  #: lane-edges in which counters count
    stalls: int  #: lane-edges in which they wait with positions to count
    merge_cycles: int  #: lane-edges in which a histogram is merged
    mac_cycles: int  #: lane-edges in which MACs are not idle
    tiles: int  #: tiles of all lanes
    concats: int  #: Concat registers written, padding included
    indices: int  #: positions counted
    lookups: int  #: counts multiplied by an entry
    macs_reduce: int  #: MACs that reduce counts
    macs_sparse: int  #: MACs of the sparse path
    dequants: int  #: centroids multiplied by a scale
    mults_scale: int  #: products of two scales
    adds_merge: int  #: sums of both paths
    overflows: int  #: outputs that are not finite
    batches: int  #: parts of the batch, each of which fits the buffers
    z: np.ndarray | None = None  #: float16: the function of the outputs; None without one
    function_cycles: int = 0  #: cycles of the Functional Unit, after the edges of the lanes
    exps: int = 0  #: exponentials of the Functional Unit
    roots: int = 0  #: square roots of the Functional Unit
    divides: int = 0  #: divisions and reciprocals of the Functional Unit


def matmul(
    a: KMeansTensor | Scores,
    b: KMeansTensor,
    *,
    chip: ChipSizes | None = None,
    preset: Preset | KllmArith = "paper",
    products: Codebook | None = None,
    bias: np.ndarray | None = None,
    norm: Norm | None = None,
    seen: ArrayLike | None = None,
    function: Function = "none",
) -> Product:
    """Multiply matrices on the lanes of a chip: the bits of `index_matmul.matmul`, edge by edge. [kllm §IV-A, Table I]

    Operands are those of `index_matmul.matmul`, with fp16 accumulators and tables: bias float16 (N,), seen: columns
    that each row sees. chip: by default that of [kllm Table I]. function: applied by the Functional Unit to the outputs
    of every row; the preset rounds softmax. Raises Refused as `index_matmul.matmul` does, if the lanes do not have the
    arithmetic, a buffer is too small for one row, an output for the Functional Unit is NaN or +Inf, or a row of softmax
    has no finite one.
    """
    require_choice(function, get_args(Function), "kllm_chip", "function")
    task = require_problem(a, b, preset, products, bias, norm, seen)
    words = operands(task)
    done = on_lanes(words, task.shape, chip or ChipSizes())
    return applied(done, words, function, task.arith.softmax, functional.apply)


def applied(product: Product, words: Operands, function: Function, softmax: Softmax, apply: Apply) -> Product:
    """Apply the function to every row of outputs, over the columns that it sees; z is 0 elsewhere [kllm §IV-A, Fig.
    6].
    """
    if function == "none":
        return product
    widths, y = words.limits[:, 1], product.y.reshape(len(words.a), len(words.b))
    unseen = np.arange(len(words.b)) >= widths[:, None]
    functional.require_values(np.where(unseen & (widths > 0)[:, None], np.float16(-np.inf), y), function)
    z, counts = np.zeros_like(y), dict[str, Any](dict.fromkeys(APPLIED, 0))
    for row in np.flatnonzero(widths).tolist():
        here = row, slice(widths[row])
        done = apply(y[here], op=function, **({"softmax": softmax} if function == "softmax" else {}))
        z[here] = done.y
        counts = {name: count + getattr(done, APPLIED[name]) for name, count in counts.items()}
    return replace(product, z=z.reshape(product.y.shape), **counts)


def on_lanes(words: Operands, shape: tuple[int, ...], sizes: ChipSizes) -> Product:
    """Step the lanes through a product; shape: of the result. [kllm §III-B, §IV-A]

    Raises Refused if a buffer is too small for one row.
    """
    batches, bits = parts(words, sizes)
    array = LaneArray(sizes, words.a_bits, words.b_bits, words.integer, bits)
    array.begin(words, passes(words, sizes))
    edges = 0
    while array.busy:
        array.edge()
        edges += 1
    states = [lane.state for lane in array.lanes]
    counts = dict.fromkeys(LANE.counters, 0)
    for state in states:
        counts = {name: count + getattr(state, name) for name, count in counts.items()}
    return result(array.y, shape, {**counts, "cycles": edges}, batches)


def parts(words: Operands, sizes: ChipSizes) -> tuple[int, int]:
    """Number of parts of the batch that fit the buffers, and the width of a count."""
    (rows, k), n = words.a.shape, len(words.b)
    at_once = sizes.rows_at_once(k, n, words.a_bits, words.table.size)
    return -(-rows // at_once), sizes.counter_bits(k, words.a_bits, words.integer)


def result(y: np.ndarray, shape: tuple[int, ...], counts: dict[str, int], batches: int) -> Product:
    """Words and counters as a Product."""
    words, counters = y.reshape(shape), dict[str, Any](counts)
    return Product(words.view(np.float16), words & 0x7C00 == 0x7C00, batches=batches, **counters)
