"""Compiled form of kv_quantizer: all groups of one width go through the compiled `Affine.encode` together.

Paper: [leankv §2.2 Eq. (2)].
"""

from collections.abc import Sequence

import numpy as np

from refemu.arith import fp16
from refemu.formats.leankv.compiled import affine as affine_compiled
from refemu.units.derivation import Arrays, compiled_run
from refemu.units.leankv.kv_quantizer import UNIT, KvQuantizer


@compiled_run(UNIT)
def run(device: KvQuantizer, inputs: Arrays, outputs: Arrays) -> Sequence[int]:
    """Width by width, the tensors of the compiled format."""
    x, width = fp16.values(inputs[0]), inputs[1]
    *columns, words, status, element, written = outputs
    words[...], element[...] = 0, device.features
    for bits, fmt in device.formats.items():
        rows = np.flatnonzero(width == bits)
        if not rows.size:
            continue
        tensor, ends = affine_compiled.encode(fmt, x[rows]), affine_compiled.ends(fmt, x[rows])
        values = *ends, tensor.s32, tensor.inv32, tensor.scale, tensor.zero
        for column, value in zip((*columns, status), (*values, tensor.status), strict=True):
            column[rows] = np.asarray(value)[:, 0]
        codes = tensor.words()
        written[rows] = codes.shape[1]
        words[rows, : codes.shape[1]] = codes
    return [len(width) * count for count in counters(device)]


def counters(device: KvQuantizer) -> tuple[int, int, int, int]:
    """Comparisons, divisions, multiplications and roundings of one group: every group takes the same."""
    features, multiplies = device.features, device.formats[8].quant_div == "recip_mul"
    return 2 * (features - 1), 2 if multiplies else 1 + features, features if multiplies else 0, features
