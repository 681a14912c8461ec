"""Compiled twin of bit_allocator.run: same arguments, same Result. Read bit_allocator.py first. [harmonia §III-B]

No event is remembered: every count is a closed form of the number of tokens, and a demotion is where it grows.
"""

from math import prod
from typing import Any

import numpy as np

from refemu.arith.checks import refuse_as
from refemu.arith.jit import kernel
from refemu.units import bit_allocator
from refemu.units.bit_allocator import GROUP, BitAllocator, Result
from refemu.units.unit import admit_events


def run(
    prefill: Any, *, n_initial: int = 32, n_local: int = 64, high: int = 8, low: int = 4, group: int = GROUP
) -> Result:
    """As `bit_allocator.run`."""
    allocator = BitAllocator(n_initial, n_local, high, low, group)
    (events,) = admit_events(allocator.name, allocator.ports.inputs, (prefill,))
    if (events[..., 1:] != 0).any():
        refuse_as(bit_allocator.run, prefill, n_initial=n_initial, n_local=n_local, high=high, low=low, group=group)
    outputs: dict[str, Any] = {port.name: np.zeros(events.shape, port.result_dtype) for port in allocator.ports.outputs}
    flat = prod(events.shape[:-1]), events.shape[-1]
    demoted = np.zeros(2, np.int64)
    _run(
        events.reshape(flat).astype(np.int64),
        n_initial,
        n_local,
        group,
        int(high > low),
        *(output.reshape(flat) for output in outputs.values()),
        demoted,
    )
    return Result(**outputs, demoted_tokens=int(demoted[0]), demoted_groups=int(demoted[1]))


@kernel
def _run(
    prefill,
    n_initial,
    n_local,
    group,
    differs,
    tokens,
    demote_k,
    k_token,  # type: ignore[no-untyped-def]
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
            given = prefill[device, event]
            count += max(given, 1)
            k = max(count - n_local - n_initial, 0) * differs
            v = max((count - n_local) // group - first, 0) * differs
            tokens[device, event] = count
            low_tokens[device, event] = k
            low_groups[device, event] = v
            if given == 0 and k > before_k:
                demote_k[device, event] = True
                k_token[device, event] = count - n_local - 1
                demoted[0] += 1
            if given == 0 and v > before_v:
                demote_v[device, event] = True
                v_group[device, event] = first + v - 1
                demoted[1] += 1
            before_k, before_v = k, v
