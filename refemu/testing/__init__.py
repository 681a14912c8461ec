"""For tests of other people's designs: hypothesis strategies, comparison of bits, saved counterexamples.

    from hypothesis import given
    from refemu.testing import hold, inputs

    @given(inputs("ovp_encoder", "int4"))
    def test_my_encoder(stimulus):
        hold("ovp_encoder", "int4", stimulus, pair=my_encoder(stimulus["value"]))

Importing this module imports nothing: hypothesis and the units are loaded by what is used. Installed, refemu registers
itself with hypothesis (`st.from_type(OvpTensor)` works) and with pytest (`--refemu-save`, fixture `golden`).
"""

import importlib
import sys
from typing import Any

_HOME = {
    "assert_bits_equal": "compare",
    "hold": "compare",
    "codes": "strategies",
    "float16s": "strategies",
    "float32s": "strategies",
    "inputs": "strategies",
    "port_values": "strategies",
    "tensors": "blocks",
    "codebooks": "blocks",
    "PageManagerMachine": "machines",
}

__all__ = sorted(_HOME)  # what `__getattr__` loads


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'refemu.testing' has no attribute {name!r}")
    return getattr(importlib.import_module(f"refemu.testing.{_HOME[name]}"), name)


def register() -> None:
    """What hypothesis calls when it is imported: types of refemu get their strategies, now or when they are imported.

    Every project of an environment pays for this call, so it loads nothing; `refemu.formats` calls it again.
    """
    if "refemu.formats" in sys.modules and "hypothesis.strategies" in sys.modules:
        importlib.import_module("refemu.testing.types").register()
