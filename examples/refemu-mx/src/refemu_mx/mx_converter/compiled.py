"""Compiled form of mx_converter: magnitudes by tables, then the kernel of mx_encoder."""

from collections.abc import Sequence

import numpy as np

from refemu.units import compiled_run
from refemu_mx.elements import Element
from refemu_mx.mx_converter import UNIT, MxConverter
from refemu_mx.mx_encoder.compiled import encoded


@compiled_run(UNIT)
def run(converter: MxConverter, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray]) -> Sequence[int]:
    """Convert every block."""
    source, target = converter.formats
    scales, codes = (each.astype(np.int64) for each in inputs)
    m, e, finite = tables(source)
    exponents = e[codes] + scales[:, None] - 127
    known = finite[codes].all(axis=-1) & (scales != 255)
    return encoded(target, converter.rule, codes >> (source.width - 1), m[codes], exponents, known, outputs)


def tables(fmt: Element) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """m, e and whether it is a number, of every code."""
    codes = np.arange(1 << fmt.width)
    if fmt.exp_bits == 0:
        return np.minimum(codes, (1 << fmt.width) - codes), np.full(len(codes), fmt.lsb), np.ones(len(codes), np.bool_)
    size = codes & ((1 << (fmt.width - 1)) - 1)
    field, fraction = size >> fmt.man_bits, size & ((1 << fmt.man_bits) - 1)
    m = np.where(field == 0, fraction, fraction | 1 << fmt.man_bits)
    return m, fmt.lsb + np.maximum(field, 1) - 1, size <= fmt.largest_code
