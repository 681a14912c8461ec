"""Libraries of the extra `models`, imported when they are first needed."""

import importlib
from typing import Any

from refemu.arith.checks import Refused


def need(module: str, purpose: str) -> Any:
    """The module `module`; where it is not installed, a refusal that says how to install it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        missing = module.partition(".")[0]
        raise Refused(f"{purpose} needs the library {missing} ({error}); run: pip install {missing}") from None
