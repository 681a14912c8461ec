"""What devices that make a block of scale and codes have in common: their state, and how an operation ends."""

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Any, ClassVar, TypeVar

from refemu.units import Stepped


@dataclass(frozen=True)
class BlockState:
    """Everything after a block but the inputs."""

    event: str  #: "reset": no block yet; "encode": a block of values is encoded; "convert": a block gets other elements
    index: int  #: number of the event since reset, from 0; -1 at reset
    scale: int
    codes: tuple[int, ...]
    clipped: int
    blocks: int  #: blocks made
    clips: int  #: blocks with `clipped` set


S = TypeVar("S", bound=BlockState)


class BlockDevice(Stepped[S]):
    """Device that makes blocks; one event is one block."""

    does: ClassVar[str]  #: name of the event

    def _open(self, *inputs: Any) -> S:
        scale, codes, clipped = self.block(*inputs)
        done: S = self.latched(*inputs, event=self.does, scale=scale, codes=codes, clipped=clipped)
        self.state = replace(done, blocks=done.blocks + 1, clips=done.clips + clipped)
        return self.state

    @abstractmethod
    def block(self, *inputs: Any) -> tuple[int, tuple[int, ...], int]:
        """Scale, codes and whether an element was clipped."""
