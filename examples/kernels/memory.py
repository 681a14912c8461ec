"""What the memory kernels in numba.cuda and Triton share: the fp16 metadata of a group. No refemu here."""

import numpy as np

UNDERFLOW, OVERFLOW, ZERO_OVERFLOW, CONSTANT = 1, 2, 4, 8  #: flags of `status`


def answers(least: np.ndarray, most: np.ndarray, steps: np.ndarray, words: np.ndarray) -> dict[str, np.ndarray]:
    """Outputs of kv_quantizer: the range and the step as float32, both stored words, codes and flags."""
    with np.errstate(over="ignore"):
        scale, zero = steps.astype(np.float16), (np.float32(0) - least).astype(np.float16)
    status = UNDERFLOW * ((least != most) & (scale == 0)) + OVERFLOW * np.isinf(scale)
    status += ZERO_OVERFLOW * np.isinf(zero) + CONSTANT * (least == most)
    return {
        "out.mn": least.view(np.uint32),
        "out.mx": most.view(np.uint32),
        "out.s32": steps.view(np.uint32),
        "out.inv32": np.zeros(len(steps), np.uint32),
        "out.scale": scale.view(np.uint16),
        "out.zero": zero.view(np.uint16),
        "out.words": words,
        "out.status": status,
    }
