"""The memory manager: allocates pages for all heads of all requests of a call at once, and recycles them."""

from refemu.units.leankv.page_manager.page_manager import UNIT, OutOfPages, PageManager, State, TableOverflow, run
from refemu.units.leankv.page_manager.registers import FINISH, PROMPT, RELEASE, STEP
from refemu.units.leankv.page_manager.requests import Memory, Moved, Request, Shape, memory, up

__all__ = [
    "FINISH",
    "PROMPT",
    "RELEASE",
    "STEP",
    "UNIT",
    "Memory",
    "Moved",
    "OutOfPages",
    "PageManager",
    "Request",
    "Shape",
    "State",
    "TableOverflow",
    "memory",
    "run",
    "up",
]
