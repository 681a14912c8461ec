"""Registration of refemu's types with hypothesis, in either order of import."""

import importlib
import sys


def register() -> None:
    """Give the types of `refemu.formats` their strategies once formats and hypothesis are both loaded, else nothing.

    Called by hypothesis (entry point `refemu.testing:register`) and by `refemu.formats` when they are imported. Every
    project of an environment pays for the former, so nothing is loaded for it.
    """
    if "refemu.formats" in sys.modules and "hypothesis.strategies" in sys.modules:
        importlib.import_module("refemu.testing.types")
