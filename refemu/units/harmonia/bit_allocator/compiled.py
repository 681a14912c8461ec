"""Compiled twin of bit_allocator: no event is remembered. [harmonia §III-B]

Every count is a closed form of the number of tokens, and a demotion is where it grows.
"""

from collections.abc import Sequence
from dataclasses import asdict

import numpy as np

from refemu.arith.checks import refuse_as
from refemu.arith.jit import kernel
from refemu.units.derived import Arrays, twin
from refemu.units.harmonia.bit_allocator import UNIT, BitAllocator


@twin(UNIT)
def run(allocator: BitAllocator, inputs: Arrays, outputs: Arrays) -> Sequence[int]:
    """All tokens; devices side by side."""
    (events,) = inputs
    if (events[:, 1:] != 0).any():
        refuse_as(UNIT.run, events, **asdict(allocator))
    for output in outputs:
        output.fill(0)
    demoted = np.zeros(2, np.int64)
    sizes = allocator.n_initial, allocator.n_local, allocator.group
    _run(events.astype(np.int64), *sizes, int(allocator.high > allocator.low), *outputs, demoted)
    return demoted.tolist()


@kernel
def _run(  # type: ignore[no-untyped-def]
    prefill,
    n_initial,
    n_local,
    group,
    differs,
    tokens,
    demote_k,
    k_token,
    demote_v,
    v_group,
    low_tokens,
    low_groups,
    demoted,
):
    first = (n_initial + group - 1) // group
    for device in range(prefill.shape[0]):
        count = np.int64(0)
        before_k, before_v = np.int64(0), np.int64(0)
        for event in range(prefill.shape[1]):
            prompt = prefill[device, event]
            count += max(prompt, 1)
            k = max(count - n_local - n_initial, 0) * differs
            v = max((count - n_local) // group - first, 0) * differs
            tokens[device, event] = count
            low_tokens[device, event] = k
            low_groups[device, event] = v
            if prompt == 0 and k > before_k:
                demote_k[device, event] = True
                k_token[device, event] = count - n_local - 1
                demoted[0] += 1
            if prompt == 0 and v > before_v:
                demote_v[device, event] = True
                v_group[device, event] = first + v - 1
                demoted[1] += 1
            before_k, before_v = k, v
