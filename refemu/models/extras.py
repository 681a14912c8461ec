"""Libraries of the extra `models`, imported at first use."""

import importlib
from typing import Any

from refemu.arith.checks import Refused


def need(module: str, purpose: str) -> Any:
    """The module `module`; if it is not installed, raise Refused with the command that installs it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        missing = module.partition(".")[0]
        raise Refused(f"{purpose} needs the library {missing} ({error}); run: pip install {missing}") from None
