"""What the LeanKV kernels in numba.cuda and Triton share: layouts of pages as tables, arrays of a set. No refemu here.

A page has six segments in this order: keys, their metadata, values, their metadata, scores, positions [leankv §5.2].
"""

from typing import Any

import numpy as np

K_VEC, K_GROUP, V_VEC, V_GROUP = 4, 4, 2, 8  #: of the layouts of keys and values [leankv §6.2]
#: columns of a layout: bits, tokens of a page, first words of metadata, values, their metadata, scores, positions
K_BITS, V_BITS, TOKENS, KEY_META, VAL, VAL_META, SCORE, POS = range(8)
COLUMNS = 8


def up(value: int, unit: int) -> int:
    """The next multiple."""
    return -(-value // unit) * unit


def layout(features: int, pair: dict[str, int], size: int) -> list[int]:
    """One row of `layouts`: as many tokens as a page of `size` bytes holds, one scale and zero point for a vector."""
    k_bits, v_bits = pair["k_bits"], pair["v_bits"]
    tokens = size // (features * (k_bits + v_bits) // 8 + 16)
    while True:
        key_meta = up(tokens * features * k_bits // 8, 32)
        val = up(key_meta + 4 * tokens, 128)
        val_meta = val + up(up(tokens, V_VEC) * features * v_bits // 8, 32)
        score = val_meta + up(4 * tokens, 32)
        if up(score + up(8 * tokens, 32), 128) <= size:
            begins = key_meta, val, val_meta, score, score + 4 * tokens
            return [k_bits, v_bits, tokens, *(byte // 2 for byte in begins)]
        tokens -= 1


def layouts(config: dict[str, Any]) -> np.ndarray:
    """int32 (2, COLUMNS): high pages, low pages."""
    rows = [layout(config["head_size"], config[name], config["page_bytes"]) for name in ("high", "low")]
    return np.array(rows, np.int32)


def block(config: dict[str, Any]) -> dict[str, Any]:
    """The block of threads: warps, threads that sum, that share a key; accumulators of a warp, their slots, the sum."""
    return {
        "warps": config.get("warps", 8),
        "sum_threads": config.get("sum_threads", 256),
        "key_threads": config.get("key_threads") or K_GROUP,
        "rows": config.get("value_rows") or 32 // V_GROUP,
        "slots": config.get("value_slots") or V_VEC,
        "in_turn": config.get("join", "tree") == "sequential",
    }


def queries(manifest: dict[str, Any], arrays: dict[str, np.ndarray]) -> np.ndarray:
    """float32 (rows, heads, features)."""
    config = manifest["config"]
    shape = manifest["rows"], config["heads"], config["head_size"]
    return np.ascontiguousarray(arrays["in.q"].view(np.float16).astype(np.float32).reshape(shape))


def images(manifest: dict[str, Any], arrays: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Pages (rows, cells, words) as int32 words, and as float32 values of these words as fp16."""
    config = manifest["config"]
    words = arrays["in.images"].reshape(manifest["rows"], config["cells"], config["page_bytes"] // 2)
    with np.errstate(invalid="ignore"):
        return words.astype(np.int32), np.ascontiguousarray(words.view(np.float16).astype(np.float32))


def answers(manifest: dict[str, Any], made: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Outputs, and the registers that the set holds, as patterns; `made` has float32 values by name."""
    held = {entry["name"] for entry in manifest["arrays"]}
    with np.errstate(over="ignore"):
        found = {"out.out": made["sums"].astype(np.float16).view(np.uint16)}
    found |= {"out.p": made["p"].view(np.uint32), "out.score": made["score"].view(np.uint32)}
    for name in ("logits", "tops", "totals", "acc", "sums"):
        if f"st.{name}" in held:
            found[f"st.{name}"] = made[name].view(np.uint32)
    shapes = {entry["name"]: entry["shape"] for entry in manifest["arrays"]}
    return {name: array.reshape(shapes[name]).astype(np.int64) for name, array in found.items()}
