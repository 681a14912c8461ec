"""Compiled twin of v_grouper.run: same arguments, same Result. Read v_grouper.py first. [harmonia §III-A, Fig. 6b]

Every temporary conversion is that of its group with zeros for the tokens to come, which changes nothing; so all of them
are encoded at once. Both ways of growth have these bits.
"""

from math import prod
from typing import Any

import numpy as np

from refemu.arith.jit import kernel
from refemu.formats import bfp_jit
from refemu.units.v_grouper import GROUP, Result, VGrouper

SIZE = 32  # tokens of a group


def run(v: Any, *, channels: int = 64, high: int = 8, growth: str = "reconvert", rounding: str = "truncate") -> Result:
    """As `v_grouper.run`."""
    grouper = VGrouper(channels, high, growth, rounding)
    words = grouper.admitted(v)
    shape = words.shape[: words.ndim - (channels > 1)]
    devices, tokens = prod(shape[:-1]), shape[-1]
    groups = np.zeros((devices, tokens, GROUP, channels), np.uint16)
    _groups(np.ascontiguousarray(words).reshape(devices, tokens, channels).copy(), groups)
    encoded = bfp_jit.encode(grouper.format, groups, 2, bits=True)
    outputs: dict[str, Any] = {port.name: port for port in grouper.ports.outputs}
    count = np.broadcast_to(np.arange(tokens) % GROUP + 1, (devices, tokens))
    found = {
        "commit": count == GROUP,
        "count": count,
        "sign": encoded.sign,
        "mantissa": encoded.mantissa,
        "exponent": encoded.exponent,
        "tokens": np.broadcast_to(np.arange(tokens) + 1, (devices, tokens)),
    }
    for name, port in list(outputs.items()):
        extra = (port.lanes,) if port.lanes > 1 else ()
        outputs[name] = found[name].astype(port.result_dtype).reshape(shape + extra)
    rows = _rows(tokens)
    commits = tokens // GROUP
    reads = tokens if growth == "realign" else rows
    return Result(
        **outputs,
        conversions=devices * tokens,
        commits=devices * commits,
        converted_elements=devices * rows * channels,
        residual_reads=devices * reads,
    )


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
