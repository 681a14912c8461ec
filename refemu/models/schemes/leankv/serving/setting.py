"""Parameters of a simulation: model, GPU, scheduler."""

from dataclasses import dataclass

from refemu.models.schemes.leankv.scheduler import Preemption
from refemu.models.schemes.leankv.serving.shares import Quality


@dataclass(frozen=True)
class Setting:
    """Parameters of a simulation."""

    model: str | None = None  #: a model that runs, instead of a shape
    shape: str = "llama-2-7b"  #: a name of `refemu.models.machine.shapes`
    gpu: str = "l40"  #: a name of `GPUS`
    workers: int = 1  #: GPUs, among which heads and matrices are divided
    memory_share: float = 0.9  #: share of the memory for weights and pages
    slots: int = 256  #: most requests that run at once
    preemption: Preemption = "recompute"  #: see `Scheduler`
    seed: int = 0  #: seed of the significance of tokens
    quality: Quality | None = None  #: row of Table 1 that sets the shares; None: lossless
    high_share: float | None = None  #: share of tokens at the high precision, instead of a quality
    pruned_share: float | None = None  #: share of pruned tokens
    context: int | None = None  #: most tokens of a request; None: those of the longest one
    check: bool = False  #: whether the memory manager is checked after every call, which takes long
