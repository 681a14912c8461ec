"""Faulty lanes of KLLM's chip."""

from functools import partial
from typing import Any

import numpy as np

from refemu.golden.files.sets import Golden
from refemu.units.declaration import DeclaredState
from refemu.units.kllm.pe_lane import PeLane
from refemu.units.variant import Variant
from tests.golden.explain.collection import Arrays, decided, outputs
from tests.golden.explain.hands import wired

Changes = dict[str, Any]


class Exchanged(PeLane):
    """B's index is the high part."""

    def _concatenated(self, a: Any, b: Any) -> Any:
        return tuple(index << self.a_bits | a[at % self.positions] for at, index in enumerate(b))


class Unmasked(PeLane):
    """Valid bits are not connected."""

    def load(self, before: DeclaredState) -> Changes:
        return super().load(before) | {"q_valid": (1,) * self.concat}


class TileBefore(PeLane):
    """MACs reduce the histograms of the tile before."""

    def _swapped(self, before: DeclaredState) -> Changes:
        bank = getattr(self, "_bank", (0,) * (self.macs * self.entries))
        self._bank = before.counted
        return super()._swapped(before) | {"reducing": bank}


class Unscaled(PeLane):
    """Centroids enter the sparse path unchanged."""

    def _factor(self, j: int, scale: int, word: int, coded: int) -> int:
        return word


class Uncleared(PeLane):
    """The bank adds to its old contents; counts wrap."""

    def _swapped(self, before: DeclaredState) -> Changes:
        return {name: value for name, value in super()._swapped(before).items() if name != "counted"}

    def _fitting(self, count: int) -> int:
        return count % (1 << self.counter_bits)


def of(kind: type[PeLane]) -> Any:
    """Answers of such a lane."""
    return partial(decided, [Variant("", kind.__name__, unit_class=kind)])


def gated(golden: Golden) -> Arrays:
    """Outputs that are 0 unless new."""
    answers = outputs(golden)
    fresh = answers["out.y_valid"] != 0
    return answers | {name: np.where(fresh[:, None], answers[name], 0) for name in ("out.y", "out.overflow")}


def reversed_macs(golden: Golden) -> Arrays:
    """MAC 0 is the last."""
    return wired(golden, y=lambda words: words[:, ::-1], overflow=lambda words: words[:, ::-1])
