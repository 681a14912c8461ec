"""Tokens into pages, on arrays: planned prompts, single tokens, moves to the low precision.

Paper: [leankv §4, §6.1, Fig. 8].
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from refemu.arith.checks import require_choice
from refemu.formats import UnifiedPage
from refemu.units.declaration import decides
from refemu.units.leankv.kv_quantizer import Preset
from refemu.units.leankv.prompt_compressor import HIGH, LOW, WINDOW

#: Defects of the published code that the pages show (D-leankv-47, D-leankv-48)
QUIRKS = ("score_by_rank", "position_epoch")
EPOCH = 64  #: queries after a token that the published code counts


def write(
    page: UnifiedPage,
    preset: Preset,
    images: np.ndarray,
    pages: Sequence[int] | np.ndarray,
    slots: Sequence[int] | np.ndarray,
    key: np.ndarray,
    value: np.ndarray,
    score: ArrayLike,
    position: ArrayLike,
) -> None:
    """Quantize tokens and put them into slots. [leankv §6.1, Fig. 8]

    images: uint16 (pages, page_bytes / 2), pages, written in place. pages, slots: (count,), page and slot of every
    token. key, value: float16 (count, F), finite vectors. score: scores. position: positions.
    """
    records = page.record(page.config.key(preset).encode(key), page.config.value(preset).encode(value), score, position)
    for image, slot, record in zip(pages, slots, records, strict=True):
        page.write(images[image], slot, record)


@decides("D-leankv-30")
def requantize(
    high: UnifiedPage,
    low: UnifiedPage,
    preset: Preset,
    images: np.ndarray,
    source: Sequence[tuple[int, int]],
    target: Sequence[tuple[int, int]],
) -> None:
    """Move tokens from the high to the low section: decode the stored codes and encode them again. [leankv §4]

    Score and position are unchanged.

    images: uint16 (pages, page_bytes / 2), pages, written in place. source: page and slot of every token in the high
    section. target: page and slot in the low section.
    """
    for (image, slot), (to_image, to_slot) in zip(source, target, strict=True):
        token = high.tokens_of(high.read(images[image], slot), preset)
        record = low.record(
            low.config.key(preset).encode(token.key.dequantize()),
            low.config.value(preset).encode(token.value.dequantize()),
            token.score,
            token.position,
        )
        low.write(images[to_image], to_slot, record)


@dataclass(frozen=True)
class PromptPlan:
    """Places of the retained tokens of a prompt: positions and stored values, in the order of the slots."""

    high: np.ndarray  #: (n_high,) positions of high and window tokens
    low: np.ndarray  #: (n_low,) positions of low tokens
    score: np.ndarray  #: (N,) float32, by position
    position: np.ndarray  #: (N,) int32, by position


def plan_prompt(cls: np.ndarray, order: np.ndarray, score: np.ndarray, quirks: Sequence[str] = ()) -> PromptPlan:
    """Plan the slots of the tokens that prompt_compressor classified, and their score and position segments.
    [leankv §4]

    With `score_by_rank` the token of rank r stores S[r], if the prompt was sorted (D-leankv-48); with `position_epoch`
    a token stores N - min(N - position, 64) (D-leankv-47).

    cls: (N,), classes. order: (N,), positions in the order of prompt_compressor. score: float32 (N,), sums S. quirks:
    some of `QUIRKS`. Raises Refused: an unknown quirk.
    """
    for quirk in quirks:
        require_choice(quirk, QUIRKS, "kv_compressor", "quirks")
    n, ordered = len(order), np.asarray(cls)[order]
    stored = np.asarray(score, np.float32).copy()
    if "score_by_rank" in quirks and not (ordered == WINDOW).all():
        stored[order] = score
    position = np.arange(n, dtype=np.int32)
    if "position_epoch" in quirks:
        position = (n - np.minimum(n - position, EPOCH)).astype(np.int32)
    return PromptPlan(order[(ordered == HIGH) | (ordered == WINDOW)], order[ordered == LOW], stored, position)


def places(page: UnifiedPage, ids: Sequence[int] | np.ndarray, slots: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """Map slots of a section to pages and slots in them: slot r is slot r % N of page r // N. [leankv §5.2]

    ids: pages of the section, in order. slots: slots of the section. Returns `pages, slots`: page id and slot within
    it.
    """
    r = np.asarray(slots)
    return np.asarray(ids)[r // page.tokens], r % page.tokens


def write_prompt(
    high: UnifiedPage,
    low: UnifiedPage | None,
    preset: Preset,
    images: np.ndarray,
    ids: Sequence[Any],
    plan: PromptPlan,
    key: np.ndarray,
    value: np.ndarray,
) -> None:
    """Write the retained tokens of one head's prompt. [leankv §4]

    images: uint16 (pages, page_bytes / 2), pages, written in place. ids: pages of the high and of the low section. key,
    value: float16 (N, F), vectors of the whole prompt.
    """
    put_prompt(write, high, low, preset, images, ids, plan, key, value)


def put_prompt(
    put: Callable[..., None],
    high: UnifiedPage,
    low: UnifiedPage | None,
    preset: Preset,
    images: np.ndarray,
    ids: Sequence[Any],
    plan: PromptPlan,
    *vectors: np.ndarray,
) -> None:
    """`write_prompt` by a readable or a compiled `write`."""
    for page, section, tokens in ((high, ids[0], plan.high), (low, ids[1], plan.low)):
        if page is not None and len(tokens):
            where = places(page, section, np.arange(len(tokens)))
            key, value, *stored = (each[tokens] for each in (*vectors, plan.score, plan.position))
            put(page, preset, images, *where, key, value, *stored)
