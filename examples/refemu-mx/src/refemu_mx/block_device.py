"""What devices that make a block of scale and codes have in common: what they count, and how an operation ends."""

from abc import abstractmethod
from typing import Any

from refemu.units import Changes, Combinational


class BlockDevice(Combinational):
    """Device that makes blocks; one event is one block."""

    counters = {"blocks": "blocks made", "clips": "blocks with `clipped` set"}

    def made(self, *inputs: Any) -> Changes:
        """What a block changes."""
        scale, codes, clipped = self.block(*inputs)
        return {"scale": scale, "codes": codes, "clipped": clipped, "blocks": 1, "clips": clipped}

    @abstractmethod
    def block(self, *inputs: Any) -> tuple[int, tuple[int, ...], int]:
        """Scale, codes and whether an element was clipped."""
