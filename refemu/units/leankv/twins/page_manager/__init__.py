"""Compiled twins of page_manager [leankv §5.3]: `PageManager` over arrays, and `run`."""

from refemu.units.leankv.twins.page_manager.unit import PageManager, run

__all__ = ["PageManager", "run"]
