"""A serving simulator: requests arrive, are admitted, generate, are preempted and finish, on pages of a GPU.

Paper: [leankv §5.3, §6.1, §7.4]. `simulate` counts by `page_manager` and takes times from bytes and operations.
"""

from refemu.models.schemes.leankv.scheduler import PREEMPTIONS, Preemption, Scheduler
from refemu.models.schemes.leankv.serving.gpu import GPUS, Gpu
from refemu.models.schemes.leankv.serving.report import Report
from refemu.models.schemes.leankv.serving.setting import Setting
from refemu.models.schemes.leankv.serving.simulation import simulate
from refemu.models.schemes.leankv.serving.trace import Arrival, drawn, read

__all__ = [
    "GPUS",
    "PREEMPTIONS",
    "Arrival",
    "Gpu",
    "Preemption",
    "Report",
    "Scheduler",
    "Setting",
    "drawn",
    "read",
    "simulate",
]
