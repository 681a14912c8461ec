"""Registration of refemu's types with hypothesis, in either order of import."""

import importlib
import sys


def register() -> None:
    """Register strategies for the types of `refemu.formats` once formats and hypothesis are both loaded.

    hypothesis (entry point `refemu.testing:register`) and `refemu.formats` call this when they are imported. The former
    happens in every project of an environment, so this function loads nothing for it.
    """
    if "refemu.formats" in sys.modules and "hypothesis.strategies" in sys.modules:
        importlib.import_module("refemu.testing.types")
