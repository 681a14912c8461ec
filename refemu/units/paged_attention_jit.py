"""Compiled twins of paged_attention: `run` on ports, and `attend` over all heads of a layer and all requests at once.

Paper: [leankv §6.2]. Read paged_attention.py first. Kernels: `paged_heads` and `paged_scores` of arith/float_jit.py.
Pages are decoded one by one into a small buffer, tokens of a key and features of a value side by side.
"""

from functools import lru_cache
from typing import Any

import numpy as np

from refemu.arith import float_jit, fp16
from refemu.arith.fp16_jit import plain, ready, to_f32
from refemu.units.paged_attention_parts import PAPER, Arithmetic, Attended, Pages, empty, require

COLUMNS = 13  #: of `layout` in float_jit


@lru_cache(maxsize=32)
def _layout(pages: Pages) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """`layout`, and the words of a page's packs of token 0, keys and values, for both sections."""
    layout, sections = np.empty((2, COLUMNS), np.int64), pages.sections
    words = [np.zeros((2, max(counts)), np.int64) for counts in zip(*((page.key_packs, page.value_packs)
                                                                       for page in sections), strict=True)]
    for s, page in enumerate(sections):
        base = {name: byte // 2 for name, byte in page.offsets.items()}
        pair = page.config
        sign = -1 if pair.key(pages.preset).zero == "neg_min" else 1
        layout[s] = (page.tokens, pair.k_bits, pair.v_bits, base["key_meta"], base["val_meta"], pair.k_groups,
                     pair.v_groups, page.k_group * page.k_vec, page.v_group * page.v_vec, page.v_vec, sign,
                     base["score"], base["pos"])
        for table, part in zip(words, ("key", "val"), strict=True):
            own = page.slot_words[0, page.parts[part]]
            table[s, : len(own)] = own
    return layout, words[0], words[1]


@lru_cache(maxsize=64)
def _settings(pages: Pages, arithmetic: Arithmetic) -> np.ndarray:
    """`settings` of the kernels."""
    kernel, chunk = arithmetic.order == "kernel", pages.chunk(arithmetic)
    return np.array([float_jit.FP32_FMA if arithmetic.fma else float_jit.FP32, arithmetic.softmax_div == "recip_mul",
                     arithmetic.lane_max, pages.high.k_group if kernel else 1, pages.rows if kernel else 0,
                     chunk // pages.sections[0].tokens, chunk // pages.sections[1].tokens,
                     chunk * arithmetic.partition_score], np.int64)


def attend(pages: Pages, q: np.ndarray, images: np.ndarray, cells: np.ndarray, lengths: np.ndarray,
           arithmetic: Arithmetic = PAPER) -> Attended:
    """As `paged_attention.attend`."""
    require(pages, q, images, cells, lengths)
    out, p = attend_unchecked(pages, to_f32(q), images, cells, lengths, arithmetic)
    return Attended(fp16.narrow(out), p)


def attend_unchecked(pages: Pages, q: np.ndarray, images: np.ndarray, cells: np.ndarray, lengths: np.ndarray,
                     arithmetic: Arithmetic = PAPER) -> tuple[np.ndarray, np.ndarray]:
    """out (..., G, F) and p (..., G, tokens) for fp16-valued float32 q and operands that `require` lets pass.

    out is float32 of fp16 values: for a model, whose activations are carried so.
    """
    ready()
    out, p = empty(q, lengths)
    scale = np.float32(1 / np.sqrt(np.float64(pages.high.head_size)))
    heads, features = q.shape[-2:]
    with np.errstate(all="ignore"):
        float_jit.paged_heads(
            plain(q).reshape(-1, heads, features), images, _rows(cells, np.int32), _rows(lengths, np.int64),
            *_layout(pages), scale, np.float32(arithmetic.softmax_eps), _settings(pages, arithmetic),
            out.reshape(-1, heads, features), p.reshape(-1, heads, p.shape[-1]))
    return out, p


def add_scores(pages: Pages, images: np.ndarray, cells: np.ndarray, lengths: np.ndarray, p: np.ndarray,
               newest: Any, include_self: bool = False) -> None:
    """As `paged_attention.add_scores`."""
    rows = _rows(lengths, np.int64)
    position = np.broadcast_to(np.asarray(newest, np.int64), lengths.shape[:-1]).reshape(-1).copy()
    with np.errstate(all="ignore"):
        float_jit.paged_scores(images, _rows(cells, np.int32), rows, _layout(pages)[0],
                               np.full_like(position, -1) if include_self else position,
                               plain(p).reshape(-1, *p.shape[-2:]))


def _rows(array: np.ndarray, dtype: Any) -> np.ndarray:
    return plain(array.astype(dtype, copy=False)).reshape(-1, array.shape[-1])
