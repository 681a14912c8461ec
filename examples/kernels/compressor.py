"""What the compressors in numba.cuda and Triton share: arrays of a set of kv_compressor. No refemu here."""

from typing import Any

import numpy as np

from examples.kernels import host, leankv


def operands(manifest: dict[str, Any], arrays: dict[str, np.ndarray]) -> tuple[np.ndarray, ...]:
    """First rows of the cases, operations, slots (rows, 2), keys and values as float32, tails (rows, 4), layouts.

    A tail is the score and the position, the low half of each first.
    """
    key, value = (arrays[f"in.{name}"].view(np.float16).astype(np.float32) for name in ("key", "value"))
    slots = np.stack([host.int32(arrays[f"in.{name}"]) for name in ("victim", "low_slot")], axis=1)
    pair = np.stack([arrays["in.score"].view(np.uint32), arrays["in.position"].view(np.uint32)], axis=1)
    tails = np.ascontiguousarray(pair, np.uint32).view(np.uint16).astype(np.int32)
    layouts = leankv.layouts(manifest["config"])
    return host.reductions(manifest), host.int32(arrays["in.op"]), slots, key, value, tails, layouts


def results(manifest: dict[str, Any], arrays: dict[str, np.ndarray]) -> tuple[np.ndarray, ...]:
    """Records written and moved, tokens (rows, 2), pages of both sections, as int32 words."""
    rows = manifest["rows"]
    names = ("out.written", "out.moved", "st.high", "st.low")
    written, moved, high, low = (np.zeros((rows, arrays[name].shape[1]), np.int32) for name in names)
    return written, moved, np.zeros((rows, 2), np.int32), high, low


def answers(made: tuple[np.ndarray, ...]) -> dict[str, np.ndarray]:
    """Outputs and registers."""
    written, moved, counts, high, low = made
    found = {"out.written": written, "out.moved": moved, "st.high": high, "st.low": low}
    return found | {"out.n_high": counts[:, 0], "out.n_low": counts[:, 1]}
