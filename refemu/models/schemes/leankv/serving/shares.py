"""Shares of tokens that heads prune, or store at the low or the high precision, where no model runs [leankv §7.2].

Table 1 has the size of the codes on MMLU, the benchmark by which [leankv §7.4] sets its thresholds. Without loss
nothing is pruned, so the size gives the share of high tokens. With 5 % loss, small models also prune: refemu assumes
equal parts of both precisions. 70B models use K4V2 with K4V1, which are given by the scheme.
"""

from typing import Literal, TypeAlias, get_args

import numpy as np

from refemu.arith import prng
from refemu.arith.checks import Refused, lookup, require_choice
from refemu.formats.leankv.hetero_kv import HeteroKV
from refemu.units.declaration import decides

Quality: TypeAlias = Literal["lossless", "five-percent"]
TABLE1: dict[str, tuple[float, float]] = {
    "llama-2-7b": (0.228, 0.115),
    "llama-2-70b": (0.214, 0.159),
    "llama-3-8b": (0.267, 0.206),
    "llama-3-70b": (0.215, 0.161),
    "mistral-7b": (0.289, 0.136),
    "mixtral-8x7b": (0.201, 0.089),
}  #: size of the codes on MMLU in shares of fp16, without loss and with at most 5 %
UNPRUNED = ("llama-2-70b", "llama-3-70b")
SPREAD = 0.5  #: heads differ from the mean by up to this share of it


@decides("D-leankv-69")
def of_table(shape: str, quality: Quality, high: HeteroKV, low: HeteroKV, features: int) -> tuple[float, float]:
    """Shares of high and of pruned tokens that give the size of Table 1. Refused: no pair of these sizes gives it."""
    require_choice(quality, get_args(Quality), "simulate", "quality")
    lossless, lossy = lookup("shape of Table 1", shape, TABLE1)
    most, least = (pair.payload_bytes(features) / (4 * features) for pair in (high, low))
    prunes = quality == "five-percent" and shape not in UNPRUNED
    size = lossless if quality == "lossless" or prunes else lossy
    share = (size - least) / (most - least)
    if not 0 <= share <= 1:
        raise Refused(
            f"shares: {high.name} with {low.name} takes {least:.4f} to {most:.4f} of fp16, and Table 1 has {size} for "
            f"{shape}; give --high-share, or other precisions"
        )
    kept = lossy / lossless if prunes else 1.0
    return share * kept, 1 - kept


@decides("D-leankv-69")
def of_heads(heads: int, high: float, pruned: float, seed: int) -> np.ndarray:
    """Limits of `draws` for every head, (heads, 2): a head with more high tokens prunes fewer."""
    limits = []
    for word in prng.words(prng.stream("serving/heads", seed), 0, heads).tolist():
        way = SPREAD * ((word >> 32) / (1 << 31) - 1)
        more = min(high * (1 + way), 1.0)
        less = min(pruned * (1 - way), 1 - more)
        limits.append([int(less * (1 << 32)), int((1 - more) * (1 << 32))])
    return np.array(limits, np.int64)
