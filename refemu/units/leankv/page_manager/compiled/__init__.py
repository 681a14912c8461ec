"""Compiled forms of page_manager [leankv §5.3]: `PageManager` over arrays, and `run`."""

from refemu.units.leankv.page_manager.compiled.page_manager import PageManager, run

__all__ = ["PageManager", "run"]
