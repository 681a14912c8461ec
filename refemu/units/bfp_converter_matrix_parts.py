"""A whole matrix through bfp_converter: what is converted, where codes go, what comes out. [harmonia §IV-C, Fig. 14]"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from refemu.arith.checks import RefusedType, require_choice, require_int
from refemu.formats import Bfp, BfpTensor
from refemu.units.bfp_converter_cases import Block
from refemu.units.bfp_converter_parts import COUNTERS, GROUP, KINDS, LANES, NAME, State, V


@dataclass(frozen=True, eq=False)
class Conversion:
    """What `run` returns: the codes, and the counters of the stream of blocks that made them."""

    tensor: BfpTensor
    blocks: int
    cycles: int  #: clocks from the first column to the last aligned one
    compare_cycles: int
    align_cycles: int
    comparisons: int
    aligned: int

    def equals(self, other: object) -> bool:
        """Equal codes and counters."""
        if not isinstance(other, Conversion):
            return False
        names = ("blocks", "cycles", *COUNTERS)
        return self.tensor.equals(other.tensor) and all(getattr(self, n) == getattr(other, n) for n in names)


def require_matrix(x: Any, kind: str, m: int, *options: str) -> tuple[np.ndarray, Bfp]:
    """The matrix of `run`, and the format of its codes."""
    require_choice(kind, KINDS, NAME, "kind")
    require_int(m, 1, 11, NAME, "m")
    values = np.asarray(x)
    if values.dtype != np.float16 or values.ndim != 2 or not values.size:
        raise RefusedType(
            f"{NAME}: x must be float16 (tokens, channels), at least one of each, got {values.dtype} {values.shape}"
        )
    return np.ascontiguousarray(values), Bfp(m, GROUP, *options)


def place(state: State, origin: Block, codes: list[np.ndarray]) -> None:
    """Write what the clock put out where its elements came from."""
    row = origin.row + (LANES * state.subgroup if state.out_kind == V else 0)
    for lane in range(LANES):
        if state.out_valid >> lane & 1:
            for array, values in zip(codes, (state.sign, state.mantissa, state.exponent), strict=True):
                array[row + lane, origin.column + state.element] = values[lane]
