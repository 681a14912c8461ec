"""Variants of the decision of prefix_sum."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from refemu.units import Config, Variant
from refemu.units.leankv.prefix_sum import BITS


def _exclusive(config: Config, inputs: Mapping[str, np.ndarray], result: Any) -> dict[str, np.ndarray]:
    """Blelloch's network gives the sum before each element, the start of its region."""
    counts = np.asarray(inputs["counts"]).astype(np.uint64).reshape(result.inclusive.shape)
    begins = result.inclusive.astype(np.uint64) + (np.uint64(1) << np.uint64(BITS)) - counts
    return {"inclusive": (begins % (1 << BITS)).astype(result.inclusive.dtype)}


def _saturated(config: Config, inputs: Mapping[str, np.ndarray], result: Any) -> dict[str, np.ndarray]:
    """No count is negative, so a chain of saturating adders gives the exact sum or the largest word."""
    counts = np.asarray(inputs["counts"]).astype(np.uint64).reshape(result.inclusive.shape)
    exact = np.add.accumulate(counts, axis=-1) + np.asarray(inputs["base"]).astype(np.uint64)[..., None]
    return {"inclusive": np.minimum(exact, (1 << BITS) - 1).astype(result.inclusive.dtype)}


def _relative(config: Config, inputs: Mapping[str, np.ndarray], result: Any) -> dict[str, np.ndarray]:
    """A network that forgets the base of the ring: regions begin at place 0."""
    base = np.asarray(inputs["base"]).astype(np.uint64)[..., None]
    relative = result.inclusive.astype(np.uint64) + (np.uint64(1) << np.uint64(BITS)) - base
    return {"inclusive": (relative % (1 << BITS)).astype(result.inclusive.dtype)}


VARIANTS: tuple[Variant, ...] = (
    Variant("D-leankv-39", "Blelloch's network: sums are exclusive", answer=_exclusive),
    Variant("D-leankv-39", "adders saturate at 32 bits", answer=_saturated),
    Variant("D-leankv-39", "the base is not added: places relative to it", answer=_relative),
)
