"""Compiled form of v_grouper: all temporary conversions are encoded at once. [harmonia §III-A, Fig. 6b]

A temporary conversion is that of its group with zeros for the missing tokens, which changes no code. Both options of
`growth` give these bits.
"""

from collections.abc import Sequence

import numpy as np

from refemu.arith.jit import kernel
from refemu.formats.harmonia.compiled import bfp as bfp_compiled
from refemu.units.derivation import Arrays, compiled_run
from refemu.units.harmonia.v_grouper import GROUP, UNIT, VGrouper

SIZE = 32  # tokens of a group


@compiled_run(UNIT)
def run(grouper: VGrouper, inputs: Arrays, outputs: Arrays) -> Sequence[int]:
    """Run all tokens."""
    devices, tokens = inputs[0].shape[:2]
    groups = np.zeros((devices, tokens, GROUP, grouper.channels), np.uint16)
    _groups(inputs[0].reshape(devices, tokens, grouper.channels), groups)
    encoded = bfp_compiled.encode(grouper.format, groups, 2, bits=True)
    commit, count, sign, mantissa, exponent, number, *registers = outputs
    count[:] = np.arange(tokens) % GROUP + 1
    commit[:], number[:] = count == GROUP, np.arange(tokens) + 1
    for output, codes in ((sign, encoded.sign), (mantissa, encoded.mantissa), (exponent, encoded.exponent)):
        output[:] = codes.reshape(output.shape)
    for residual in registers:
        residual[:] = np.where(commit[..., None, None], np.uint16(0), groups[:, :, :-1]).reshape(residual.shape)
    rows = _rows(tokens)
    reads = tokens if grouper.growth == "realign" else rows
    return [devices * each for each in (tokens, tokens // GROUP, rows * grouper.channels, reads)]


def _rows(tokens: int) -> int:
    """Rows in the group, summed over the tokens."""
    full, rest = divmod(tokens, GROUP)
    return full * GROUP * (GROUP + 1) // 2 + rest * (rest + 1) // 2


@kernel
def _groups(words, groups):  # type: ignore[no-untyped-def]
    """groups[d, t] <- the rows of t's group up to t."""
    for d in range(words.shape[0]):
        for t in range(words.shape[1]):
            start = t - t % SIZE
            for i in range(start, t + 1):
                for c in range(words.shape[2]):
                    groups[d, t, i - start, c] = words[d, i, c]
