"""The record of one operation: what it moves, which engines it occupies for how long, and the events that cost energy.

A mechanism that makes the values of an operation, or its compiled or closed form, makes the record.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from refemu.models.machine.system import MEMORY, System


@dataclass(frozen=True)
class Work:
    """Record of one operation."""

    name: str  #: without the block: "q", "logits.0"
    kind: str  #: kind of work: "linear", "attention", ...
    busy: Mapping[str, int] = field(default_factory=dict)  #: engine -> cycles in which it works
    #: edges from the first to the last with every operand at hand; None: the paper gives it no clock
    cycles: int | None = 0
    #: edges from the first to the last while the buffers fill at the port's rate; None: as `cycles` and the transfer
    fed: int | None = None
    bits: Mapping[str, int] = field(default_factory=dict)  #: stream -> bits that pass the port of the memory
    macs: int = 0  #: multiply-accumulates of the dense operation, whatever computes them
    events: Mapping[str, int] = field(default_factory=dict)  #: part -> priced events; by default its busy cycles
    #: names of the operations whose results it reads; None: the one before
    after: tuple[str, ...] | None = None
    #: operations whose results it reads while they come: cycles after their start, and cycles that follow their end
    streams: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    holds: tuple[str, ...] = ()  #: engines that no other operation uses meanwhile; by default those of `busy`

    @property
    def engines(self) -> tuple[str, ...]:
        """Engines that the operation holds from start to end."""
        return self.holds or tuple(self.busy)

    @property
    def bytes(self) -> dict[str, int]:
        """Bytes by stream; a transfer has whole bytes."""
        return {stream: -(-bits // 8) for stream, bits in self.bits.items() if bits}

    def transfer(self, system: System) -> int:
        """Cycles in which its bytes pass the port of the memory."""
        return system.transfer(sum(int(size) for size in self.bytes.values()))

    def priced(self) -> dict[str, int]:
        """Priced events by part."""
        return {MEMORY: sum(int(bits) for bits in self.bits.values()), **self.busy, **self.events}

    def length(self, system: System) -> int | None:
        """Cycles from start to end, alone on the machine, by what the schedule overlaps."""
        if self.cycles is None:
            return None
        transfer = self.transfer(system)
        if system.overlap == "none":
            return transfer + self.cycles
        return max(transfer, self.cycles) if self.fed is None else max(transfer, self.fed)
